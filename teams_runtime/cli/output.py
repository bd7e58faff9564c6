"""What the verbs print with: plain lines, exact texts and one line of JSON."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from teams_runtime.shared.errors import OutputError

_Command = TypeVar("_Command", bound=Callable[..., Any])
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that move a terminal's cursor, change its state or turn the direction of writing."""


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
    _echo(json_line(value))


def echo_line(text: str) -> None:
    """Print a text as one line; characters that the output's encoding lacks are escaped."""
    _echo(encodable(one_line(text)))


def echo_text(text: str) -> None:
    """Print a text of many lines as it is; characters that the output's encoding lacks are escaped."""
    _echo(encodable(shown(text)))


def _echo(text: str, *, nl: bool = True) -> None:
    with _told(sys.stdout):
        click.echo(text, nl=nl, color=True)  # else click drops escape sequences from the text


@contextmanager
def _told(stream: IO[str] | None) -> Iterator[None]:
    """Tell a failure of the standard output as what it is, and let what is left in it lead nowhere."""
    try:
        yield
    except OSError as error:
        silence(stream)
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(f"standard output: cannot be written: {error.strerror}") from error


def silence(stream: IO[str] | None) -> None:
    """Let a stream lead nowhere: what is left in it must not fail again when the interpreter writes it at exit."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def encodable(text: str, stream: IO[str] | None = None) -> str:
    """Return a text with everything escaped that a stream cannot encode, lone surrogates among them.

    Args:
        text: the text.
        stream: where it goes; the standard output by default.
    """
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, errors="backslashreplace").decode(encoding)


def shown(text: str) -> str:
    r"""Return a text as a terminal may have it: there, what would steer the terminal is escaped; elsewhere nothing is.

    Line ends and tabs stay. In JSON text only characters inside strings can change, into an equal spelling.
    """
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if draws() else text


def draws() -> bool:
    """Return whether the standard output is a terminal that a view can be drawn on."""
    return sys.stdout is not None and sys.stdout.isatty()


def write_bytes(blob: bytes) -> None:
    """Print bytes as they are; nothing is said when the standard output is closed."""
    if sys.stdout is not None:
        with _told(sys.stdout):
            sys.stdout.buffer.write(blob)
            sys.stdout.buffer.flush()


def clipped(value: object, width: int) -> str:
    """Return a value as one line of at most `width` characters; what a foreign record lacks is `-`.

    >>> clipped("a long story", 8)
    'a long …'
    """
    text = one_line(value if isinstance(value, str) else "-" if value is None else repr(value))
    return text if len(text) <= width else text[: width - 1] + "…"


def echo_exact(text: str) -> None:
    """Print a text to the last character and add nothing, not even a line end."""
    _echo(encodable(shown(text)), nl=False)


def program() -> str:
    """Return how this command is called here, for hints that can be copied: its name when it is on the PATH."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m teams_runtime"
    found = shutil.which(called.name)
    if found is not None and Path(found).resolve() == called.resolve():
        return called.name
    return shlex.quote(str(called.absolute()))
