"""The order of a record file: what never changes, then the events one a line, then what changes, then the index."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from teams_runtime.shared.prompt_context import event_json, evidence_role
from teams_runtime.shared.prompt_context import one_line as prompt_line
from teams_runtime.store.events import to_json
from teams_runtime.store.index import closing, empty_index
from teams_runtime.store.scanning import Scan, one_line

SCHEMA = 1
"""Version of the layout; a record with another number is only read."""
FIXED_KEYS = ("schema", "request_id", "scope", "body", "requester", "params", "created_at")
"""Fields of the head that never change; they stand before the events."""
CHANGING_KEYS = (
    "status",
    "sprint_id",
    "artifacts",
    "workflow",
    "current_role",
    "result",
    "question",
    "commit",
    "updated_at",
)
"""Fields of the head that change; they stand after the events, in front of fields of other names."""
INDEX_KEY = "_index"
"""Bookkeeping of the store; never part of the head."""
NOT_HEAD = frozenset({"events", INDEX_KEY})


def native_head(request_id: str, folded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the head of a record of this package, in the order of the file."""
    head = {**folded, "schema": SCHEMA, "request_id": request_id}
    known = [key for key in (*FIXED_KEYS, *CHANGING_KEYS) if key in head]
    return {key: head[key] for key in (*known, *(set_aside for set_aside in head if set_aside not in known))}


def is_native(data: Mapping[str, Any]) -> bool:
    """Return whether a parsed record was made by this package, so that it can be folded and lengthened."""
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


def lay_out(head: Mapping[str, Any], lines: Sequence[str], events: Sequence[Any], kept: Scan | None) -> bytes:
    """Return the bytes of a whole record.

    Args:
        head: the fields that the store answers for.
        lines: the text of every event, each on one line; taken over as it is.
        events: the same events as values.
        kept: the record as it was; its fields that `head` does not name keep their text and their side of the events.
    """
    before, after = _unknown(kept, head)
    fixed = {key: event_json(head[key]) for key in FIXED_KEYS if key in head} | before
    changing = {key: event_json(value) for key, value in head.items() if key not in FIXED_KEYS} | after
    opening = ("{" + "".join(f"{to_json(name)}:{text},\n" for name, text in fixed.items()) + '"events":[').encode()
    index, body = empty_index(opening, secrets.token_hex(6)), [opening]
    for line, event in zip(lines, events, strict=True):
        text = line.encode()
        body += (index.gap(), text)
        index = index.add(text, prompt_length(line), evidence_role(event), plain=is_plain(line, event))
    return b"".join((*body, closing(index, fields_text(changing))))


def prompt_length(line: str) -> int:
    """Return how many characters an event's line has in a prompt, which escapes what could break a line."""
    return len(line) if line.isascii() else len(prompt_line(line))


def fields_text(fields: Mapping[str, str]) -> bytes:
    """Return the fields after the events, given by name and JSON text."""
    return "".join(f",\n{to_json(name)}:{text}" for name, text in fields.items()).encode()


def is_plain(line: str, event: Any) -> bool:
    """Return whether an event's line starts with its `id` as the store writes it, so that it can be searched for."""
    return isinstance(event, dict) and line.startswith(f'{{"id":{to_json(event.get("id"))},')


def _unknown(kept: Scan | None, head: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    side = before
    for field in kept.fields if kept else ():
        if field.name == "events":
            side = after
        elif field.name not in head and field.name != INDEX_KEY:
            side[field.name] = one_line(field.text)
    return before, after
