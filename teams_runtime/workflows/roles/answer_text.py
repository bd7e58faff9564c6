"""One JSON object out of a model's text, strictly: bare, or alone in one fence; what could be misread is refused."""

from __future__ import annotations

import json
import math
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from teams_runtime.shared.errors import ContractError
from teams_runtime.workflows.roles.contract import MAX_ANSWER_CHARACTERS
from teams_runtime.workflows.roles.issues import bounded_issues, issue, pointer, shown

MAX_NESTING = 50
"""How deep objects and lists may lie in each other."""

MAX_DIGITS = 4300
"""How many digits a number may have; the most that Python turns into an integer by default."""

_ONLY = "must be one JSON object and nothing else"
_AROUND = string.whitespace + "\ufeff"
_FENCED = re.compile(r"```(?:json|JSON)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Refused:
    """Stands where a number stood that JSON or Python has no value for."""

    must: str


class _Pairs(list[tuple[str, Any]]):
    """An object as its pairs, so that a repeated key is not lost."""


def read_object(text: str) -> dict[str, Any]:
    r"""Return the JSON object that `text` is.

    Raises:
        ContractError: it is not exactly one JSON object within the limits; every repeated key and every number that
            cannot be used is told at once.

    >>> read_object('```json\n{"status": "completed"}\n```')
    {'status': 'completed'}
    """
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise _refusal(f"must be at most {MAX_ANSWER_CHARACTERS} characters, got {len(text)}; put bulk into a file")
    body = _body(text)
    if _nesting(body) > MAX_NESTING:
        raise _refusal(f"must nest at most {MAX_NESTING} objects and lists, got more")
    raw = _decoded(body)
    problems: list[str] = []
    value = _built(raw, (), problems)
    if problems:
        raise ContractError(bounded_issues(problems))
    if not isinstance(value, dict):
        raise _refusal(f"must be a JSON object, got {shown(value)}")
    return value


def _refusal(must: str) -> ContractError:
    return ContractError([issue("", must)])


def _body(text: str) -> str:
    """Return the text without white space and byte order marks around it, and without the one fence around it."""
    body = text.strip(_AROUND)
    fenced = _FENCED.fullmatch(body)
    if fenced:
        body = fenced[1].strip(_AROUND)
    if not body:
        raise _refusal(f"{_ONLY}, got an empty text")
    return body


def _nesting(body: str) -> int:
    deepest = depth = 0
    for token in _BRACKET.finditer(body):
        if token[0] in ("[", "{"):
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in ("]", "}"):
            depth -= 1
    return deepest


def _decoded(body: str) -> Any:
    """Return the first JSON value of `body`, which must be all of it."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_Pairs, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
    )
    try:
        value, end = decoder.raw_decode(body)
    except json.JSONDecodeError as error:
        if body[0] not in '{["' and "{" in body:
            raise _refusal(f"{_ONLY}, got text before it: {shown(body.partition('{')[0])}") from error
        raise _refusal(f"{_ONLY}, got no valid JSON: {error.msg}, line {error.lineno} column {error.colno}") from error
    rest = body[end:].strip(_AROUND)
    if not rest:
        return value
    if not isinstance(value, _Pairs):
        raise _refusal(f"{_ONLY}, got a fragment that starts with {shown(body)}")
    if rest.startswith("{"):
        raise _refusal(f"{_ONLY}, got a second object after it")
    raise _refusal(f"{_ONLY}, got text after it: {shown(rest)}")


def _integer(digits: str) -> int | _Refused:
    size = len(digits.lstrip("-"))
    if size > MAX_DIGITS:
        return _Refused(f"must be a number of at most {MAX_DIGITS} digits, got {size}")
    return int(digits)


def _fraction(text: str) -> float | _Refused:
    value = float(text)
    return value if math.isfinite(value) else _Refused(f"must be a number that fits into 64 bits, got {shown(text)}")


def _constant(name: str) -> _Refused:
    return _Refused(f"must be a JSON value, got {name}")


def _built(raw: Any, path: tuple[str | int, ...], problems: list[str]) -> Any:
    """Return plain dicts and lists, and add to `problems` what must not be there."""
    if isinstance(raw, _Refused):
        problems.append(issue(pointer(path), raw.must))
        return None
    if isinstance(raw, _Pairs):
        problems += (issue(pointer((*path, key)), "must stand once, got the key twice") for key in _repeated(raw))
        return {key: _built(value, (*path, key), problems) for key, value in raw}
    if isinstance(raw, list):
        return [_built(value, (*path, index), problems) for index, value in enumerate(raw)]
    return raw


def _repeated(pairs: _Pairs) -> Iterator[str]:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            yield key
        seen.add(key)
