"""The record as a value, and the store that makes, reads and lengthens records."""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from teams_runtime.shared.errors import InputError, RecordDamagedError, RecordError, RecordNotFoundError
from teams_runtime.shared.models import PromptContextRuntimeConfig
from teams_runtime.shared.paths import REQUEST_ID, WorkspacePaths, check_request_id
from teams_runtime.shared.prompt_context import Projection, event_json, project_indexed, project_request, select
from teams_runtime.store.appending import Appender
from teams_runtime.store.checking import Verdict, verify_file
from teams_runtime.store.events import Event, stored_event
from teams_runtime.store.folding import OWN_FOLDING, Folding
from teams_runtime.store.history import WHOLE_BYTES, Events, IndexedHistory, open_history
from teams_runtime.store.layout import INDEX_KEY, NOT_HEAD, is_native, lay_out, native_head, prompt_length
from teams_runtime.store.listing import DamagedRecord, RecordSummary, summarize, timestamp
from teams_runtime.store.moving import arriving, plain_bytes
from teams_runtime.store.pruning import Footprint, footprint, remove
from teams_runtime.store.reading import check_owner
from teams_runtime.store.scanning import Scan, ScanError, one_line, read_value
from teams_runtime.store.writing import Disk, make_private_folders, publish, record_lock

__all__ = ["DamagedRecord", "Record", "RecordStore", "RecordSummary", "read_record_file"]


