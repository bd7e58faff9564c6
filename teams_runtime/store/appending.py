"""One event more: the checks that need the record, the new bytes, and the way of writing that its length asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teams_runtime.shared.errors import EventRefusedError, RecordConflictError, RecordDamagedError
from teams_runtime.shared.prompt_context import evidence_role
from teams_runtime.store.alternating import Addition, lengthen
from teams_runtime.store.events import Event, same_content
from teams_runtime.store.folding import Folding
from teams_runtime.store.history import WHOLE_BYTES, IndexedHistory, indexed
from teams_runtime.store.index import closing
from teams_runtime.store.layout import changed_fields, fields_text, is_native, lay_out, native_head
from teams_runtime.store.reading import check_owner
from teams_runtime.store.scanning import Scan, one_line, read_value
from teams_runtime.store.writing import Disk, confirm, publish


@dataclass(frozen=True, slots=True)
class Appender:
    """Adds events to records whose lock the caller holds.

    Attributes:
        folding: how the head follows from the events.
        disk: where changes of files are made.
        alternate_from: length in bytes from which a record is kept in two copies that are lengthened in turn.
    """

    folding: Folding
    disk: Disk
    alternate_from: int = WHOLE_BYTES

    def add(
        self, path: Path, history: IndexedHistory | Scan, line: str, expected_seq: int, *, fresh: bool
    ) -> IndexedHistory:
        """Add the event of `line` and return the record when it is on the device.

        Args:
            path: the record file.
            history: what it holds.
            line: the event's text, with its number.
            expected_seq: how many events the caller has seen.
            fresh: whether the event's id was drawn a moment ago, so that a long history need not be searched for it.

        Raises:
            EventRefusedError: the id is taken by another event, or it would create the record a second time.
            RecordConflictError: the record has another number of events.
            RecordDamagedError: the record cannot be lengthened.
            RecordError: a system call failed.
        """
        event = read_value(line)
        in_place = isinstance(history, IndexedHistory)
        if not isinstance(history, IndexedHistory):
            history = self._laid_out(path, history)
        searched = history.blob is not None or not fresh
        position = history.position_of_id(event["id"]) if searched else None
        if position is not None:
            return self._again(path, history, position, event)
        if history.index.count != expected_seq:
            raise RecordConflictError(path, f"has {history.index.count} events, the caller had seen {expected_seq}")
        if event["type"] == "created":
            raise EventRefusedError(f"event refused: 'created' stands in front of a record, {path} has it")
        return self._write(path, history, event, line, in_place=in_place)

    def _again(self, path: Path, history: IndexedHistory, position: int, event: Event) -> IndexedHistory:
        if not same_content(read_value(history.texts([position])[0]), event):
            raise EventRefusedError(f"event refused: another event of {path} has the id {event['id']!r}")
        confirm(path, self.disk)
        return history

    def _write(self, path: Path, history: IndexedHistory, event: Event, line: str, *, in_place: bool) -> IndexedHistory:
        old, text = history.index, line.encode("ascii")
        new = old.add(text, len(line), evidence_role(event))
        before, after = history.fields_before, history.fields_after
        head = self._head(history, history.head, event)
        addition = Addition(old, new, old.gap() + text, closing(new, fields_text(changed_fields(before, after, head))))
        if in_place and new.end + len(addition.closing) >= self.alternate_from:
            blob = None
            lengthen(path, addition, self.disk)
        else:
            blob = history.up_to_end() + addition.event + addition.closing
            publish(path, blob, self.disk, new=False)
        return IndexedHistory(path, new, history.opening, addition.closing, blob)

    def _head(self, history: IndexedHistory, head: Mapping[str, Any], event: Event) -> dict[str, Any]:
        if self.folding.advance is not None:
            folded = self.folding.advance(head, event)
        else:
            folded = self.folding.fold([*map(read_value, history.texts(range(history.index.count))), event])
        return native_head(head["request_id"], folded)

    def _laid_out(self, path: Path, found: Scan) -> IndexedHistory:
        """Return a record that another program wrote as the store would have written it; nothing is written yet."""
        check_can_grow(path, found.data)
        events = found.data["events"]
        head = native_head(path.stem, self.folding.fold(events))
        blob = lay_out(head, [one_line(text) for text in found.event_texts], events, found)
        history = indexed(path, blob)
        if history is None:
            raise RecordDamagedError(path, "cannot be laid out anew")
        return history


def check_can_grow(path: Path, data: Mapping[str, Any]) -> None:
    """Check that a record without a valid index is one of this package's, with every event in its place.

    Raises:
        RecordDamagedError: it is not.
    """
    check_owner(path, data)
    if not is_native(data):
        raise RecordDamagedError(path, "was not made by teams-runtime: it is read and shown, never lengthened")
    for number, event in enumerate(data["events"], 1):
        found = event.get("seq") if isinstance(event, dict) else None
        if type(found) is not int or found != number:
            raise RecordDamagedError(path, f"event {number} must have seq {number}, got {str(found)[:20]}")
