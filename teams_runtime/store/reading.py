"""A record file → its bytes → its parts; every reason why a file is no record is named here.

Reading changes nothing on disk and never waits: a pipe in the place of a record is an error, not a hang.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teams_runtime.shared.errors import RecordDamagedError, RecordNotFoundError
from teams_runtime.store.index import Index, closing_holds, find_index
from teams_runtime.store.layout import is_native
from teams_runtime.store.scanning import Scan, ScanError, scan

_BLOCK = 8192
_LARGEST_CLOSING = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
          stat.S_IFBLK: "a device"}  # fmt: skip


def open_record(path: Path, *, follow_links: bool) -> int:
    """Return a read-only descriptor of a regular file; the caller closes it.

    Raises:
        RecordNotFoundError: there is nothing at `path`.
        RecordDamagedError: it is not a regular file, or cannot be opened.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError as error:
        raise RecordNotFoundError(path, "there is no such record") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RecordDamagedError(path, "is a symbolic link, a record must be a file of its own") from error
        if error.errno == errno.ENXIO:
            raise RecordDamagedError(path, "is a socket or device, a record must be a regular file") from error
        raise RecordDamagedError(path, f"cannot be opened: {error.strerror}") from error
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise RecordDamagedError(path, f"is {_KINDS.get(kind, 'no regular file')}, a record must be a regular file")
    return descriptor


def read_whole(path: Path, *, follow_links: bool) -> bytes:
    """Return all bytes of a file that may be a record.

    Raises:
        RecordNotFoundError: there is nothing at `path`.
        RecordDamagedError: it is not a regular file, or cannot be read.
    """
    descriptor = open_record(path, follow_links=follow_links)
    try:
        return read_range(descriptor, 0, os.fstat(descriptor).st_size)
    except OSError as error:
        raise RecordDamagedError(path, f"cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def parse(path: Path, blob: bytes) -> Scan:
    """Take a record's bytes apart; `path` is only named in errors.

    NaN and the infinities are passed in foreign records, as Python's own programs write them; in a record of this
    package they are damage.

    Raises:
        RecordDamagedError: they are not one JSON object in UTF-8.
    """
    if not blob:
        raise RecordDamagedError(path, "the file is empty, a record must be a JSON object")
    if blob.startswith(_BOM):
        raise RecordDamagedError(path, "starts with a byte order mark; save it as UTF-8 without one")
    try:
        found = scan(blob.decode("utf-8"))
    except UnicodeDecodeError as error:
        bad = " ".join(f"{byte:02x}" for byte in blob[error.start : error.start + 4])
        raise RecordDamagedError(path, f"is not UTF-8: byte {error.start} starts with {bad}") from error
    except ScanError as error:
        raise RecordDamagedError(path, str(error)) from error
    if found.constant is not None and is_native(found.data):
        raise RecordDamagedError(path, found.constant)
    return found


def read_range(descriptor: int, start: int, end: int) -> bytes:
    """Return the bytes of an open file from `start` to before `end`; fewer when the file is shorter."""
    if start >= end:
        return b""
    first = os.pread(descriptor, end - start, start)
    if len(first) == end - start:
        return first
    parts, start = [first], start + len(first)
    while start < end and parts[-1]:
        parts.append(os.pread(descriptor, end - start, start))
        start += len(parts[-1])
    return b"".join(parts)


def read_closing(descriptor: int, size: int) -> tuple[Index, bytes] | None:
    """Return the index of an open file and everything after its newest event; None when there is none that counts.

    Args:
        descriptor: the file.
        size: its length in bytes.
    """
    length = _BLOCK
    while True:
        block = read_range(descriptor, max(0, size - length), size)
        index = find_index(block, size)
        if index is not None or length >= min(size, _LARGEST_CLOSING):
            break
        length *= 8
    if index is None:
        return None
    begin = size - len(block)
    tail = block[index.end - begin :] if index.end >= begin else read_range(descriptor, index.end, size)
    return (index, tail) if closing_holds(tail) else None


def check_owner(path: Path, data: Mapping[str, Any]) -> None:
    """Check that a record in a store is the one that its file name says.

    Raises:
        RecordDamagedError: its `request_id` is not the file's name; a foreign record may have none.
    """
    if "request_id" in data and data["request_id"] != path.stem:
        shown = repr(data["request_id"])
        shown = shown if len(shown) <= 60 else shown[:60] + "…"
        raise RecordDamagedError(path, f"its request_id must be {path.stem!r}, the file's name, got {shown}")
