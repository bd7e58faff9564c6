"""How prompts show values: fenced JSON that no text inside a value can end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from teams_runtime.shared.prompt_context import event_json, one_line


def readable_json(value: Any) -> str:
    r"""Return JSON text on one line, fit for UTF-8; letters of every script stay as they are.

    Line separators of every kind and lone surrogates come out as escapes; numbers of any length are written in full.

    >>> print(readable_json({"scope": "größer\n```"}))
    {"scope":"größer\n```"}
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):  # an integer past the digit limit, or nesting past the recursion limit
        text = event_json(value)
    return one_line(text)


def data_block(value: Mapping[str, Any]) -> str:
    """Return an object as a fenced JSON block, one key a line.

    >>> print(data_block({"tree": "4b825dc"}))
    ```json
    {
    "tree": "4b825dc"
    }
    ```
    """
    lines = ",\n".join(f"{readable_json(key)}: {readable_json(item)}" for key, item in value.items())
    return fenced("json", ["{", lines, "}"])


def fenced(language: str, lines: Iterable[str]) -> str:
    """Return lines of JSON text in a fence; none of them can end it, since JSON text never starts with a backtick."""
    return "\n".join([f"```{language}", *lines, "```"])
