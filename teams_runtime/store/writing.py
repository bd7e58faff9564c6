"""Bytes → disk: every change of a file goes through `Disk`, and a record's path always names a whole record."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from teams_runtime.shared.errors import RecordError, WorkspaceError
from teams_runtime.shared.paths import WorkspacePaths
from teams_runtime.store.exchange import exchange_names

_NO_COPY = {errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


_sync_data = getattr(os, "fdatasync", os.fsync)
_CHUNK = 1024 * 1024


class Disk:
    """Every system call that changes something on disk, and nothing else: tests stop the program inside one of them."""

    def create(self, path: Path) -> int:
        """Return a descriptor of a new, private, empty file."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.fchmod(descriptor, 0o600)
        return descriptor

    def write(self, descriptor: int, blob: bytes, offset: int) -> None:
        """Write all of `blob` at `offset`."""
        view = memoryview(blob)
        while view:
            done = os.pwrite(descriptor, view, offset)
            view, offset = view[done:], offset + done

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` bytes of one open file into another, empty one; the file system may share them."""
        done = 0
        while done < length:
            step = self.copy_range(source, target, min(length - done, 64 * _CHUNK), done)
            if step == 0:
                raise OSError(errno.EIO, "the file is shorter than it was")
            done += step

    def copy_range(self, source: int, target: int, length: int, offset: int) -> int:
        """Copy at most `length` bytes at `offset`; return how many."""
        if hasattr(os, "copy_file_range"):
            try:
                return os.copy_file_range(source, target, length, offset, offset)
            except OSError as error:
                if error.errno not in _NO_COPY:
                    raise
        return os.pwrite(target, os.pread(source, min(length, _CHUNK), offset), offset)

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut the file to `length` bytes."""
        os.ftruncate(descriptor, length)

    def exchange(self, first: Path, second: Path) -> None:
        """Let each path name what the other one named, in one step."""
        exchange_names(first, second)

    def sync(self, descriptor: int) -> None:
        """Return when the file's bytes and length are on the device."""
        _sync_data(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in the folder are on the device."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        """Let `target` name what `source` names, in one step; `source` is gone."""
        source.replace(target)

    def link(self, source: Path, target: Path) -> None:
        """Let `target` name the same file as `source`; an error when `target` is there."""
        os.link(source, target, follow_symlinks=False)

    def remove(self, path: Path) -> None:
        """Remove a name if it is there."""
        path.unlink(missing_ok=True)

    def make_folder(self, folder: Path) -> None:
        """Make a private folder."""
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)


def make_private_folders(paths: WorkspacePaths, disk: Disk) -> None:
    """Make the folders of records and locks where they are missing; the state folder ignores itself for git.

    Raises:
        WorkspaceError: a folder cannot be made.
    """
    for folder in (paths.state, paths.requests, paths.locks):
        if not folder.is_dir():
            _make_folder(folder, disk)
    _ignore_for_git(paths.state / ".gitignore", disk)


def _make_folder(folder: Path, disk: Disk) -> None:
    try:
        disk.make_folder(folder)
        disk.sync_folder(folder.parent)
    except OSError as error:
        if not folder.is_dir():
            raise WorkspaceError(f"{folder}: cannot be made: {error.strerror}") from error


def _ignore_for_git(path: Path, disk: Disk) -> None:
    if path.exists():
        return
    try:
        with contextlib.suppress(FileExistsError):
            descriptor = disk.create(path)
            try:
                disk.write(descriptor, b"*\n", 0)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise WorkspaceError(f"{path}: cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def record_lock(path: Path, lock_file: Path, timeout_seconds: float) -> Iterator[None]:
    """Hold the one lock of a record; it is gone with the process that holds it, however that ends.

    Args:
        path: the record, named in errors.
        lock_file: the file to lock; it stays.
        timeout_seconds: how long to wait for another holder.

    Raises:
        RecordError: another process kept it for longer, or the lock file cannot be opened.
    """
    try:
        descriptor = _take_lock(lock_file, time.monotonic() + timeout_seconds)
    except TimeoutError as error:
        raise RecordError(
            path, f"another process has held {lock_file.name} for {timeout_seconds:g} s; try again when it is done"
        ) from error
    except OSError as error:
        raise RecordError(path, f"cannot be locked: {lock_file}: {error.strerror}") from error
    try:
        yield
    finally:
        os.close(descriptor)


def _take_lock(lock_file: Path, deadline: float) -> int:
    """Return a descriptor that holds the lock until it is closed.

    Raises:
        TimeoutError: it was not free in time.
    """
    pause = 0.001
    while True:
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if _try_lock(lock_file, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() >= deadline:
            raise TimeoutError
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _try_lock(path: Path, descriptor: int) -> bool:
    """Return whether the lock is held now, on the file that `path` still names."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    state = os.fstat(descriptor)
    if stat.S_IMODE(state.st_mode) != 0o600:
        os.fchmod(descriptor, 0o600)
    try:
        return path.stat().st_ino == state.st_ino
    except FileNotFoundError:
        return False


def draft_path(path: Path) -> Path:
    """The record's next version, while it is written."""
    return path.with_name(f".{path.stem}.draft")


def publish(path: Path, blob: bytes, disk: Disk, *, new: bool) -> None:
    """Put a whole record in place in one step and return when it is on the device; the caller holds the record's lock.

    Args:
        path: the record file.
        blob: all its bytes.
        disk: where the system calls are made.
        new: whether nothing may be at `path` yet.

    Raises:
        RecordError: a system call failed; what was at `path` before still is, or already is the new record.
    """
    draft = draft_path(path)
    try:
        disk.remove(draft)
        _write_file(draft, blob, disk)
        if new:
            _place_new(draft, path, disk)
        else:
            disk.replace(draft, path)
        disk.sync_folder(path.parent)
    except FileExistsError as error:
        disk.remove(draft)
        raise RecordError(path, "is there already, a new record never replaces anything") from error
    except OSError as error:
        with contextlib.suppress(OSError):
            disk.remove(draft)
        raise RecordError(path, f"cannot be written: {error.strerror}; nothing was lost") from error


def _write_file(path: Path, blob: bytes, disk: Disk) -> None:
    descriptor = disk.create(path)
    try:
        disk.write(descriptor, blob, 0)
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def _place_new(draft: Path, path: Path, disk: Disk) -> None:
    """Name the draft `path` unless something is there; a file system without hard links gets a plain rename."""
    try:
        disk.link(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        disk.replace(draft, path)
    else:
        disk.remove(draft)


def confirm(path: Path, disk: Disk) -> None:
    """Return when what is at `path` now is on the device.

    Raises:
        RecordError: a system call failed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            disk.sync(descriptor)
        finally:
            os.close(descriptor)
        disk.sync_folder(path.parent)
    except OSError as error:
        raise RecordError(path, f"cannot be confirmed on the device: {error.strerror}") from error
