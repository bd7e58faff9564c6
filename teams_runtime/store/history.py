"""The events of a record in the file that holds them: read in slices where the index says, as the very bytes stored."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from teams_runtime.shared.errors import RecordConflictError, RecordDamagedError, RecordError
from teams_runtime.store.index import Index, Slice, closing_holds, fields_of, find_index
from teams_runtime.store.layout import NOT_HEAD
from teams_runtime.store.reading import open_record, parse, read_closing, read_range
from teams_runtime.store.scanning import Scan, ScanError, read_value, scan

WHOLE_BYTES = 1024 * 1024
"""A record up to this length is read whole and checked whole; of a longer one only what is asked for is read."""
_CHUNK = 1024 * 1024


class IndexedHistory:
    """A record of this package whose index counts.

    Args:
        path: the record file.
        index: what its index says.
        opening: the bytes up to the `[` of the events.
        tail: the bytes after the newest event.
        blob: the whole file, when it is short; else its bytes are read when they are asked for.
    """

    def __init__(self, path: Path, index: Index, opening: bytes, tail: bytes, blob: bytes | None) -> None:
        self.path = path
        self.index = index
        self.opening = opening
        self.tail = tail
        self.blob = blob
        self._starts: list[int] = []  # line starts of the newest events, newest first, as far as they were looked for

    @property
    def head(self) -> dict[str, Any]:
        """The head; a new dict on each call."""
        return self.before | self.after

    @cached_property
    def before(self) -> dict[str, Any]:
        """The fields in front of the events."""
        return self._fields(self.opening + b"]}")

    @cached_property
    def after(self) -> dict[str, Any]:
        """The fields behind the events, without the index."""
        return self._fields(fields_of(self.tail))

    def texts_after(self) -> dict[str, str]:
        """Return the fields behind the events, without the index, as they are spelled."""
        return {field.name: field.text for field in scan(fields_of(self.tail).decode("utf-8")).fields}

    def _fields(self, blob: bytes) -> dict[str, Any]:
        try:
            fields = read_value(blob.decode("utf-8"))
        except (ScanError, UnicodeDecodeError) as error:
            raise RecordDamagedError(self.path, "its head is not JSON; `verify` says where") from error
        return {name: value for name, value in fields.items() if name not in NOT_HEAD}

    def texts(self, positions: Sequence[int]) -> list[str]:
        """Return the text of the events at `positions` (0-based, ascending).

        Raises:
            RecordDamagedError: the bytes there are no UTF-8.
            RecordConflictError: another program wrote the file since it was opened.
        """
        with _Bytes(self) as file:
            found: list[str] = []
            for first, last in _runs(positions):
                begin, end = self._place(first, file), self._place(last, file)
                lines = file.read(begin.offset, end.offset + end.length).split(b"\n")
                if len(lines) != last - first + 1:
                    raise RecordDamagedError(self.path, "its index points beside the events; `verify` says more")
                found += [self._text(line.removesuffix(b",")) for line in lines[:-1]] + [self._text(lines[-1])]
            return found

    def is_current(self) -> bool:
        """Return whether the file ends in the very bytes of this history, and so holds nothing newer."""
        try:
            descriptor = open_record(self.path, follow_links=False)
        except RecordError:
            return False
        try:
            size = os.fstat(descriptor).st_size
            expected = self.index.end + len(self.tail)
            return size == expected and read_range(descriptor, self.index.end, size) == self.tail
        finally:
            os.close(descriptor)

    def up_to_end(self) -> bytes:
        """Return the file up to the end of the newest event."""
        with _Bytes(self) as file:
            return file.read(0, self.index.end)

    def whole(self) -> Scan:
        """Take the whole record apart."""
        return parse(self.path, self.up_to_end() + self.tail)

    def position_of_id(self, event_id: str) -> int | None:
        """Return the position of the event with that id, or None; looks through the whole file."""
        with _Bytes(self) as file:
            if not self.index.plain:
                return self._slow_position(event_id)
            at = self._find(b'\n{"id":"' + event_id.encode() + b'",', file)
            return None if at is None else self._line_breaks(at, file)

    def _find(self, mark: bytes, file: _Bytes) -> int | None:
        for begin in range(self.index.start, self.index.end, _CHUNK):
            hit = file.read(begin, min(begin + _CHUNK + len(mark), self.index.end)).find(mark)
            if hit >= 0:
                return begin + hit
        return None

    def _line_breaks(self, end: int, file: _Bytes) -> int:
        """Return how many line breaks the events have before `end`: the position of the line that follows."""
        begins = range(self.index.start, end, _CHUNK)
        return sum(file.read(begin, min(begin + _CHUNK, end)).count(b"\n") for begin in begins)

    def _slow_position(self, event_id: str) -> int | None:
        for position, text in enumerate(self.texts(range(self.index.count))):
            event = read_value(text)
            if isinstance(event, dict) and event.get("id") == event_id:
                return position
        return None

    def _text(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RecordDamagedError(self.path, "an event is not UTF-8; `verify` says where") from error

    def _place(self, position: int, file: _Bytes) -> Slice:
        return self.index.place_of(position) or self._look_for(position, file)

    def _look_for(self, position: int, file: _Bytes) -> Slice:
        """Find an event that the index does not name: line breaks are counted from the end."""
        back = self.index.count - 1 - position
        while len(self._starts) <= back:
            before = self._starts[-1] - 1 if self._starts else self.index.end
            begin = max(self.index.start, before - _CHUNK)
            block = file.read(begin, before)
            at = len(block)
            while (at := block.rfind(b"\n", 0, at)) >= 0:
                self._starts.append(begin + at + 1)
            if begin == self.index.start and len(self._starts) <= back:
                raise RecordDamagedError(self.path, f"it has fewer events than its index says, {self.index.count}")
        start = self._starts[back]
        end = self._starts[back - 1] - len(b",\n") if back else self.index.end
        return Slice(start, end - start)


class Events(Sequence[Any]):
    """The events of a record as values, each read when it is asked for.

    Args:
        history: where they are.
    """

    def __init__(self, history: IndexedHistory) -> None:
        self._history = history

    def __len__(self) -> int:
        return self._history.index.count

    @overload
    def __getitem__(self, position: int) -> Any: ...
    @overload
    def __getitem__(self, position: slice) -> list[Any]: ...
    def __getitem__(self, position: int | slice) -> Any:
        chosen = range(len(self))[position]
        if isinstance(chosen, range):
            ordered = chosen if chosen.step > 0 else chosen[::-1]
            values = [self._value(text) for text in self._history.texts(ordered)]
            return values if chosen.step > 0 else values[::-1]
        return self._value(self._history.texts([chosen])[0])

    def __iter__(self) -> Iterator[Any]:
        for begin in range(0, len(self), 1000):
            yield from self[begin : begin + 1000]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} events of {self._history.path}>"

    def _value(self, text: str) -> Any:
        try:
            return read_value(text)
        except ScanError as error:
            raise RecordDamagedError(self._history.path, "an event is not JSON; `verify` says where") from error


class _Bytes:
    """The bytes of a history while they are read: from memory, else from the file, if it is still the same record."""

    def __init__(self, history: IndexedHistory) -> None:
        self._history = history
        self._descriptor = -1

    def __enter__(self) -> _Bytes:
        history = self._history
        if history.blob is None:
            self._descriptor = open_record(history.path, follow_links=True)
            found = read_closing(self._descriptor, os.fstat(self._descriptor).st_size)
            if found is None or found[0].token != history.index.token or found[0].count < history.index.count:
                self.__exit__()
                raise RecordConflictError(
                    history.path, "another program wrote the file since it was read; read it again"
                )
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to before `end`."""
        if self._history.blob is not None:
            return self._history.blob[start:end]
        return read_range(self._descriptor, start, end)


