"""How an issue of an answer is written: a JSON pointer, what must hold, what was there; one line, bounded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from teams_runtime.shared.prompt_context import event_json

MAX_VALUE_CHARACTERS = 80
"""How much of a value an issue shows."""

MAX_ISSUES = 20
"""How many issues of one answer are told one by one."""


def issue(pointer: str, must: str) -> str:
    """Return one issue; the empty pointer is the whole answer and is shown as `""`.

    >>> issue("/summary", "must not be blank, got ''")
    "/summary: must not be blank, got ''"
    """
    return f"{pointer or chr(34) * 2}: {must}"


def pointer(path: Iterable[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a path; a key is shown bounded and with its odd characters escaped.

    >>> pointer(("plan", "steps", 0, "a/b"))
    '/plan/steps/0/a~1b'
    """
    return "".join("/" + _bounded(str(part)).replace("~", "~0").replace("/", "~1") for part in path)


def shown(value: Any) -> str:
    """Return a value as issues show it: strings and numbers bounded, of the others only what they are.

    >>> shown("ok"), shown(None), shown([1, 2])
    ("'ok'", 'null', 'a list')
    """
    if isinstance(value, str):
        return f"'{_bounded(value)}'"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return _bounded(event_json(value))


def shown_all(values: Iterable[Any]) -> str:
    """Return values as one short list, the first three by value."""
    everything = list(values)
    more = f" and {len(everything) - 3} more" if len(everything) > 3 else ""
    return ", ".join(shown(value) for value in everything[:3]) + more


def bounded_issues(issues: Iterable[str]) -> tuple[str, ...]:
    """Return the issues without repetition; of those past `MAX_ISSUES` only how many there are."""
    told = tuple(dict.fromkeys(issues))
    if len(told) <= MAX_ISSUES:
        return told
    return (*told[:MAX_ISSUES], issue("", f"{len(told) - MAX_ISSUES} more issues of this kind"))


def _bounded(text: str) -> str:
    """Return `text` cut to `MAX_VALUE_CHARACTERS` less its quotes; on one line, printable."""
    room = MAX_VALUE_CHARACTERS - 3
    printable = "".join(_printable(character) for character in text[: room + 1])
    return printable if len(printable) <= room else printable[:room] + "…"


def _printable(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]
