"""Append to a long record: two copies, of which the path always names a whole one, are lengthened in turn.

The spare copy lies beside the record and is one event behind. An append writes the event that the spare lacks, the new
event and the new end of the file into the spare, syncs it, and exchanges the two names. Nobody ever sees a file change
that he has open: a spare that any program still reads is left to it, and a fresh copy is made.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from teams_runtime.shared.errors import RecordError
from teams_runtime.store.index import Index, is_index_of
from teams_runtime.store.reading import read_range
from teams_runtime.store.writing import Disk

_NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
_SET_SIGNAL = 10  # F_SETSIG of Linux, which the fcntl module does not name
_SET_LEASE = getattr(fcntl, "F_SETLEASE", None)


@dataclass(frozen=True, slots=True)
class Addition:
    """One append to a long record.

    Attributes:
        old: the index of the record as it is.
        new: the index with the event.
        event: the event's line, with what stands between it and the one before.
        closing: everything after the event.
    """

    old: Index
    new: Index
    event: bytes
    closing: bytes


def spare_path(path: Path) -> Path:
    """The record's second copy."""
    return path.with_name(f".{path.stem}.spare")


def held_path(path: Path) -> Path:
    """The record's old copy, while two names are exchanged one by one."""
    return path.with_name(f".{path.stem}.held")


def lengthen(path: Path, addition: Addition, disk: Disk) -> None:
    """Append to the record and return when it is on the device; the caller holds the record's lock.

    Raises:
        RecordError: a system call failed; the record is whole, with or without the event.
    """
    spare = spare_path(path)
    try:
        if not _patch(path, spare, addition, disk):
            _copy(path, spare, addition, disk)
        _exchange(path, spare, disk)
        disk.sync_folder(path.parent)
    except OSError as error:
        raise RecordError(path, f"cannot be written: {error.strerror}; nothing was lost") from error


def _patch(path: Path, spare: Path, addition: Addition, disk: Disk) -> bool:
    """Bring the spare up to date; return False, with the spare untouched, when it cannot serve."""
    try:
        descriptor = os.open(spare, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        with _alone(descriptor) as alone:
            if not alone or not _is_one_behind(descriptor, path, addition.old):
                return False
            old = addition.old
            blob = _missing(path, old) + addition.event + addition.closing
            disk.write(descriptor, blob, old.previous)
            if os.fstat(descriptor).st_size > old.previous + len(blob):
                disk.truncate(descriptor, old.previous + len(blob))
            disk.sync(descriptor)
            return True
    finally:
        os.close(descriptor)


def _missing(path: Path, old: Index) -> bytes:
    """Return the event that the spare lacks, with what stands in front of it."""
    record = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_range(record, old.previous, old.end)
    finally:
        os.close(record)


def _is_one_behind(descriptor: int, path: Path, old: Index) -> bool:
    state, record = os.fstat(descriptor), path.stat()
    if state.st_ino == record.st_ino or state.st_nlink != 1:
        return False
    return is_index_of(read_range(descriptor, old.previous, state.st_size), old.token, old.previous)


@contextlib.contextmanager
def _alone(descriptor: int) -> Iterator[bool]:
    """Tell whether no other program has the file open, and let none open it meanwhile; False where nobody can tell."""
    if _SET_LEASE is None:
        yield False
        return
    try:
        fcntl.fcntl(descriptor, _SET_SIGNAL, signal.SIGURG)  # a waiting reader is announced by a signal that is ignored
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_WRLCK)
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_UNLCK)


def _copy(path: Path, spare: Path, addition: Addition, disk: Disk) -> None:
    """Make a new spare that holds the whole record and the new event."""
    disk.remove(spare)
    descriptor = disk.create(spare)
    record = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        disk.copy(record, descriptor, addition.old.end)
        disk.write(descriptor, addition.event + addition.closing, addition.old.end)
        disk.sync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            disk.remove(spare)
        raise
    finally:
        os.close(record)
        os.close(descriptor)


def _exchange(path: Path, spare: Path, disk: Disk) -> None:
    try:
        disk.exchange(path, spare)
    except OSError as error:
        if error.errno not in _NO_EXCHANGE:
            raise
        held = held_path(path)
        disk.remove(held)
        disk.link(path, held)
        disk.replace(spare, path)
        disk.replace(held, spare)