def open_history(path: Path, *, follow_links: bool, whole_bytes: int = WHOLE_BYTES) -> IndexedHistory | Scan:
    """Return a record's history: by its index when that counts, else the whole record taken apart.

    Args:
        path: the record file.
        follow_links: whether `path` itself may be a symbolic link.
        whole_bytes: up to this length every byte of the file is checked; of a longer one only the end.

    Raises:
        RecordNotFoundError: there is nothing at `path`.
        RecordDamagedError: it is no record.
    """
    descriptor = open_record(path, follow_links=follow_links)
    try:
        size = os.fstat(descriptor).st_size
        if size > whole_bytes:
            found = read_closing(descriptor, size)
            if found is not None:
                index, tail = found
                return IndexedHistory(path, index, read_range(descriptor, 0, index.start), tail, None)
        blob = read_range(descriptor, 0, size)
    except OSError as error:
        raise RecordDamagedError(path, f"cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    return indexed(path, blob) or parse(path, blob)


def indexed(path: Path, blob: bytes) -> IndexedHistory | None:
    """Return the history of a whole file when every byte is as the store wrote it, else None."""
    index = find_index(blob, len(blob))
    if index is None or not closing_holds(blob[index.end :]) or zlib.crc32(blob[: index.end]) != index.digest:
        return None
    return IndexedHistory(path, index, blob[: index.start], blob[index.end :], blob)


def _runs(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending positions as first and last of each unbroken run."""
    runs: list[tuple[int, int]] = []
    for position in positions:
        if runs and runs[-1][1] == position - 1:
            runs[-1] = (runs[-1][0], position)
        else:
            runs.append((position, position))
    return runs