class Record:
    """One record as it was read; a value, it does not follow the file.

    Args:
        path: the record file.
        data: the whole object; None when `history` has it.
        texts: the text of every event as it stands in the file; empty when the record was not read from one.
        history: the record in its file, of which only what is asked for is read.
        folding: how `at` finds an older head.
    """

    __slots__ = ("_data", "_folding", "_history", "_texts", "path")

    def __init__(
        self,
        path: Path,
        data: dict[str, Any] | None = None,
        *,
        texts: Sequence[str] = (),
        history: IndexedHistory | None = None,
        folding: Folding = OWN_FOLDING,
    ) -> None:
        self.path = path
        self._data = data if data is not None or history else {}
        self._texts = texts
        self._history = history
        self._folding = folding

    @property
    def data(self) -> dict[str, Any]:
        """The whole object, unknown fields included, without the store's own index; a long history is read whole.

        Raises:
            RecordDamagedError: the file is damaged in a place that had not been looked at.
            RecordConflictError: another program changed a long record's file since it was opened.
        """
        if self._data is None:
            if self._history is None:
                return {}
            found = self._history.whole()
            self._data, self._texts = _data(found), found.event_texts
        return self._data

    @property
    def request_id(self) -> str:
        """The record's own request id, else the file's name; not checked in a foreign record."""
        stored = self.head.get("request_id")
        return stored if isinstance(stored, str) else self.path.stem

    @property
    def events(self) -> Sequence[Any]:
        """The events in order; none when they are missing, null or not a list. A long history is read as asked for."""
        if self._data is None and self._history is not None:
            return Events(self._history)
        stored = self.data.get("events")
        return stored if isinstance(stored, list) else []

    @property
    def head(self) -> dict[str, Any]:
        """Every field but `events` and the store's bookkeeping; a new dict on each call."""
        if self._data is None and self._history is not None:
            return self._history.head
        return {key: value for key, value in self.data.items() if key not in NOT_HEAD}

    @property
    def seq(self) -> int:
        """How many events there are, which is the number of the newest one."""
        return len(self.events)

    @property
    def native(self) -> bool:
        """Whether this package made the record, so that it can be folded and lengthened."""
        return self._data is None or is_native(self._data)

    @property
    def event_characters(self) -> int:
        """How many characters all event lines have together as a prompt shows them, without line breaks."""
        if self._data is None and self._history is not None:
            return self._history.index.characters
        return sum(prompt_length(self.event_line(position)) for position in range(self.seq))

    def at(self, seq: int) -> Record:
        """Return the record as it stood after event `seq`; a foreign record keeps its head, nobody knows the older one.

        Args:
            seq: 0 (before the first event) to the newest event's number.

        Raises:
            InputError: there is no such event.
        """
        total = self.seq
        if not 0 <= seq <= total:
            raise InputError(f"{self.path}: there is no event {seq}, the record has events 1 to {total}")
        if self._data is None and seq == total:
            return self
        texts = self._history.texts(range(seq)) if self._data is None and self._history else self._texts[:seq]
        events = [read_value(text) for text in texts] if self._data is None else list(self.events[:seq])
        if not self.native:
            data = self.data | {"events": events}
        else:
            folded = self._folding.fold(events)
            data = native_head(self.request_id, folded) | {"events": events}
        return Record(self.path, data, texts=texts, folding=self._folding)

    def event_line(self, position: int) -> str:
        """Return the JSON text of one event on one line, as it is spelled in the file.

        Args:
            position: 0-based, as in the list of events.
        """
        return self.event_lines([range(self.seq)[position]])[0]

    def event_lines(self, positions: Sequence[int]) -> Sequence[str]:
        """Return the lines of several events, as `event_line` does; a long history is opened once for all of them.

        Args:
            positions: 0-based, ascending.
        """
        if self._data is None and self._history is not None:
            return self._history.texts(positions)
        if self._texts:
            return [one_line(self._texts[position]) for position in positions]
        return [event_json(self.events[position]) for position in positions]

    def project(self, config: PromptContextRuntimeConfig | None = None) -> Projection:
        """Return what prompts show of the record; of a long history only the selected events are read.

        Args:
            config: the caps; None means the defaults.
        """
        if self._data is None and self._history is not None:
            with contextlib.suppress(RecordDamagedError):  # an index that lies is no reason to fail: take it all apart
                return self._project_slices(self._history, config or PromptContextRuntimeConfig())
        return project_request(self.data, config, stored_lines=self.event_line)

    def _project_slices(self, history: IndexedHistory, config: PromptContextRuntimeConfig) -> Projection:
        index = history.index
        positions = select(index.count, index.newest(), config).positions
        lines = dict(zip(positions, history.texts(positions), strict=True))
        values = {position: _value(self.path, line) for position, line in lines.items()}
        return project_indexed(
            self.head, index.count, index.newest(), values.__getitem__, config, stored_lines=lines.__getitem__
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and (self.path, self.data) == (other.path, other.data)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Record({str(self.path)!r}, {self.seq} events)"


class RecordStore:
    """The records of one workspace.

    Args:
        paths: the workspace.
        clock: gives the time of new events; it must be aware of its zone.
        new_id: gives a new event id that is never used twice.
        lock_timeout_seconds: how long an append waits for another process's append.
        folding: how the head follows from the events.
        disk: where changes of files are made.
        alternate_from: length in bytes from which a record is kept in two copies that are lengthened in turn.
    """

    def __init__(
        self,
        paths: WorkspacePaths,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        lock_timeout_seconds: float = 30,
        folding: Folding = OWN_FOLDING,
        disk: Disk | None = None,
        alternate_from: int = WHOLE_BYTES,
    ) -> None:
        self._paths = paths
        self._requests = paths.requests
        self._locks = paths.locks
        self._clock = clock
        self._new_id = new_id
        self._timeout = lock_timeout_seconds
        self._folding = folding
        self._disk = disk or Disk()
        self._appender = Appender(folding, self._disk, alternate_from)
        self._prepared = False  # whether the folders were made, or found
        self._fresh: set[str] = set()  # ids drawn here and not used yet

    def new_event(self, type: str, *, actor: str, summary: str, payload: Mapping[str, Any]) -> Event:  # noqa: A002
        """Return an event with a new id and the time of now; `append` gives it its number."""
        event_id = self._new_id()
        self._fresh.add(event_id)
        return {
            "id": event_id,
            "timestamp": timestamp(self._clock()),
            "type": type,
            "actor": actor,
            "summary": summary,
            "payload": dict(payload),
        }

    def create(
        self,
        request_id: str,
        *,
        scope: str,
        body: str,
        requester: str,
        params: Mapping[str, Any],
        sprint_id: str,
        base: Mapping[str, Any],
    ) -> Record:
        """Make a record with its first event, `created`, and return it when it is on the device.

        Raises:
            InputError: the id cannot be used, or there is something of that name.
            EventRefusedError: the scope, body or params are no JSON, or too long.
            RecordError: the file cannot be written.
            WorkspaceError: the folders cannot be made.
        """
        check_request_id(request_id)
        payload = {"scope": scope, "body": body, "requester": requester, "params": dict(params),
                   "sprint_id": sprint_id, "base": dict(base)}  # fmt: skip
        event = self.new_event("created", actor=requester, summary=_first_line(scope), payload=payload)
        line, value = stored_event(event, 1)
        self._fresh.discard(event["id"])
        blob = lay_out(native_head(request_id, self._folding.fold([value])), [line], [value], None)
        return self._place(request_id, blob)

    def load(self, request_id: str) -> Record:
        """Return a record; nothing is changed on disk.

        Raises:
            InputError: the id cannot be one.
            RecordNotFoundError: there is no such record; ids that look alike are named.
            RecordDamagedError: the file is no record.
        """
        path = self._file(request_id)
        try:
            return self._read(path)
        except RecordNotFoundError as error:
            near = get_close_matches(request_id, self._ids(), n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise RecordNotFoundError(path, f"there is no request {request_id!r}{hint}") from error

    def resolve(self, prefix: str) -> str:
        """Return the request id that `prefix` is, or is the beginning of.

        Raises:
            InputError: it begins several ids, which are named, or cannot begin any.
            RecordNotFoundError: it begins none.
        """
        if not REQUEST_ID.fullmatch(prefix):
            check_request_id(prefix)
        found = [one for one in self._ids() if one.startswith(prefix)]
        if prefix in found:
            return prefix
        if len(found) > 1:
            named = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
            raise InputError(f"{prefix!r} begins {len(found)} request ids: {named}")
        return found[0] if found else self.load(check_request_id(prefix)).request_id

    def append(self, request_id: str, event: Event, *, expected_seq: int) -> Record:
        """Add one event and return the record when it is on the device.

        An event whose id is stored already, with the same content apart from its number, is not stored again: the
        current record comes back.

        Args:
            request_id: the record.
            event: see `new_event`.
            expected_seq: how many events the caller has seen.

        Raises:
            EventRefusedError: the event has no place in a record, or its id is taken by another event.
            RecordConflictError: the record has more events than `expected_seq`, or fewer.
            RecordDamagedError: the file is no record that can be lengthened; it is left as it is.
            RecordError: it cannot be locked or written; the record is whole, with or without the event.
        """
        stored = stored_event(event, expected_seq + 1)
        path = self._file(request_id)
        if not path.exists():
            self.load(request_id)
        fresh = event["id"] in self._fresh
        self._fresh.discard(event["id"])
        with self._locked(path):
            history = self._appender.add(path, self._appender.open(path), stored, fresh=fresh)
        return Record(path, history=history, folding=self._folding)

    def project(self, request_id: str, config: PromptContextRuntimeConfig | None = None) -> Projection:
        """Return what prompts show of a record; see `Record.project`.

        Raises:
            RecordNotFoundError: there is no such record.
            RecordDamagedError: the file is no record.
        """
        return self.load(request_id).project(config)

    def list(self) -> builtins.list[RecordSummary | DamagedRecord]:
        """Return a row for every record file, newest request first; a damaged file is a row of its own."""
        rows = [summarize(self._requests / f"{one}.json") for one in self._ids()]
        return sorted(rows, key=lambda row: (row.created_at, row.request_id), reverse=True)

    def verify(self, request_id: str) -> Verdict:
        """Return everything that is wrong with a record; nothing on disk is changed.

        Raises:
            RecordNotFoundError: there is no such record; ids that look alike are named.
        """
        path = self._file(request_id)
        if not os.path.lexists(path):
            self.load(request_id)
        return verify_file(path, self._folding, in_store=True)

    def plain_bytes(self, request_id: str) -> bytes:
        """Return a record as a plain JSON file, to be kept or carried elsewhere; see `take_in`.

        Raises:
            RecordNotFoundError: there is no such record; ids that look alike are named.
            RecordDamagedError: the file is no record.
        """
        return plain_bytes(self.load(request_id).path)

    def take_in(self, file: Path, request_id: str | None = None) -> Record:
        """Make a record of a plain file and return it when it is on the device.

        Args:
            file: the file; see `moving.arriving` for what it must be.
            request_id: the id, for a file that holds none; None takes the file's name.

        Raises:
            InputError: the id cannot be used, is another one than the file's, or is taken.
            RecordError: the file cannot be read, is not sound, or the record cannot be written.
        """
        name, blob = arriving(file, request_id, self._folding)
        return self._place(name, blob)

    def footprint(self, request_id: str) -> Footprint:
        """Return what `remove` would take away."""
        return footprint(self._paths, check_request_id(request_id))

    def remove(self, request_id: str) -> Footprint:
        """Remove a record, damaged or not, with all that `footprint` names; return what went.

        Raises:
            RecordNotFoundError: there is no such record.
            RecordError: another process works on the request, or a file cannot be removed.
        """
        path = self._file(request_id)
        if not os.path.lexists(path):
            self.load(request_id)
        with self._locked(path), contextlib.ExitStack() as held:
            try:
                held.enter_context(record_lock(path, self._paths.run_lock(request_id), 0))
            except RecordError as error:
                raise RecordError(path, "another process is working on this request") from error
            gone = footprint(self._paths, request_id)
            remove(self._paths, request_id, self._disk)
        return gone

    def _place(self, request_id: str, blob: bytes) -> Record:
        path = self._file(request_id)
        make_private_folders(self._paths, self._disk)
        with self._locked(path):
            if os.path.lexists(path):
                raise InputError(f"request {request_id!r} exists already: {path}")
            publish(path, blob, self._disk, new=True)
            return self._read(path)

    def _file(self, request_id: str) -> Path:
        return self._requests / f"{check_request_id(request_id)}.json"

    def _ids(self) -> Sequence[str]:
        """Every id that has a file, sorted; drafts and foreign names are passed over."""
        try:
            names = sorted(entry.stem for entry in self._requests.iterdir() if entry.suffix == ".json")
        except OSError:
            return []
        return [name for name in names if REQUEST_ID.fullmatch(name)]

    @contextlib.contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        lock = self._locks / f"{path.stem}.record.lock"
        if not self._prepared:
            make_private_folders(self._paths, self._disk)
            self._prepared = True
        with record_lock(path, lock, self._timeout):
            yield

    def _read(self, path: Path) -> Record:
        history = open_history(path, follow_links=False)
        _check_head(path, history)
        return _record(path, history, self._folding)


def read_record_file(path: Path) -> Record:
    """Return the record in any file anywhere: foreign and legacy ones too; it need not lie in a store.

    Raises:
        RecordNotFoundError: there is nothing at `path`.
        RecordDamagedError: it is no record.
    """
    return _record(path, open_history(path, follow_links=True), OWN_FOLDING)


def _record(path: Path, history: IndexedHistory | Scan, folding: Folding) -> Record:
    if isinstance(history, IndexedHistory):
        return Record(path, history=history, folding=folding)
    return Record(path, _data(history), texts=history.event_texts, folding=folding)


def _data(found: Scan) -> dict[str, Any]:
    """Return the whole object, without the index of a record of this package."""
    data = found.data
    if is_native(data):
        data.pop(INDEX_KEY, None)
    return data


def _check_head(path: Path, history: IndexedHistory | Scan) -> None:
    check_owner(path, history.data if isinstance(history, Scan) else history.head)


def _value(path: Path, line: str) -> Any:
    try:
        return read_value(line)
    except ScanError as error:
        raise RecordDamagedError(path, "an event is not JSON; `verify` says where") from error


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:120] if lines else ""
