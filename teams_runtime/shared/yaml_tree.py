"""A YAML text as a tree of nodes that know where they stand; every fault of the text is told, none is raised.

Only what a config needs: mappings with string keys, lists and plain values of YAML 1.2. Tags are refused, aliases are
followed within a bound, nesting and size are bounded, and nothing recurses on the text's depth.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)
from ruamel.yaml.reader import ReaderError

MAX_DEPTH = 32
"""How many mappings and lists may lie in each other."""
MAX_VALUES = 10_000
"""How many values a text may hold, those repeated by aliases counted each time."""
MAX_SHOWN = 60
"""How many characters of a value or a key a message shows."""
MAX_NUMBER = 100
"""How many characters a number may have; anything longer is read as text."""

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)", re.ASCII)
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,60}", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class Entry:
    """One key of a mapping and its value."""

    key: Node
    value: Node


@dataclass(slots=True)
class Node:
    """One value of the text.

    Attributes:
        start: index of its first character in the text.
        scalar: the value, when it is neither a list nor a mapping.
        items: the nodes of a list, else None.
        entries: the entries of a mapping by key, the first of each key, else None.
        size: how many values it holds, itself included.
        height: how many mappings and lists lie in each other in it, itself included.
        empty: nothing is written where the value would stand.
    """

    start: int
    scalar: Any = None
    items: list[Node] | None = None
    entries: dict[str, Entry] | None = None
    size: int = 1
    height: int = 0
    empty: bool = False

    def data(self) -> Any:
        """Return the value as plain dicts, lists and scalars."""
        if self.entries is not None:
            return {key: entry.value.data() for key, entry in self.entries.items()}
        if self.items is not None:
            return [item.data() for item in self.items]
        return self.scalar


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault: the index of the character where it stands, and a sentence."""

    index: int
    text: str


class Source:
    r"""A text that can tell the line and column of each of its characters, both counted from 1, in characters.

    >>> Source("a: 1\nb: 2").place(8)
    '2:4'
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]

    def line(self, index: int) -> int:
        """Return the line that character `index` stands on."""
        return bisect_right(self._starts, index)

    def place(self, index: int) -> str:
        """Return `LINE:COLUMN` of character `index`."""
        line = self.line(index)
        return f"{line}:{index - self._starts[line - 1] + 1}"


def shown(value: Any) -> str:
    """Return how a message shows a value: on one line, at most `MAX_SHOWN` characters.

    >>> shown(None), shown("yes"), shown({"a": [1, True]})
    ('null', "'yes'", '{a: [1, true]}')
    """
    return _cut(_spelled(value))


def shown_key(key: str) -> str:
    """Return how a message shows a key: as it is when it is a plain word, else quoted and cut."""
    return key if _PLAIN_KEY.fullmatch(key) else shown(key)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def _spelled(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown_key(key)}: {_spelled(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_spelled, value)) + "]"
    return repr(value[: MAX_SHOWN + 1] if isinstance(value, str) else value)


def read_scalar(text: str) -> Any:
    """Return what an unquoted scalar means in YAML 1.2 (core schema): `on`, `yes` and dates are text.

    >>> read_scalar("0x10"), read_scalar("yes"), read_scalar("1e3"), read_scalar("~")
    (16, 'yes', 1000.0, None)
    """
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > MAX_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text)
    infinite = _INFINITE.fullmatch(text)
    return float(infinite[1] + "inf") if infinite else text


def read_yaml(source: Source) -> tuple[Node | None, list[Problem]]:
    """Read a YAML text.

    Returns:
        Its one document (None when it is empty, or when a fault ended the reading) and every fault, in text order.
    """
    builder = _Builder(source)
    try:
        for event in _events(source.text):
            builder.take(event)
    except _UnreadableError as stop:
        builder.problems.append(stop.problem)
        return None, sorted(builder.problems)
    return builder.root, sorted(builder.problems)


class _UnreadableError(Exception):
    """A fault after which the rest of the text means nothing."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.problem = Problem(index, text)


