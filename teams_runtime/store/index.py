"""`_index`: where the newest events and every role's newest evidence lie in the file, so that nothing else is read.

It is the last field of a record's object and bookkeeping only. It counts when the file is exactly as long as it says
and its checksum holds; otherwise another program wrote the file, and the record is taken apart as a whole instead.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from teams_runtime.store.events import to_json

RECENT_SLICES = 16
"""How many of the newest events the index can name."""
VERSION = 1
"""Raised when this layout or the head that the fold makes changes, so that an older head is folded anew."""
_KEY = b'\n"_index":{'
_CHECK = b',"crc":"%08x"}}\n'
_CHECK_LENGTH = len(_CHECK % 0)
_SIZE_WIDTH = 15  # blanks in front of a number are JSON, so the index's own length does not depend on the file's


class Slice(NamedTuple):
    """Where the text of one event lies, in bytes."""

    offset: int
    length: int


class Evidence(NamedTuple):
    """The newest evidence of one role: its position in the list of events (0-based), and where it lies."""

    position: int
    offset: int
    length: int

    @property
    def slice(self) -> Slice:
        """Where it lies."""
        return Slice(self.offset, self.length)


@dataclass(frozen=True, slots=True)
class Index:
    """What `_index` says of a file; all offsets in bytes.

    Attributes:
        token: drawn anew whenever the whole file is laid out anew, so that offsets never outlive their layout.
        start: end of the `[` that opens the events.
        previous: end of the newest event but one; `start` when there is only one.
        end: end of the newest event.
        count: number of events.
        characters: characters of all event lines together, as a prompt shows them.
        digest: CRC-32 of the file up to `end`.
        plain: whether every event line starts with its `id`, as the store writes it.
        recent: the newest events, oldest first.
        roles: every role that has evidence.
    """

    token: str
    start: int
    previous: int
    end: int
    count: int
    characters: int
    digest: int
    plain: bool
    recent: tuple[Slice, ...]
    roles: dict[str, Evidence]

    def gap(self) -> bytes:
        """Return what stands between the newest event and the next one."""
        return b",\n" if self.count else b"\n"

    def add(self, line: bytes, characters: int, role: str | None, *, plain: bool = True) -> Index:
        """Return the index after one more event.

        Args:
            line: the event's text, one line.
            characters: how many characters that is in a prompt.
            role: the role that it is evidence of.
            plain: whether it starts with its `id`.
        """
        gap = self.gap()
        place = Slice(self.end + len(gap), len(line))
        return Index(
            token=self.token,
            start=self.start,
            previous=self.end,
            end=place.offset + place.length,
            count=self.count + 1,
            characters=self.characters + characters,
            digest=zlib.crc32(line, zlib.crc32(gap, self.digest)),
            plain=self.plain and plain,
            recent=(*self.recent, place)[-RECENT_SLICES:],
            roles=self.roles if role is None else self.roles | {role: Evidence(self.count, *place)},
        )

    def place_of(self, position: int) -> Slice | None:
        """Return where the event at `position` (0-based) lies, when the index says so."""
        if position >= self.count - len(self.recent):
            return self.recent[position - self.count]
        return next((one.slice for one in self.roles.values() if one.position == position), None)

    def newest(self) -> dict[str, int]:
        """Return each role's newest evidence by position (0-based), as `prompt_context.newest_evidence` does."""
        return {role: one.position for role, one in self.roles.items()}


def empty_index(opening: bytes, token: str) -> Index:
    """Return the index of a record without events whose file starts with `opening`, up to the `[` of the events."""
    length = len(opening)
    return Index(token, length, length, length, 0, 0, zlib.crc32(opening), plain=True, recent=(), roles={})


def closing(index: Index, fields: bytes) -> bytes:
    r"""Return everything after the newest event.

    Args:
        index: the index to write.
        fields: the fields that stand after the events, each as `,\n"name":value`.
    """
    recent = ",".join([f"[{offset},{length}]" for offset, length in index.recent])
    stored = (
        f'"v":{VERSION},"token":"{index.token}","start":{index.start},"previous":{index.previous},"end":{index.end},'
        f'"count":{index.count},"characters":{index.characters},"digest":"{index.digest:08x}",'
        f'"plain":{"true" if index.plain else "false"},"recent":[{recent}],"roles":{to_json(index.roles)},"size":'
    )
    body = b"\n]" + fields + b"," + _KEY + stored.encode()
    size = index.end + len(body) + _SIZE_WIDTH + _CHECK_LENGTH
    body += b"%*d" % (_SIZE_WIDTH, size)
    return body + _CHECK % zlib.crc32(body)


def find_index(block: bytes, size: int) -> Index | None:
    """Return the index that the last bytes of a file hold, or None; its checksum is not looked at yet.

    Args:
        block: the end of the file.
        size: the length of the file.
    """
    at = block.rfind(_KEY)
    if at < 0:
        return None
    try:
        stored = json.loads(block[at + len(_KEY) - 1 : -2])
        index = _from_stored(stored)
        fits = stored["v"] == VERSION and stored["size"] == size and 0 < index.start <= index.previous
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return index if fits and index.previous < index.end < size and index.count > 0 else None


def fields_of(tail: bytes) -> bytes:
    """Return the fields between the events and the index as one JSON object, of everything after the newest event."""
    return b"{" + tail[len(b"\n],") : tail.rfind(_KEY) - 1] + b"}"


def closing_holds(tail: bytes) -> bool:
    """Return whether everything after the newest event is as the store wrote it."""
    return tail[-_CHECK_LENGTH:] == _CHECK % zlib.crc32(tail[:-_CHECK_LENGTH])


def _from_stored(stored: dict[str, Any]) -> Index:
    index = Index(
        token=stored["token"],
        start=stored["start"],
        previous=stored["previous"],
        end=stored["end"],
        count=stored["count"],
        characters=stored["characters"],
        digest=int(stored["digest"], 16),
        plain=stored["plain"],
        recent=tuple(Slice(*one) for one in stored["recent"]),
        roles={role: Evidence(*one) for role, one in stored["roles"].items()},
    )
    places = [*index.recent, *(one.slice for one in index.roles.values())]
    numbers = [index.start, index.previous, index.end, index.count, index.characters, *chain.from_iterable(places)]
    numbers += [one.position for one in index.roles.values()]
    if set(map(type, numbers)) != {int}:
        raise ValueError("an index holds whole numbers")
    if not index.recent or min(places)[0] < index.start or max(map(sum, places)) > index.end:
        raise ValueError("an index points at events")
    return index


def is_index_of(block: bytes, token: str, end: int) -> bool:
    """Return whether the end of a file holds the index of a certain layout whose newest event ends at `end`.

    Args:
        block: the file from `end` on.
        token: the layout's token.
        end: see above.
    """
    return b'"token":"%s",' % token.encode() in block and b',"end":%d,' % end in block and closing_holds(block)
