"""What the loopback model server hears and says, whichever vendor's wire it comes and goes by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

INPUT_TOKENS = 1234
"""Input tokens that every call is told to have used, cached ones included."""
CACHED_TOKENS = 1000
OUTPUT_TOKENS = 56
"""Output tokens, reasoning included."""
REASONING_TOKENS = 7
CONTEXT_TOKENS = 200_000
"""The size of the context window that the error `ctx` speaks of."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to the model.

    Attributes:
        texts: every text that the user has said, oldest first.
        tools: the tools that the client offers, by name, each as the wire spells it.
        called: the tools that the model has called since the user's newest text, oldest first.
        schema: JSON Schema that the answer must keep to; None where none is asked for.
        forced: the tool that must be called; None leaves the choice.
        stream: whether the answer goes out piece by piece.
        model: the model that is asked.
    """

    texts: tuple[str, ...]
    tools: Mapping[str, Mapping[str, Any]]
    called: tuple[str, ...]
    schema: Mapping[str, Any] | None
    forced: str | None
    stream: bool
    model: str


@dataclass(frozen=True, slots=True)
class Say:
    """The model says a text, and its turn is over."""

    text: str
    refusal: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """The model calls a tool."""

    tool: str
    arguments: Mapping[str, Any] | str


Move = Say | Call


@dataclass(frozen=True, slots=True)
class Trouble:
    """The vendor's API answers with an error.

    Attributes:
        status: of HTTP.
        name: which of the errors that each wire spells in its own words.
    """

    status: int
    name: str


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of an answer on the wire: a server-sent event, or the whole body.

    Attributes:
        data: JSON value, or raw text.
        event: name of the event; None has none.
    """

    data: Any
    event: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer on the wire.

    Attributes:
        body: for a client that does not stream.
        opening: pieces before the middle of the answer, where a scenario may pause or cut it.
        closing: pieces after it.
    """

    body: Any
    opening: tuple[Piece, ...]
    closing: tuple[Piece, ...]


def halves(text: str) -> tuple[str, str]:
    """Return a text in two parts, so that it can be cut between them."""
    return text[: len(text) // 2], text[len(text) // 2 :]


def fitting(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Any:
    """Return a value that keeps to a JSON Schema of the kinds that clients and contracts use.

    >>> fitting({"type": "object", "properties": {"a": {"const": 1}, "b": {"type": "array", "items": {}}}})
    {'a': 1, 'b': []}
    """
    root = schema if root is None else root
    if "$ref" in schema:
        found: Any = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return fitting(found, root)
    for key, pick in (("const", schema.get("const")), ("enum", (schema.get("enum") or [None])[0])):
        if key in schema:
            return pick
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return fitting(schema[key][0], root)
    return _of_type(schema, root)


def _of_type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = (kind[0] if isinstance(kind, list) else kind).lower()
    if kind == "object":
        return {name: fitting(part, root) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [fitting(schema.get("items", {}), root)] * schema.get("minItems", 0)
    return {"integer": 1, "number": 1.0, "boolean": True, "null": None}.get(kind, "a text")


def texts_of(content: Any) -> Iterator[str]:
    """Yield the texts of a message's content, which is a text or a list of typed parts on every wire."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, Mapping) and isinstance(part.get("text"), str):
                yield part["text"]
