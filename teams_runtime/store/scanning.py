"""Text → the fields of one JSON object and the exact text of every event, without changing a character."""

from __future__ import annotations

import contextlib
import gc
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^"\s]+')
_STUMP = re.compile(r"\.|[eE][+-]?|\\?u?[0-9a-fA-F]{0,4}")
_LONG = 4300  # digits; Python's own conversion refuses more, as a guard against its slowness
MAX_DIGITS_READ = 100_000
"""Most digits of an integer that is read; the time to convert grows with the square."""


class ScanError(ValueError):
    """The text is not one JSON object.

    Args:
        reason: what must hold and what was there.
    """


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the record's object."""

    name: str
    value: Any
    text: str
    """The value as it is spelled in the file; empty for `events`, whose texts are kept one by one."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A record's text, taken apart."""

    fields: tuple[Field, ...]
    """In file order, doubled names included."""
    event_texts: tuple[str, ...]
    """The text of every event as it stands in the file; empty when `events` is not a list."""
    constant: str | None
    """Where the first NaN or Infinity stands, which Python reads though JSON does not have it; None without one."""

    @property
    def data(self) -> dict[str, Any]:
        """The whole object; of a doubled name the last value counts, as in Python's own reader."""
        return {field.name: field.value for field in self.fields}


def one_line(text: str) -> str:
    r"""Return one JSON value on one line: no token is respelled; if it has a line break, its outer spaces go.

    >>> one_line('{"a":\n  1e5}')
    '{"a":1e5}'
    """
    if "\n" not in text and "\r" not in text:
        return text
    return "".join(_TOKEN.findall(text))


def read_integer(spelled: str) -> int:
    """Return an integer of up to `MAX_DIGITS_READ` digits, exact.

    Raises:
        ScanError: it has more.
    """
    if len(spelled) <= _LONG:
        return int(spelled)
    if len(spelled) > MAX_DIGITS_READ:
        raise ScanError(f"a number of {len(spelled)} digits, at most {MAX_DIGITS_READ} can be read")
    return int(Decimal(spelled))


_FAST_VALUES = msgspec.json.Decoder()
_VALUES = json.JSONDecoder(parse_int=read_integer)


def read_value(text: str) -> Any:
    """Return the value of one JSON text, integers of any length included.

    msgspec reads it three times as fast as the standard library. Where the two could differ (NaN, lone surrogates, huge
    numbers, deep nesting) msgspec refuses, and the standard library takes over.

    Raises:
        ScanError: the text is no JSON value.
    """
    with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
        return _FAST_VALUES.decode(text)
    try:
        return _VALUES.decode(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ScanError("the text is not JSON, or nested too deeply") from error


def scan(text: str) -> Scan:
    """Take a record's text apart.

    Raises:
        ScanError: it is not one JSON object; the reason says where.
    """
    scanner = _Scanner(text)
    try:
        with _without_collections():
            return scanner.record()
    except json.JSONDecodeError as error:
        raise ScanError(scanner.explain(error)) from error
    except RecursionError as error:
        raise ScanError(f"{scanner.where} is nested too deeply to be read") from error


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Keep Python from searching for cycles, of which JSON has none, while millions of values are made."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Scanner:
    """Python's own JSON reader, led value by value, so that the end of each is known."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.where = "the file"
        self.constant: str | None = None
        self.decoder = json.JSONDecoder(parse_constant=self._constant, parse_int=self._integer)

    def record(self) -> Scan:
        at = self._space(0)
        if self.text[at : at + 1] != "{":
            value, end = self.decoder.raw_decode(self.text, at)
            self._end(end)
            raise ScanError(f"a record must be a JSON object, got {_kind(value)}")
        fields: list[Field] = []
        texts: list[str] = []
        at = self._space(at + 1)
        if self.text[at : at + 1] == "}":
            return self._ended(fields, texts, at + 1)
        while True:
            name, at = self._name(at)
            if name == "events" and any(field.name == name for field in fields):
                raise ScanError("'events' stands there twice; which one holds the history cannot be known")
            value, start, end = self._value(name, at, texts)
            fields.append(Field(name, value, "" if name == "events" else self.text[start:end]))
            at = self._space(end)
            if self.text[at : at + 1] == "}":
                return self._ended(fields, texts, at + 1)
            at = self._space(self._expect(",", at))

    def _ended(self, fields: list[Field], texts: list[str], at: int) -> Scan:
        self._end(at)
        return Scan(tuple(fields), tuple(texts), self.constant)

    def _name(self, at: int) -> tuple[str, int]:
        self.where = "the file"
        if self.text[at : at + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self.text, at)
        name, at = self.decoder.raw_decode(self.text, at)
        self.where = f"field {name[:60]!r}"
        return name, self._space(self._expect(":", self._space(at)))

    def _value(self, name: str, at: int, texts: list[str]) -> tuple[Any, int, int]:
        if name == "events" and self.text[at : at + 1] == "[":
            values, end = self._events(at, texts)
            return values, at, end
        value, end = self.decoder.raw_decode(self.text, at)
        return value, at, end

    def _events(self, at: int, texts: list[str]) -> tuple[list[Any], int]:
        values: list[Any] = []
        at = self._space(at + 1)
        if self.text[at : at + 1] == "]":
            return values, at + 1
        while True:
            self.where = f"event {len(values) + 1}"
            value, end = self.decoder.raw_decode(self.text, at)
            values.append(value)
            texts.append(self.text[at:end])
            at = self._space(end)
            if self.text[at : at + 1] == "]":
                return values, at + 1
            at = self._space(self._expect(",", at))

    def _space(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def _expect(self, mark: str, at: int) -> int:
        if self.text[at : at + 1] != mark:
            raise json.JSONDecodeError(f"Expecting {mark!r} delimiter", self.text, at)
        return at + 1

    def _end(self, at: int) -> None:
        at = self._space(at)
        if at != len(self.text):
            raise ScanError(f"text follows after the object's end, at {self._place(at)}")

    def _constant(self, spelled: str) -> float:
        self.constant = self.constant or f"{self.where} holds {spelled}, which is no JSON number"
        return float(spelled.replace("Infinity", "inf"))

    def _integer(self, spelled: str) -> int:
        try:
            return read_integer(spelled)
        except ScanError as error:
            raise ScanError(f"{self.where} holds {error}") from error

    def explain(self, error: json.JSONDecodeError) -> str:
        """Return one clause that says what is wrong, and where."""
        rest = self.text[error.pos :].rstrip()
        cut = not rest or error.msg.startswith("Unterminated string") or self._is_stump(rest)
        if not self.text.strip("\0 \t\r\n"):
            return f"the file holds nothing but {len(self.text)} zero or blank bytes"
        if cut:
            return f"the file is cut off: it ends inside {self.where}, after {self._place(len(self.text))}"
        return f"{self.where} is not JSON: {error.msg[:1].lower()}{error.msg[1:]} at {self._place(error.pos)}"

    def _is_stump(self, rest: str) -> bool:
        """Return whether the text's last characters are the beginning of a number, an escape or a word."""
        words = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
        return any(word.startswith(rest) for word in words) or bool(_STUMP.fullmatch(rest))

    def _place(self, at: int) -> str:
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        return f"line {line}, column {column} (byte {len(self.text[:at].encode('utf-8', 'surrogatepass'))})"


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else f"a {type(value).__name__}"