def _events(text: str) -> Iterator[Event]:
    reached = 0
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            reached = event.start_mark.index
            yield event
    except ReaderError as error:
        character = shown(text[error.position : error.position + 1])
        raise _UnreadableError(error.position, f"the file must be printable text, got {character}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        index = mark.index if mark else reached
        raise _UnreadableError(
            index, f"the file must be valid YAML, got an error: {_reason(error, text, index)}"
        ) from error
    except Exception as error:  # the foreign parser lets plain ValueError, OverflowError and others escape on odd texts
        reason = f"the file must be valid YAML, got what the reader cannot take: {_cut(str(error))}"
        raise _UnreadableError(reached, reason) from error


def _reason(error: MarkedYAMLError, text: str, index: int) -> str:
    if text[index : index + 1] == "\t":
        return "a tab where only spaces may indent"
    told = str(error.problem or error.context or "no reason given")
    return told if told.isprintable() and len(told) <= 2 * MAX_SHOWN else shown(told)


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not been read yet."""

    node: Node
    anchor: str | None
    key: Node | None = None


class _Builder:
    """Takes the parser's events one by one and builds the tree, without recursion."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.root: Node | None = None
        self._documents = 0
        self._size = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, Node | None] = {}

    def take(self, event: Event) -> None:
        """Take the next event."""
        if isinstance(event, DocumentStartEvent):
            self._start_document(event)
        elif isinstance(event, CollectionStartEvent):
            self._start_collection(event)
        elif isinstance(event, CollectionEndEvent):
            self._end_collection()
        elif isinstance(event, AliasEvent):
            self._add(self._aliased(event))
        elif isinstance(event, ScalarEvent):
            self._add(self._scalar(event))

    def _tell(self, index: int, text: str) -> None:
        self.problems.append(Problem(index, text))

    def _start_document(self, event: DocumentStartEvent) -> None:
        index = event.start_mark.index
        self._documents += 1
        if self._documents > 1:
            raise _UnreadableError(index, "the file must hold one YAML document, got the start of another")
        if event.version not in {None, (1, 2)}:
            version = ".".join(map(str, event.version))
            self._tell(index, f"the file must be YAML 1.2, got a %YAML {_cut(version)} directive before this line")

    def _start_collection(self, event: CollectionStartEvent) -> None:
        index = event.start_mark.index
        self._check_tag(event)
        if len(self._open) >= MAX_DEPTH:
            raise _UnreadableError(index, f"the file must be nested at most {MAX_DEPTH} deep, got one level more")
        mapping = isinstance(event, MappingStartEvent)
        node = Node(index, entries={}, height=1) if mapping else Node(index, items=[], height=1)
        self._open.append(_Open(node, event.anchor))
        if event.anchor is not None:
            self._anchors[event.anchor] = None

    def _end_collection(self) -> None:
        done = self._open.pop()
        if done.anchor is not None:
            self._anchors[done.anchor] = done.node
        self._add(done.node, counted=done.node.size - 1)

    def _scalar(self, event: ScalarEvent) -> Node:
        index = event.start_mark.index
        self._check_tag(event)
        plain, text = event.style is None, event.value
        if _SURROGATE.search(text):
            text = _joined(text)
        if _SURROGATE.search(text):
            self._tell(index, f"a text must hold only Unicode characters, got {shown(text)}")
        node = Node(index, read_scalar(text) if plain else text, empty=plain and not text)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _aliased(self, event: AliasEvent) -> Node:
        index, name = event.start_mark.index, event.anchor
        node = self._anchors.get(name)
        if node is None:
            raise _UnreadableError(index, f"an alias must name an anchor that ended before it, got {shown('*' + name)}")
        if len(self._open) + node.height > MAX_DEPTH:
            raise _UnreadableError(
                index, f"the file must be nested at most {MAX_DEPTH} deep, got an alias that goes deeper"
            )
        return node

    def _check_tag(self, event: NodeEvent) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._tell(event.start_mark.index, f"a value must have no tag, got {shown(str(tag))}")

    def _add(self, node: Node, counted: int = 0) -> None:
        self._size += node.size - counted
        if self._size > MAX_VALUES:
            raise _UnreadableError(node.start, f"the file must hold at most {MAX_VALUES} values, got more")
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        parent.node.size += node.size
        parent.node.height = max(parent.node.height, node.height + 1)
        if parent.node.items is not None:
            parent.node.items.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            self._add_entry(parent, parent.key, node)
            parent.key = None

    def _add_entry(self, parent: _Open, key: Node, value: Node) -> None:
        entries = parent.node.entries
        name = key.scalar
        if entries is None or not isinstance(name, str):
            self._tell(key.start, f"a key must be a string, got {shown(key.data())}")
        elif name in entries:
            first = self.source.line(entries[name].key.start)
            self._tell(key.start, f"{self._path(name)} must stand once, got it again (first on line {first})")
        else:
            entries[name] = Entry(key, value)

    def _path(self, name: str) -> str:
        outer = [level.key.scalar for level in self._open[:-1] if level.key is not None]
        return ".".join(shown_key(str(part)) for part in (*outer, name))


def _joined(text: str) -> str:
    r"""Return a text with every pair of surrogates as the one character that it stands for, as JSON spells it.

    >>> _joined("\ud83d\ude00") == "\U0001f600"
    True
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
