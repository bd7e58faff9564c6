"""One row of a list of records: the head by slices, never a whole history, and damage as a row of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from teams_runtime.shared.errors import RecordError
from teams_runtime.store.history import IndexedHistory, open_history
from teams_runtime.store.layout import is_native
from teams_runtime.store.reading import check_owner

_SLICE = 16_384  # bytes; a longer record is not read whole for one row


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
    step: str | None
    """The workflow step it is at."""
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


def summarize(path: Path) -> RecordSummary | DamagedRecord:
    """Return the row of one record file."""
    try:
        history = open_history(path, follow_links=False, whole_bytes=_SLICE)
        if isinstance(history, IndexedHistory):
            head, count, native = history.head, history.index.count, True
        else:
            head, native = history.data, is_native(history.data)
            count = len(history.event_texts)
        check_owner(path, head)
    except RecordError as error:
        return DamagedRecord(path.stem, path, error.reason, _changed_at(path))
    return _summary(path, head, count, native=native)


def timestamp(moment: datetime) -> str:
    """Return a moment as it stands in events: UTC, milliseconds.

    >>> timestamp(datetime(2026, 12, 1, 3, 4, 5, 678900, tzinfo=UTC))
    '2026-12-01T03:04:05.678Z'
    """
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _summary(path: Path, head: Mapping[str, Any], count: int, *, native: bool) -> RecordSummary:
    created = _text(head, "created_at") or _changed_at(path)
    workflow = head.get("workflow")
    return RecordSummary(
        request_id=path.stem,
        path=path,
        scope=_text(head, "scope") or "",
        status=_text(head, "status") or "unknown",
        step=_text(workflow, "step") if isinstance(workflow, dict) else None,
        current_role=_text(head, "current_role"),
        created_at=created,
        updated_at=_text(head, "updated_at") or created,
        seq=count,
        native=native,
    )


def _text(head: Mapping[str, Any], key: str) -> str | None:
    value = head.get(key)
    return value if isinstance(value, str) and value else None


def _changed_at(path: Path) -> str:
    try:
        return timestamp(datetime.fromtimestamp(path.lstat().st_mtime, UTC))
    except OSError:
        return timestamp(datetime.fromtimestamp(0, UTC))
