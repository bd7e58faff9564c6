"""What the verbs print with: plain lines, one line of JSON, and a terminal to draw on."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_option(function: _Command) -> _Command:
    """Give a command the option `--json`, as the argument `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")(function)


def one_line(text: str) -> str:
    r"""Return a text as one line that a terminal shows as it is: whatever is not printable is escaped.

    >>> one_line("a\nb\x1b[31m é")
    'a\\nb\\x1b[31m é'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def json_line(value: Any) -> str:
    """Return a value as one line of JSON, ASCII only, so that it survives every terminal and pipe."""
    return json.dumps(value, ensure_ascii=True)


def error_json(kind: str, message: str) -> str:
    """Return the line that stands for an error under `--json`."""
    return json_line({"error": {"type": kind, "message": message}})


def echo_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    click.echo(json_line(value))


def echo_line(text: str) -> None:
    """Print a text as one line; characters that the output's encoding lacks are escaped."""
    click.echo(encodable(one_line(text)))


def echo_text(text: str) -> None:
    """Print a text of many lines as it is; characters that the output's encoding lacks are escaped."""
    click.echo(encodable(text), color=True)  # else click drops escape sequences from the text


def encodable(text: str) -> str:
    """Return a text with everything escaped that the standard output cannot encode, lone surrogates among them."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, errors="backslashreplace").decode(encoding)


def draws() -> bool:
    """Return whether the standard output is a terminal that a view can be drawn on."""
    return sys.stdout.isatty()


def console() -> Console:
    """Return a rich console on the standard output; rich is loaded here because few commands draw."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def clipped(value: object, width: int) -> str:
    """Return a value as one line of at most `width` characters; what a foreign record lacks is `-`.

    >>> clipped("a long story", 8)
    'a long …'
    """
    text = one_line(value if isinstance(value, str) else "-" if value is None else repr(value))
    return text if len(text) <= width else text[: width - 1] + "…"


def echo_exact(text: str) -> None:
    """Print a text to the last character and add nothing, not even a line end."""
    click.echo(encodable(text), nl=False, color=True)


def program() -> str:
    """Return how this command is called here, for hints that can be copied: its name when it is on the PATH."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m teams_runtime"
    found = shutil.which(called.name)
    if found is not None and Path(found).resolve() == called.resolve():
        return called.name
    return shlex.quote(str(called.absolute()))
