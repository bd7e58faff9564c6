"""A record as a plain file that leaves one store and enters another."""

from __future__ import annotations

from pathlib import Path

from teams_runtime.shared.errors import InputError, RecordDamagedError
from teams_runtime.shared.paths import check_request_id
from teams_runtime.store.checking import verify_file
from teams_runtime.store.folding import Folding
from teams_runtime.store.history import IndexedHistory, open_history
from teams_runtime.store.layout import fields_text, is_native, lay_out, native_head
from teams_runtime.store.reading import parse, read_whole
from teams_runtime.store.scanning import one_line


def plain_bytes(path: Path) -> bytes:
    """Return a record as one JSON object without the store's index; a foreign record byte for byte as it is.

    Raises:
        RecordNotFoundError: there is nothing at `path`.
        RecordDamagedError: it is no record.
    """
    history = open_history(path, follow_links=False)
    if isinstance(history, IndexedHistory):
        return history.up_to_end() + b"\n]" + fields_text(history.texts_after()) + b"}\n"
    return read_whole(path, follow_links=False)


def arriving(path: Path, request_id: str | None, folding: Folding) -> tuple[str, bytes]:
    """Return the id and the bytes with which the record in a file enters a store.

    A record of this package must be sound and gets its index; a foreign one is taken over byte for byte.

    Args:
        path: the file.
        request_id: the id to give it; None is the id it has, else the file's name.
        folding: how a head follows from events.

    Raises:
        InputError: it has another id, or one that cannot be used.
        RecordNotFoundError: there is nothing at `path`.
        RecordDamagedError: it is no record, or not sound; the first problem is named.
    """
    blob = read_whole(path, follow_links=True)
    found = parse(path, blob)
    data = found.data
    own = data.get("request_id", request_id or path.stem)
    if not isinstance(own, str) or (request_id is not None and own != request_id):
        raise InputError(f"{path}: the record's own request_id is {str(own)[:60]!r}, it cannot get another one")
    name = check_request_id(own)
    if not is_native(data):
        return name, blob
    verdict = verify_file(path, folding, in_store=False)
    if not verdict.sound:
        raise RecordDamagedError(path, f"is not sound: {verdict.problems[0]}")
    lines = [one_line(text) for text in found.event_texts]
    return name, lay_out(native_head(name, folding.fold(data["events"])), lines, data["events"], found)
