"""A record file → its bytes → its parts; every reason why a file is no record is named here.

Reading changes nothing on disk and never waits: a pipe in the place of a record is an error, not a hang.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from teams_runtime.shared.errors import RecordDamagedError, RecordNotFoundError
from teams_runtime.store.scanning import Scan, ScanError, scan

_BOM = b"\xef\xbb\xbf"
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
          stat.S_IFBLK: "a device"}  # fmt: skip


def read_bytes(path: Path, *, follow_links: bool) -> bytes:
    """Return the whole file.

    Args:
        path: the file.
        follow_links: whether `path` itself may be a symbolic link.

    Raises:
        RecordNotFoundError: there is nothing at `path`.
        RecordDamagedError: it is not a regular file, is empty, or cannot be read.
    """
    descriptor = open_record(path, follow_links=follow_links)
    try:
        with os.fdopen(descriptor, "rb") as file:
            blob = file.read()
    except OSError as error:
        raise RecordDamagedError(path, f"cannot be read: {error.strerror}") from error
    if not blob:
        raise RecordDamagedError(path, "the file is empty, a record must be a JSON object")
    return blob


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


def parse(path: Path, blob: bytes) -> Scan:
    """Take a record's bytes apart; `path` is only named in errors.

    Raises:
        RecordDamagedError: they are not one JSON object in UTF-8.
    """
    if blob.startswith(_BOM):
        raise RecordDamagedError(path, "starts with a byte order mark; save it as UTF-8 without one")
    try:
        return scan(blob.decode("utf-8"))
    except UnicodeDecodeError as error:
        bad = " ".join(f"{byte:02x}" for byte in blob[error.start : error.start + 4])
        raise RecordDamagedError(path, f"is not UTF-8: byte {error.start} starts with {bad}") from error
    except ScanError as error:
        raise RecordDamagedError(path, str(error)) from error


def check_owner(path: Path, scan_: Scan) -> None:
    """Check that a record in a store is the one that its file name says.

    Raises:
        RecordDamagedError: its `request_id` is not the file's name; a foreign record may have none.
    """
    data = scan_.data
    if "request_id" in data and data["request_id"] != path.stem:
        shown = repr(data["request_id"])
        shown = shown if len(shown) <= 60 else shown[:60] + "…"
        raise RecordDamagedError(path, f"its request_id must be {path.stem!r}, the file's name, got {shown}")
