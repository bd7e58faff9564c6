"""The JSON Schema of `team_runtime.yaml`, and the sentence that says what each of its keys must be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from teams_runtime.shared.models import TeamRuntimeConfig

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the config file, with a description for each key, for editors."""
    schema = _first_paragraphs(TeamRuntimeConfig.model_json_schema())
    return {"$schema": SCHEMA_DIALECT, **schema, "title": "team_runtime.yaml"}


def schema_text() -> str:
    """Return the JSON Schema as the text of a file."""
    return json.dumps(config_schema(), indent=2) + "\n"


def _first_paragraphs(value: Any) -> Any:
    """Return a copy in which every description is its first paragraph on one line."""
    if isinstance(value, list):
        return [_first_paragraphs(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: " ".join(item.split("\n\n")[0].split())
        if key == "description" and isinstance(item, str)
        else _first_paragraphs(item)
        for key, item in value.items()
    }


def schema_at(schema: Mapping[str, Any], path: Sequence[str | int]) -> Mapping[str, Any]:
    """Return the part of a config schema that describes the value at `path`, references resolved.

    >>> schema_at(config_schema(), ["repository", "owned_paths", 0])["type"]
    'string'
    """
    part = _resolved(schema, schema)
    for key in path:
        inner = part["items"] if isinstance(key, int) else _property(part, key)
        part = _resolved(schema, inner)
    return part


def _property(part: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    properties: Mapping[str, Mapping[str, Any]] = part.get("properties", {})
    found: Mapping[str, Any] = properties.get(key) or part["additionalProperties"]
    return found


def _resolved(schema: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    named = [choice for choice in part.get("anyOf", ()) if "$ref" in choice]
    if len(named) == 1:  # a mapping that may be left out
        part = named[0]
    if "$ref" not in part:
        return part
    name = part["$ref"].rpartition("/")[2]
    found: Mapping[str, Any] = schema["$defs"][name]
    return found


def known_keys(part: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys that a section may hold, in the order of the scaffold."""
    return tuple(part.get("properties") or part.get("propertyNames", {}).get("enum", ()))


def requirement(part: Mapping[str, Any]) -> str:
    """Return what a value must be, as the end of a sentence.

    >>> requirement({"type": "integer", "exclusiveMinimum": 0})
    'a positive integer'
    >>> requirement({"anyOf": [{"enum": ["low", "high"]}, {"type": "null"}]})
    "one of 'low', 'high', or null"
    """
    if "$ref" in part:
        return "a mapping"
    if "anyOf" in part:
        return ", or ".join(requirement(choice) for choice in part["anyOf"])
    if "const" in part:
        return repr(part["const"])
    if "enum" in part:
        return "one of " + ", ".join(map(repr, part["enum"]))
    return _KINDS[part["type"]](part)


def _number(part: Mapping[str, Any]) -> str:
    noun = "integer" if part["type"] == "integer" else "number"
    if "minimum" in part:
        return f"an {noun} from {part['minimum']} to {part['maximum']}"
    return f"a positive {noun}" + (f" of at most {part['maximum']}" if "maximum" in part else "")


def _list(part: Mapping[str, Any]) -> str:
    article = "a non-empty list" if part.get("minItems") else "a list"
    return f"{article} of {requirement(part['items']).removeprefix('a ')}s"


def _text(part: Mapping[str, Any]) -> str:
    longest = f" of at most {part['maxLength']} characters" if "maxLength" in part else ""
    return ("a non-empty string" if part.get("minLength") else "a string") + longest


_KINDS = {
    "object": lambda _: "a mapping",
    "boolean": lambda _: "a boolean",
    "null": lambda _: "null",
    "string": _text,
    "integer": _number,
    "number": _number,
    "array": _list,
}
