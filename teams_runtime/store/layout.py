"""The order of a record file: what never changes, then the events one a line, then what changes with every event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from teams_runtime.store.events import to_json
from teams_runtime.store.scanning import Scan, one_line

SCHEMA = 1
"""Version of the layout; a record with another number is only read."""
FIXED_KEYS = ("schema", "request_id", "scope", "body", "requester", "params", "created_at")
"""Fields of the head that never change; they stand before the events."""
INDEX_KEY = "_index"
"""Bookkeeping of the store; never part of the head."""
NOT_HEAD = frozenset({"events", INDEX_KEY})


def render(head: Mapping[str, Any], event_lines: Iterable[str], kept: Scan | None = None) -> bytes:
    """Return the bytes of a whole record.

    Args:
        head: the fields that the store answers for, `events` not among them.
        event_lines: the text of every event, each on one line; taken over as it is.
        kept: the record as it was; its fields that `head` does not name keep their text and their side of the events.
    """
    before = [(key, to_json(head[key])) for key in FIXED_KEYS if key in head]
    after = [(key, to_json(value)) for key, value in head.items() if key not in FIXED_KEYS]
    for name, text, is_before in _unknown(kept, head):
        (before if is_before else after).append((name, text))
    lines = list(event_lines)
    events = "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"
    fields = [*before, ("events", events), *after]
    return ("{" + ",\n".join(f"{to_json(name)}:{text}" for name, text in fields) + "}\n").encode("utf-8")


def _unknown(kept: Scan | None, head: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    found: list[tuple[str, str, bool]] = []
    before = True
    for field in kept.fields if kept else ():
        if field.name == "events":
            before = False
        elif field.name not in head and field.name != INDEX_KEY:
            found.append((field.name, one_line(field.text), before))
    return found
