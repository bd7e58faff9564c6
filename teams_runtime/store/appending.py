"""One event more: the checks that need the record, the new bytes, and the way of writing that its length asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teams_runtime.shared.errors import EventRefusedError, RecordConflictError, RecordDamagedError
from teams_runtime.shared.prompt_context import event_json, evidence_role
from teams_runtime.store.alternating import Addition, lengthen
from teams_runtime.store.events import Event, StoredEvent, same_content
from teams_runtime.store.folding import Folding
from teams_runtime.store.history import WHOLE_BYTES, IndexedHistory, indexed, open_history
from teams_runtime.store.index import closing
from teams_runtime.store.layout import FIXED_KEYS, SCHEMA, fields_text, is_native, lay_out, native_head
from teams_runtime.store.reading import check_owner
from teams_runtime.store.scanning import Scan, one_line, read_value
from teams_runtime.store.writing import Disk, confirm, publish

_MOST_KNOWN = 32
_MISSING = object()


@dataclass(frozen=True, slots=True)
class _Known:
    """The record as the last append of this process left it, so that the next one need not take it apart again.

    It counts only while the end of the file is the very bytes that were written. Nothing of it is handed out.
    """

    history: IndexedHistory
    head: dict[str, Any]
    texts: dict[str, str]


class Appender:
    """Adds events to records whose lock the caller holds.

    Args:
        folding: how the head follows from the events.
        disk: where changes of files are made.
        alternate_from: length in bytes from which a record is kept in two copies that are lengthened in turn.
    """

    def __init__(self, folding: Folding, disk: Disk, alternate_from: int) -> None:
        self._folding = folding
        self._disk = disk
        self._alternate_from = alternate_from
        self._known: dict[Path, _Known] = {}

    def open(self, path: Path) -> IndexedHistory | Scan:
        """Return the record as it is now; see `open_history`."""
        known = self._known.get(path)
        if known is not None and known.history.index.end > WHOLE_BYTES and known.history.is_current():
            return known.history
        history = open_history(path, follow_links=False)
        check_owner(path, history.data if isinstance(history, Scan) else history.head)
        return history

    def add(self, path: Path, history: IndexedHistory | Scan, stored: StoredEvent, *, fresh: bool) -> IndexedHistory:
        """Add an event and return the record when it is on the device.

        Args:
            path: the record file.
            history: what it holds, from `open`.
            stored: the event, with the number that the caller expects to be free.
            fresh: whether the event's id was drawn a moment ago, so that a long history need not be searched for it.

        Raises:
            EventRefusedError: the id is taken by another event, or it would create the record a second time.
            RecordConflictError: the record has another number of events.
            RecordDamagedError: the record cannot be lengthened.
            RecordError: a system call failed.
        """
        event = stored.value
        in_place = isinstance(history, IndexedHistory)
        if not isinstance(history, IndexedHistory):
            history = self._laid_out(path, history)
        searched = history.blob is not None or not fresh
        position = history.position_of_id(event["id"]) if searched else None
        if position is not None:
            return self._again(path, history, position, event)
        if history.index.count != event["seq"] - 1:
            raise RecordConflictError(path, f"has {history.index.count} events, the caller had seen {event['seq'] - 1}")
        if event["type"] == "created":
            raise EventRefusedError(f"event refused: 'created' stands in front of a record, {path} has it")
        return self._write(path, history, stored, in_place=in_place)

    def _again(self, path: Path, history: IndexedHistory, position: int, event: Event) -> IndexedHistory:
        if not same_content(read_value(history.texts([position])[0]), event):
            raise EventRefusedError(f"event refused: another event of {path} has the id {event['id']!r}")
        confirm(path, self._disk)
        return history

    def _write(self, path: Path, history: IndexedHistory, stored: StoredEvent, *, in_place: bool) -> IndexedHistory:
        known = self._known.pop(path, None)
        if known is None or known.history.tail != history.tail:
            known = _Known(history, history.head, history.texts_after())
        head = self._head(history, known.head, stored.value)
        texts = _changed(history, known, head)
        old, text = history.index, stored.line.encode("ascii")
        new = old.add(text, len(text), evidence_role(stored.value))
        addition = Addition(old, new, old.gap() + text, closing(new, fields_text(texts)))
        if in_place and new.end + len(addition.closing) >= self._alternate_from:
            blob = None
            lengthen(path, addition, self._disk)
        else:
            blob = history.up_to_end() + addition.event + addition.closing
            publish(path, blob, self._disk, new=False)
        self._remember(path, _Known(IndexedHistory(path, new, history.opening, addition.closing, blob), head, texts))
        return IndexedHistory(path, new, history.opening, addition.closing, blob)

    def _head(self, history: IndexedHistory, head: Mapping[str, Any], event: Event) -> dict[str, Any]:
        if self._folding.advance is not None:
            return self._folding.advance(head, event)
        events = map(read_value, history.texts(range(history.index.count)))
        return {**head, **self._folding.fold([*events, event])}

    def _remember(self, path: Path, known: _Known) -> None:
        while len(self._known) >= _MOST_KNOWN:
            self._known.pop(next(iter(self._known)), None)
        self._known[path] = known

    def _laid_out(self, path: Path, found: Scan) -> IndexedHistory:
        """Return a record that another program wrote as the store would have written it; nothing is written yet."""
        check_can_grow(path, found.data)
        events = found.data["events"]
        head = native_head(path.stem, self._folding.fold(events))
        blob = lay_out(head, [one_line(text) for text in found.event_texts], events, found)
        history = indexed(path, blob)
        if history is None:
            raise RecordDamagedError(path, "cannot be laid out anew")
        return history


def _changed(history: IndexedHistory, known: _Known, head: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields after the events by name and JSON text; what the event left alone stays as it is spelled."""
    texts = dict(known.texts)
    for name, value in head.items():
        if name not in FIXED_KEYS and name not in history.before and value is not known.head.get(name, _MISSING):
            texts[name] = event_json(value)
    return texts


def check_can_grow(path: Path, data: Mapping[str, Any]) -> None:
    """Check that a record without a valid index is one of this package's, with every event in its place.

    Raises:
        RecordDamagedError: it is not.
    """
    check_owner(path, data)
    if type(data.get("schema")) is int and data["schema"] != SCHEMA:
        raise RecordDamagedError(path, f"has the schema {data['schema']}, this program lengthens schema {SCHEMA} only")
    if not is_native(data):
        raise RecordDamagedError(path, "was not made by teams-runtime: it is read and shown, never lengthened")
    for number, event in enumerate(data["events"], 1):
        found = event.get("seq") if isinstance(event, dict) else None
        if type(found) is not int or found != number:
            raise RecordDamagedError(path, f"event {number} must have seq {number}, got {str(found)[:20]}")
