"""The events that can still be read in a damaged file: for export by a person, never for a repair."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from teams_runtime.store.reading import read_whole
from teams_runtime.store.scanning import one_line

_OPENING = re.compile(r'"events"\s*:\s*\[')
_SPACE = re.compile(r"[ \t\r\n,]*")
_BAD_BYTE = re.compile("[\udc80-\udcff]")
_DECODER = json.JSONDecoder(parse_int=str)  # whole or not is all that is asked; numbers of any length pass


@dataclass(frozen=True, slots=True)
class Salvage:
    """What a damaged file still holds.

    Attributes:
        lines: the text of every whole event, one line each, in file order.
        gaps: what lies between or after them and is no event, one sentence each.
    """

    lines: tuple[str, ...]
    gaps: tuple[str, ...]


def salvage_file(path: Path) -> Salvage:
    """Return every event of a file that is whole, wherever the file is damaged.

    Raises:
        RecordNotFoundError: there is nothing at `path`.
        RecordDamagedError: it is not a regular file, or cannot be opened.
    """
    text = read_whole(path, follow_links=True).decode("utf-8", "surrogateescape")
    opening = _OPENING.search(text)
    if opening is None:
        return Salvage((), ("no 'events' are in the file",))
    return _events(text, opening.end())


def _events(text: str, at: int) -> Salvage:
    lines: list[str] = []
    gaps: list[str] = []
    while True:
        found = _SPACE.match(text, at)
        at = found.end() if found else at
        if text[at : at + 1] == "]":
            return Salvage(tuple(lines), tuple(gaps))
        end = _end_of_event(text, at)
        if end is not None:
            lines.append(one_line(text[at:end]))
            at = end
            continue
        next_line = text.find("\n{", at + 1)
        length = (len(text) if next_line < 0 else next_line) - at
        if length:
            gaps.append(f"after event {len(lines)} of the whole ones: {length} characters that are no whole event")
        if next_line < 0:
            return Salvage(tuple(lines), (*gaps, "the events do not end: the file is cut off"))
        at = next_line + 1


def _end_of_event(text: str, at: int) -> int | None:
    """Return where the value that begins at `at` ends, or None when it is not whole."""
    try:
        _, end = _DECODER.raw_decode(text, at)
    except (json.JSONDecodeError, RecursionError):
        return None
    return None if _BAD_BYTE.search(text, at, end) else end
