"""One JSON value as JSON text on one ASCII line, whatever the value holds."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, NamedTuple

_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
_BREAKS_A_LINE = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")


class _Token(NamedTuple):
    """Finished text on the work list; `closes` is the id of the container that ends with it."""

    text: str
    closes: int = 0


def event_json(value: Any) -> str:
    r"""Return `value` as compact JSON text: ASCII, one line, keys in their own order.

    Lone surrogates, control characters and line separators come out as escapes. Integers of any length and nesting of
    any depth are written in full, where the standard library would refuse them. NaN and the infinities are written as
    Python writes them, since records made by others may hold them.

    Raises:
        TypeError: the value holds something that JSON has no form for.
        ValueError: the value holds itself.

    >>> print(event_json({"summary": "two\nlines", "tokens": 10**30}))
    {"summary":"two\nlines","tokens":1000000000000000000000000000000}
    """
    try:
        return _ENCODER.encode(value)
    except (ValueError, RecursionError):  # an integer past the digit limit, or nesting past the recursion limit
        return _encode_step_by_step(value)


def one_line(text: str) -> str:
    r"""Return JSON text on one line and fit for UTF-8; its value and its spelling stay.

    A line break that stands between tokens becomes a space. Line separators of other kinds and lone surrogates can only
    stand inside a string, where their escape means the same.

    >>> print(one_line('{"a":\n 1}'))
    {"a":  1}
    """
    return _BREAKS_A_LINE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return " " if character in "\n\r" else f"\\u{ord(character):04x}"


def _encode_step_by_step(value: Any) -> str:
    """Encode with a work list in place of recursion; slower, and without the two limits of the fast way."""
    parts: list[str] = []
    open_ids: set[int] = set()
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, _Token):
            parts.append(item.text)
            open_ids.discard(item.closes)
        elif isinstance(item, (dict, list, tuple)):
            if id(item) in open_ids:
                raise ValueError("an event that holds itself has no JSON form")
            open_ids.add(id(item))
            todo.extend(reversed(_opened(item)))
        else:
            parts.append(_scalar(item))
    return "".join(parts)


def _opened(container: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> list[Any]:
    """Return the tokens and the values of one container, one level deep."""
    if isinstance(container, dict):
        inner = [part for key, value in container.items() for part in (_Token(","), _Token(_key(key) + ":"), value)]
        return [_Token("{"), *inner[1:], _Token("}", id(container))]
    inner = [part for value in container for part in (_Token(","), value)]
    return [_Token("["), *inner[1:], _Token("]", id(container))]


def _key(key: Any) -> str:
    if isinstance(key, str):
        return _ENCODER.encode(key)
    if key is None or isinstance(key, (int, float)):
        return f'"{_scalar(key)}"'
    raise TypeError(f"a JSON key must be a string, got {type(key).__name__}")


def _scalar(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(Decimal(value))  # exact at any length; `str(int)` stops at a limit that is global to the process
    return _ENCODER.encode(value)
