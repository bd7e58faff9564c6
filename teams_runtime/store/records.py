"""The record as a value, and the store that makes, reads and lengthens records."""

from __future__ import annotations

import builtins
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from teams_runtime.shared.errors import (
    EventRefusedError,
    InputError,
    RecordConflictError,
    RecordDamagedError,
    RecordError,
    RecordNotFoundError,
)
from teams_runtime.shared.paths import REQUEST_ID, WorkspacePaths, check_request_id
from teams_runtime.store.events import Event, event_text, same_content
from teams_runtime.store.layout import NOT_HEAD, SCHEMA, render
from teams_runtime.store.reading import check_owner, parse, read_bytes
from teams_runtime.store.scanning import Scan, one_line
from teams_runtime.store.writing import Disk, confirm, make_private_folders, publish, record_lock

Fold = Callable[[Sequence[Event]], dict[str, Any]]
"""The head as a pure function of the events."""


def default_fold() -> Fold:
    """Return the fold of this package's own events."""
    found: Fold = importlib.import_module("teams_runtime.store.fold").fold
    return found


@dataclass(frozen=True)
class Record:
    """One record as it was read; a value, it does not follow the file."""

    path: Path
    """The record file."""
    data: dict[str, Any]
    """The whole object as it is stored; unknown fields included."""
    texts: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """The text of every event as it stands in the file; empty when the record was not read from one."""
    fold: Fold | None = field(default=None, repr=False, compare=False)
    """The fold that `at` uses; `None` is the package's own."""

    @property
    def request_id(self) -> str:
        """The record's own request id, else the file's name; not checked in a foreign record."""
        stored = self.data.get("request_id")
        return stored if isinstance(stored, str) else self.path.stem

    @property
    def events(self) -> list[Any]:
        """The events in order; none when they are missing, null or not a list."""
        stored = self.data.get("events")
        return stored if isinstance(stored, list) else []

    @property
    def head(self) -> dict[str, Any]:
        """Every field but `events` and the store's bookkeeping; a new dict on each call."""
        return {key: value for key, value in self.data.items() if key not in NOT_HEAD}

    @property
    def seq(self) -> int:
        """How many events there are, which is the number of the newest one."""
        return len(self.events)

    @property
    def native(self) -> bool:
        """Whether this package made the record, so that it can be folded and lengthened."""
        return _is_native(self.data)

    def at(self, seq: int) -> Record:
        """Return the record as it stood after event `seq`; a foreign record keeps its head, nobody knows the older one.

        Args:
            seq: 0 (before the first event) to the newest event's number.

        Raises:
            InputError: there is no such event.
        """
        if not 0 <= seq <= self.seq:
            raise InputError(f"{self.path}: there is no event {seq}, the record has events 1 to {self.seq}")
        events = self.events[:seq]
        if not self.native:
            data = self.data | {"events": events}
        else:
            folded = (self.fold or default_fold())(events)
            data = {**_native_head(self.request_id, folded), "events": events}
        return Record(self.path, data, self.texts[:seq], self.fold)

    def event_line(self, position: int) -> str:
        """Return the JSON text of one event on one line, as it is spelled in the file.

        Args:
            position: 0-based, as in the list of events.
        """
        if position < len(self.texts):
            return one_line(self.texts[position])
        return json.dumps(self.events[position], ensure_ascii=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """One row of a list of records."""

    request_id: str
    """The request id."""
    path: Path
    """The record file."""
    scope: str
    """What was asked for; empty when a foreign record has none."""
    status: str
    """`queued`, `running`, `waiting`, `completed`, `failed`, `cancelled`, or a foreign record's own word."""
    current_role: str | None
    """The role whose turn it is."""
    created_at: str
    """RFC 3339 UTC; of a record without it, when its file was last changed."""
    updated_at: str
    """RFC 3339 UTC; of a record without it, when its file was last changed."""
    seq: int
    """How many events there are."""
    native: bool
    """Whether this package made the record."""


@dataclass(frozen=True, slots=True)
class DamagedRecord:
    """One row of a list of records whose file cannot be read."""

    request_id: str
    """The file's name without its ending."""
    path: Path
    """The file."""
    reason: str
    """What must hold and what was there."""
    created_at: str
    """RFC 3339 UTC: when the file was last changed."""


class RecordStore:
    """The records of one workspace.

    Args:
        paths: the workspace.
        clock: gives the time of new events; it must be aware of its zone.
        new_id: gives a new event id that is never used twice.
        lock_timeout_seconds: how long an append waits for another process's append.
        fold: the head as a function of the events; `None` is the package's own.
        disk: where changes of files are made.
    """

    def __init__(
        self,
        paths: WorkspacePaths,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        lock_timeout_seconds: float = 30,
        fold: Fold | None = None,
        disk: Disk | None = None,
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._new_id = new_id
        self._timeout = lock_timeout_seconds
        self._fold = fold
        self._disk = disk or Disk()

    def new_event(self, type: str, *, actor: str, summary: str, payload: Mapping[str, Any]) -> Event:  # noqa: A002
        """Return an event with a new id and the time of now; `append` gives it its number."""
        return {
            "id": self._new_id(),
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
        path = self._paths.record(request_id)
        payload = {"scope": scope, "body": body, "requester": requester, "params": dict(params),
                   "sprint_id": sprint_id, "base": dict(base)}  # fmt: skip
        event = self.new_event("created", actor=requester, summary=_first_line(scope), payload=payload)
        line = event_text(event, 1)
        head = self._head(request_id, [json.loads(line)])
        make_private_folders(self._paths, self._disk)
        with self._lock(path):
            if path.is_symlink() or path.exists():
                raise InputError(f"request {request_id!r} exists already: {path}")
            publish(path, render(head, [line]), self._disk, new=True)
            return self._read(path)

    def load(self, request_id: str) -> Record:
        """Return a record; nothing is changed on disk.

        Raises:
            InputError: the id cannot be one.
            RecordNotFoundError: there is no such record; ids that look alike are named.
            RecordDamagedError: the file is no record.
        """
        path = self._paths.record(request_id)
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
        line = event_text(event, expected_seq + 1)
        path = self._paths.record(request_id)
        self.load(request_id)
        make_private_folders(self._paths, self._disk)
        with self._lock(path):
            kept = self._scan(path)
            record = self._record(path, kept)
            _check_can_grow(record)
            if self._is_stored(record, event):
                confirm(path, self._disk)
                return record
            if record.seq != expected_seq:
                raise RecordConflictError(path, f"has {record.seq} events, the caller had seen {expected_seq}")
            head = self._head(request_id, [*record.events, json.loads(line)])
            lines = [*(one_line(text) for text in kept.event_texts), line]
            publish(path, render(head, lines, kept), self._disk, new=False)
            return self._read(path)

    def list(self) -> builtins.list[RecordSummary | DamagedRecord]:
        """Return a row for every record file, newest request first; a damaged file is a row of its own."""
        rows = [self._row(self._paths.requests / f"{one}.json") for one in self._ids()]
        return sorted(rows, key=lambda row: (row.created_at, row.request_id), reverse=True)

    def _row(self, path: Path) -> RecordSummary | DamagedRecord:
        changed = _changed_at(path)
        try:
            record = self._read(path)
        except RecordError as error:
            return DamagedRecord(path.stem, path, error.reason, changed)
        return _summary(record, changed)

    def _ids(self) -> Sequence[str]:
        """Every id that has a file, sorted; drafts and foreign names are passed over."""
        try:
            names = sorted(entry.stem for entry in self._paths.requests.iterdir() if entry.suffix == ".json")
        except OSError:
            return []
        return [name for name in names if REQUEST_ID.fullmatch(name)]

    def _head(self, request_id: str, events: Sequence[Event]) -> dict[str, Any]:
        return _native_head(request_id, (self._fold or default_fold())(events))

    def _is_stored(self, record: Record, event: Event) -> bool:
        for stored in record.events:
            if isinstance(stored, dict) and stored.get("id") == event["id"]:
                if same_content(stored, event):
                    return True
                raise EventRefusedError(f"event refused: another event of {record.path} has the id {event['id']!r}")
        return False

    def _lock(self, path: Path) -> Any:
        return record_lock(path, self._paths.locks / f"{path.stem}.lock", self._timeout)

    def _scan(self, path: Path) -> Scan:
        found = parse(path, read_bytes(path, follow_links=False))
        check_owner(path, found)
        return found

    def _read(self, path: Path) -> Record:
        return self._record(path, self._scan(path))

    def _record(self, path: Path, found: Scan) -> Record:
        return Record(path, found.data, found.event_texts, self._fold)


def read_record_file(path: Path) -> Record:
    """Return the record in any file anywhere: foreign and legacy ones too; it need not lie in a store.

    Raises:
        RecordNotFoundError: there is nothing at `path`.
        RecordDamagedError: it is no record.
    """
    found = parse(path, read_bytes(path, follow_links=True))
    return Record(path, found.data, found.event_texts)


def timestamp(moment: datetime) -> str:
    """Return a moment as it stands in events: UTC, milliseconds.

    >>> timestamp(datetime(2026, 12, 1, 3, 4, 5, 678900, tzinfo=UTC))
    '2026-12-01T03:04:05.678Z'
    """
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _native_head(request_id: str, folded: Mapping[str, Any]) -> dict[str, Any]:
    own = {"schema": SCHEMA, "request_id": request_id}
    return own | {key: value for key, value in folded.items() if key not in NOT_HEAD and key not in own}


def _is_native(data: Mapping[str, Any]) -> bool:
    events = data.get("events")
    first = events[0] if isinstance(events, list) and events else None
    return (
        type(data.get("schema")) is int
        and data["schema"] == SCHEMA
        and isinstance(data.get("request_id"), str)
        and isinstance(first, dict)
        and first.get("type") == "created"
        and first.get("seq") == 1
    )


def _check_can_grow(record: Record) -> None:
    if not record.native:
        raise RecordDamagedError(record.path, "was not made by teams-runtime: it is read and shown, never lengthened")
    newest = record.events[-1]
    number = newest.get("seq") if isinstance(newest, dict) else None
    if number != record.seq:
        raise RecordDamagedError(record.path, f"event {record.seq} must have seq {record.seq}, got {str(number)[:20]}")


def _summary(record: Record, changed: str) -> RecordSummary:
    head = record.head

    def text(key: str, fallback: str) -> str:
        value = head.get(key)
        return value if isinstance(value, str) else fallback

    return RecordSummary(
        request_id=record.path.stem,
        path=record.path,
        scope=text("scope", ""),
        status=text("status", "unknown"),
        current_role=text("current_role", "") or None,
        created_at=text("created_at", changed),
        updated_at=text("updated_at", changed),
        seq=record.seq,
        native=record.native,
    )


def _changed_at(path: Path) -> str:
    try:
        return timestamp(datetime.fromtimestamp(path.lstat().st_mtime, UTC))
    except OSError:
        return timestamp(datetime.fromtimestamp(0, UTC))


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:120] if lines else ""
