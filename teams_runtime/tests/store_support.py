"""What the store's tests share: a small fold, a store in a temporary folder, and the programs of other processes."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import unittest
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from teams_runtime.shared.errors import RecordConflictError, RecordError
from teams_runtime.shared.paths import WorkspacePaths
from teams_runtime.store.events import Event
from teams_runtime.store.folding import Folding
from teams_runtime.store.history import WHOLE_BYTES
from teams_runtime.store.layout import FIXED_KEYS
from teams_runtime.store.records import Record, RecordStore
from teams_runtime.store.writing import Disk, record_lock

ID = "fix-sum"
SHARED = next((folder / "shared/data" for folder in Path(__file__).parents if (folder / "shared/data").is_dir()), None)
"""Real and hostile histories beside the checkout; `None` where they are absent."""


def small_advance(head: Mapping[str, Any], event: Event) -> dict[str, Any]:
    """The head after one more event: one field of each kind, what never changes, what changes, and what counts."""
    head = dict(head)
    if event["type"] == "created":
        head |= {key: event["payload"][key] for key in ("scope", "body", "requester", "params", "sprint_id")}
        head |= {"created_at": event["timestamp"], "status": "queued"}
    head["status"] = event["payload"].get("head_status", head["status"])
    return head | {"count": head["count"] + 1, "updated_at": event["timestamp"]}


def small_fold(events: Sequence[Event]) -> dict[str, Any]:
    """The head after all the events."""
    head: dict[str, Any] = dict.fromkeys(FIXED_KEYS[2:]) | {
        "status": "",
        "count": 0,
        "sprint_id": "",
        "updated_at": None,
    }
    for event in events:
        head = small_advance(head, event)
    return head


def new_id() -> str:
    """A random event id."""
    return uuid.uuid4().hex


def open_store(
    root: Path, *, disk: Disk | None = None, timeout: float = 30, alternate_from: int = WHOLE_BYTES
) -> RecordStore:
    """The store of a workspace folder, with the small fold and a clock that stands still."""
    moment = datetime(2026, 12, 1, 3, 4, 5, 678000, tzinfo=UTC)
    return RecordStore(
        WorkspacePaths(root),
        clock=lambda: moment,
        new_id=new_id,
        lock_timeout_seconds=timeout,
        folding=Folding(small_fold, small_advance),
        disk=disk,
        alternate_from=alternate_from,
    )


def create(store: RecordStore, request_id: str = ID, **changed: Any) -> Record:
    """A record with its first event."""
    given: dict[str, Any] = {
        "scope": "fix sum()",
        "body": "it is off by one",
        "requester": "ada",
        "params": {"profile": "full"},
        "sprint_id": "sprint-1",
        "base": {"commit": "a" * 40, "branch": "main"},
    }
    return store.create(request_id, **given | changed)


def note(store: RecordStore, payload: dict[str, Any] | None = None, **changed: Any) -> Event:
    """An event that says nothing much."""
    return store.new_event("note", actor="orchestrator", summary="a note", payload=payload or {}) | changed


def append_retrying(store: RecordStore, event: Event, request_id: str = ID) -> Record:
    """Append whatever other processes do: on a conflict load and try again."""
    while True:
        try:
            return store.append(request_id, event, expected_seq=store.load(request_id).seq)
        except RecordConflictError:
            continue


class StoreCase(unittest.TestCase):
    """A test with a workspace folder and its store."""

    def setUp(self) -> None:
        """Make the folder and the store."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.paths = WorkspacePaths(self.root)
        self.store = open_store(self.root)

    def file(self, request_id: str = ID) -> Path:
        """The record's path."""
        return self.paths.record(request_id)

    def put(self, blob: bytes, request_id: str = ID) -> Path:
        """A file in the place of a record."""
        self.paths.requests.mkdir(parents=True, exist_ok=True)
        self.file(request_id).write_bytes(blob)
        return self.file(request_id)


def _appender(root: Path, alternate_from: int, name: str, times: int) -> None:
    store = open_store(root, timeout=120, alternate_from=alternate_from)
    for number in range(times):
        append_retrying(store, note(store, {"by": name, "number": number}))


def _endless_appender(root: Path, alternate_from: int) -> None:
    store = open_store(root, alternate_from=alternate_from)
    while True:
        seq = store.load(ID).seq
        record = store.append(ID, note(store, {"number": seq, "bulk": "x" * (seq * 977 % 40_000)}), expected_seq=seq)
        os.write(1, f"{record.seq}\n".encode())


def _reader(path: Path) -> None:
    """Parse the file all the time, like any other program, until the input ends; say how often it was JSON."""
    os.set_blocking(0, False)
    good = bad = 0
    while _input_open():
        try:
            json.loads(path.read_bytes())
            good += 1
        except ValueError:
            bad += 1
    sys.stdout.write(json.dumps({"good": good, "bad": bad}))


def _input_open() -> bool:
    try:
        return os.read(0, 1) != b""
    except BlockingIOError:
        return True


def _lock_holder(root: Path) -> None:
    paths = WorkspacePaths(root)
    with record_lock(paths.record(ID), paths.record_lock(ID), 5):
        os.write(1, b"held\n")
        os.read(0, 1)


def _short_of_space(root: Path, limit: int) -> None:
    """Append an event that is larger than this process may write; print the error's line."""
    store = open_store(root)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        store.append(ID, note(store, {"bulk": "x" * 200_000}), expected_seq=store.load(ID).seq)
    except RecordError as error:
        sys.stdout.write(str(error))


def _main(name: str, *arguments: str) -> None:
    root = Path(arguments[0])
    match name:
        case "append":
            _appender(root, int(arguments[1]), arguments[2], int(arguments[3]))
        case "append-endlessly":
            _endless_appender(root, int(arguments[1]))
        case "read":
            _reader(root)
        case "hold-lock":
            _lock_holder(root)
        case "short-of-space":
            _short_of_space(root, int(arguments[1]))


if __name__ == "__main__":
    _main(*sys.argv[1:])
