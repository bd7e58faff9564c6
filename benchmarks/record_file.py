"""A record of any length for benchmarks: events of about 1.9 KB from uneven roles, as recorded histories have them."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from teams_runtime.shared.paths import WorkspacePaths
from teams_runtime.store.events import Event, stored_event
from teams_runtime.store.folding import OWN_FOLDING
from teams_runtime.store.layout import lay_out, native_head
from teams_runtime.store.records import RecordStore

ROLES = ("developer",) * 6 + ("qa",) * 4 + ("architect",) * 3 + ("planner", "orchestrator", "orchestrator")
RARE = {3: "research", 7: "planner", 11: "designer"}
MOMENT = datetime(2026, 12, 1, 3, 4, 5, tzinfo=UTC)


def event(number: int) -> Event:
    """Return event `number` (1-based) of the benchmark's history."""
    head = {"id": f"e{number:08d}", "timestamp": "2026-12-01T03:04:05.000Z", "actor": "orchestrator"}
    if number == 1:
        payload: dict[str, Any] = {"scope": "bench", "body": "", "requester": "bench", "params": {"profile": "full"}}
        payload |= {"sprint_id": "sprint-1", "base": {"commit": "a" * 40, "branch": "main"}}
        return head | {"type": "created", "summary": "bench", "payload": payload}
    role = RARE.get(number) or ROLES[number % len(ROLES)]
    text = f"step {number}: " + "the quick brown fox jumps over the lazy dog; " * 35
    if role == "orchestrator":
        return head | {"type": "note", "summary": text[:200], "payload": {"text": text}}
    payload = {"role": role, "status": "completed", "insights": [text], "artifacts": [], "proposals": {}}
    return head | {"type": "role_report", "actor": role, "summary": text[:120], "payload": payload}


def history(count: int) -> Iterator[str]:
    """Yield the lines of a history of `count` events."""
    for number in range(1, count + 1):
        yield stored_event(event(number), number).line


def record_bytes(request_id: str, count: int) -> bytes:
    """Return a whole record of `count` events, as the store writes it."""
    lines = list(history(count))
    events = [json.loads(line) for line in lines]
    return lay_out(native_head(request_id, OWN_FOLDING.fold(events)), lines, events, None)


@contextmanager
def workspace() -> Iterator[tuple[WorkspacePaths, RecordStore]]:
    """Give a workspace in a temporary folder, and its store."""
    with tempfile.TemporaryDirectory() as folder:
        paths = WorkspacePaths(Path(folder))
        paths.requests.mkdir(parents=True, mode=0o700)
        ids = (f"new-{number:08d}" for number in itertools.count())
        yield paths, RecordStore(paths, clock=lambda: MOMENT, new_id=lambda: next(ids))


def put(paths: WorkspacePaths, request_id: str, count: int) -> Path:
    """Write a record of `count` events and return its path."""
    path = paths.record(request_id)
    path.write_bytes(record_bytes(request_id, count))
    return path


def forget(path: Path) -> None:
    """Drop a file from the operating system's cache, so that the next read is from the device."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
