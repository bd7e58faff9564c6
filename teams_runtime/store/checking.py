"""What is wrong with one record file, all of it, in words; nothing on disk is changed."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teams_runtime.shared.errors import EventRefusedError, RecordDamagedError
from teams_runtime.shared.prompt_context import event_json, newest_evidence
from teams_runtime.store.alternating import spare_path
from teams_runtime.store.events import check_shape
from teams_runtime.store.folding import Folding
from teams_runtime.store.index import Index, closing_holds, find_index
from teams_runtime.store.layout import NOT_HEAD, is_native, native_head, prompt_length
from teams_runtime.store.reading import check_owner, parse, read_whole
from teams_runtime.store.scanning import Scan
from teams_runtime.store.writing import draft_path

_MOST_TOLD = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `verify` found.

    Attributes:
        path: the record file.
        events: how many events were read; 0 when the file cannot be read.
        native: whether this package made the record.
        problems: what breaks a rule of the record, one sentence each.
        notes: what is odd and harms nothing, one sentence each.
    """

    path: Path
    events: int
    native: bool
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_file(path: Path, folding: Folding, *, in_store: bool) -> Verdict:
    """Read one record file whole and check all that a record promises.

    Args:
        path: the file.
        folding: how a head follows from events.
        in_store: whether the file lies in a store, so that its name and its neighbours count too.

    Raises:
        RecordNotFoundError: there is nothing at `path`.
    """
    try:
        blob = read_whole(path, follow_links=not in_store)
        found = parse(path, blob)
        data = found.data
        if in_store:
            check_owner(path, data)
    except RecordDamagedError as error:
        beside = tuple(_neighbours(path, in_store=in_store))
        return Verdict(path, 0, native=False, problems=(error.reason,), notes=beside)
    native = is_native(data)
    problems = [*_events_problems(data, found), *(_native_problems(found, blob, folding) if native else ())]
    notes = [*_notes(found, blob, native=native), *_neighbours(path, in_store=in_store)]
    return Verdict(path, len(found.event_texts), native, _told(problems), tuple(notes))


def _told(problems: list[str]) -> tuple[str, ...]:
    more = len(problems) - _MOST_TOLD
    return (*problems[:_MOST_TOLD], *([f"and {more} more"] if more > 0 else []))


def _events_problems(data: Mapping[str, Any], found: Scan) -> Iterator[str]:
    events = data.get("events")
    if events is not None and not isinstance(events, list):
        yield f"'events' must be a list, got {type(events).__name__}; nothing of it is projected"
    ids = Counter(event["id"] for event in _objects(events) if isinstance(event.get("id"), str))
    yield from (f"the event id {name[:60]!r} is there {times} times" for name, times in ids.items() if times > 1)
    if found.constant is not None:
        yield found.constant


def _objects(events: object) -> Iterator[dict[str, Any]]:
    yield from (event for event in (events if isinstance(events, list) else ()) if isinstance(event, dict))


def _native_problems(found: Scan, blob: bytes, folding: Folding) -> Iterator[str]:
    data = found.data
    for number, event in enumerate(data["events"], 1):
        reason = _shape_problem(event, number)
        if reason is not None:
            yield f"event {number}: {reason}"
    stored = {key: value for key, value in data.items() if key not in NOT_HEAD}
    expected = native_head(data["request_id"], folding.fold(data["events"]))
    for key, value in expected.items():
        if key not in stored:
            yield f"the head must have {key!r}, as the events say"
        elif stored[key] is not value and event_json(stored[key]) != event_json(value):
            yield f"the head's {key!r} is not what the events make of it"
    index = find_index(blob, len(blob))
    if index is not None and closing_holds(blob[index.end :]):
        yield from _index_problems(index, found, blob)


def _shape_problem(event: Any, number: int) -> str | None:
    """Return why an event does not belong at its place."""
    try:
        check_shape(event, number)
    except EventRefusedError as error:
        return str(error).removeprefix("event refused: ")
    return None if "seq" in event else f"'seq' must be {number}, it is missing"


def _index_problems(index: Index, found: Scan, blob: bytes) -> Iterator[str]:
    """Compare a complete index with the history it is of."""
    if zlib.crc32(blob[: index.end]) != index.digest:
        yield "another program changed bytes of the history and left the length of the file as it was"
        return
    events = found.data["events"]
    if index.count != len(events) or index.newest() != newest_evidence(events):
        yield "the index does not name what the events are"
    if index.characters != sum(map(prompt_length, found.event_texts)):
        yield "the index counts other characters than the events have"
    for position, place in enumerate(index.recent, index.count - len(index.recent)):
        if blob[place.offset : place.offset + place.length] != found.event_texts[position].encode():
            yield f"the index does not point at event {position + 1}"


def _notes(found: Scan, blob: bytes, *, native: bool) -> Iterator[str]:
    if not native:
        yield "teams-runtime did not make this record: it is read and shown, never lengthened"
        return
    index = find_index(blob, len(blob))
    if index is None or not closing_holds(blob[index.end :]):
        yield "another program wrote the file: it is read as a whole, and the next append gives it its index again"
    names = Counter(field.name for field in found.fields)
    yield from (f"field {name[:60]!r} stands there twice, the last one counts" for name, n in names.items() if n > 1)


def _neighbours(path: Path, *, in_store: bool) -> Iterator[str]:
    """Name what an ended process or another program left beside the record."""
    if not in_store:
        return
    draft = draft_path(path)
    if draft.exists():
        yield f"{draft.name} was left by a process that ended while it wrote; the next append removes it"
    for left in sorted(path.parent.glob(f"{path.name}.*")):
        yield f"{left.name} lies beside the record and is never read"
    spare = spare_path(path)
    if spare.exists() and not path.exists():
        yield f"{spare.name} is the second copy of a record that is gone"
