"""An event before it enters a record: its shape, its limits and its text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from teams_runtime.shared.errors import EventRefusedError
from teams_runtime.shared.prompt_context import event_json

Event = dict[str, Any]
"""`id, seq, timestamp, type, actor, summary, payload`; `seq` is given by the store."""

MAX_EVENT_BYTES = 1024 * 1024
"""Most bytes of JSON text of one event; bulky material belongs in an artifact file that the event names."""
MAX_NESTING = 700
"""Most objects and lists inside each other, counted from the event itself."""
MAX_DIGITS = 4300
"""Most digits of an integer; Python itself writes no longer ones."""

_KEYS = ("id", "timestamp", "type", "actor", "summary", "payload")
_ID = re.compile(r"[!#-\[\]-~]{1,200}", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)
_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder()
_LARGEST = 10**MAX_DIGITS


class StoredEvent(NamedTuple):
    """An event as it will stand in a record."""

    line: str
    """One line of compact ASCII JSON."""
    value: Event
    """What a reader will make of the line; shares nothing with the event that was given."""


def stored_event(event: Mapping[str, Any], seq: int) -> StoredEvent:
    """Return `event` as it is stored under the number `seq`.

    Raises:
        EventRefusedError: a key is missing, unknown or of the wrong type, a value is not JSON, or the text is too long.
    """
    check_shape(event, seq)
    given = {"id": event["id"], "seq": seq} | {key: event[key] for key in _KEYS[1:]}
    stored = _spelled(given)
    if stored is None:
        _check_json(event["payload"])
        line = event_json(given)
        stored = StoredEvent(line, _read_back(line))
    size = len(stored.line)
    if size > MAX_EVENT_BYTES:
        _refuse(f"its JSON text is {size} bytes, at most {MAX_EVENT_BYTES} fit; put bulk into an artifact file")
    return stored


def _spelled(given: Event) -> StoredEvent | None:
    """Return the event when it plainly comes back from JSON as it was given; None leaves it to a look at each value."""
    try:
        line = _ENCODER.encode(given)
        value = _DECODER.decode(line)
        plain = line.count("{") + line.count("[") <= MAX_NESTING and value == given
    except (TypeError, ValueError, RecursionError):
        return None
    return StoredEvent(line, value) if plain else None


def _read_back(line: str) -> Event:
    try:
        value: Event = json.loads(line)
    except RecursionError:
        _refuse("it is nested deeper than can be read back here")
    return value


def check_shape(event: Mapping[str, Any], seq: int) -> None:
    """Check an event's keys and what kind of value each has; what its payload holds is not looked at.

    Raises:
        EventRefusedError: a key is missing, unknown or of the wrong type, or its `seq` is not the one given.
    """
    _check_keys(event, seq)
    _check_values(event)


def to_json(value: object) -> str:
    r"""Return `value` as compact ASCII JSON on one line; lone surrogates and control characters are escaped.

    >>> to_json({"a": [1, "é"]})
    '{"a":[1,"\u00e9"]}'
    """
    return _ENCODER.encode(value)


def same_content(stored: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Return whether both say the same apart from `seq`; `1`, `1.0` and `true` are three different values."""
    return _without_seq(stored) == _without_seq(event)


def _without_seq(event: Mapping[str, Any]) -> str:
    rest = {key: event[key] for key in sorted(event) if key != "seq"}
    try:
        return json.dumps(rest, sort_keys=True)
    except (ValueError, RecursionError):  # a longer number or a deeper nesting than the fast way takes
        return event_json(rest)


def _refuse(reason: str) -> NoReturn:
    raise EventRefusedError(f"event refused: {reason}")


def _check_keys(event: Mapping[str, Any], seq: int) -> None:
    if not isinstance(event, Mapping):
        _refuse(f"it must be an object with the keys {', '.join(_KEYS)}, got {type(event).__name__}")
    missing = [key for key in _KEYS if key not in event]
    if missing:
        _refuse(f"{missing[0]!r} is missing")
    unknown = [key for key in event if key not in _KEYS and key != "seq"]
    if unknown:
        _refuse(f"{str(unknown[0])[:60]!r} is no key of an event; what a type needs goes into 'payload'")
    if "seq" in event and (type(event["seq"]) is not int or event["seq"] != seq):
        _refuse(f"'seq' must be {seq}, the next number, or be left out, got {str(event['seq'])[:60]!r}")


def _check_values(event: Mapping[str, Any]) -> None:
    for key in _KEYS[:-1]:
        if not isinstance(event[key], str):
            _refuse(f"{key!r} must be a string, got {type(event[key]).__name__}")
    if not _ID.fullmatch(event["id"]):
        shown = repr(event["id"][:60])
        _refuse(f"'id' must be 1 to 200 printable ASCII characters without quote, backslash and space, got {shown}")
    if not _TIMESTAMP.fullmatch(event["timestamp"]):
        _refuse(f"'timestamp' must be UTC like 2026-12-01T03:04:05.678Z, got {event['timestamp'][:60]!r}")
    for key in ("type", "actor"):
        if not event[key].strip():
            _refuse(f"{key!r} must not be empty")
    if not isinstance(event["payload"], dict):
        _refuse(f"'payload' must be an object, got {type(event['payload']).__name__}")


def _check_json(payload: Any) -> None:
    """Refuse what JSON has no words for; walks without recursion, so that a deep or circular value ends too."""
    waiting: list[tuple[str, Any, int]] = [("/payload", payload, 2)]
    while waiting:
        pointer, value, depth = waiting.pop()
        if isinstance(value, (dict, list, tuple)):
            if depth > MAX_NESTING:
                _refuse(f"it is nested deeper than {MAX_NESTING} levels")
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            if isinstance(value, dict):
                _check_names(pointer, value)
            waiting += [(f"{pointer}/{key}"[:200], inner, depth + 1) for key, inner in pairs]
        else:
            _check_scalar(pointer, value)


def _check_names(pointer: str, value: dict[Any, Any]) -> None:
    for key in value:
        if not isinstance(key, str):
            _refuse(f"{pointer}: a key must be a string, got {type(key).__name__}")


def _check_scalar(pointer: str, value: object) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            _refuse(f"{pointer}: {value} is no JSON number")
    elif isinstance(value, int):
        if abs(value) >= _LARGEST:
            _refuse(f"{pointer}: an integer may have at most {MAX_DIGITS} digits")
    elif value is not None and not isinstance(value, str):
        _refuse(f"{pointer}: {type(value).__name__} is no JSON value")
