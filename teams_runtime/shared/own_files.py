"""Folders and files of the runtime's own: private to the user, whole or not there, never behind a planted link."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from teams_runtime.shared.errors import WorkspaceError
from teams_runtime.shared.paths import WorkspacePaths

Fill = Callable[[IO[bytes]], object]
"""Writes a file's content."""


def check_own_folder(folder: Path) -> None:
    """Check that what is at `folder`, if anything, is a folder and no link to one.

    Raises:
        WorkspaceError: it is something else.
    """
    try:
        mode = folder.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise WorkspaceError(f"{folder}: cannot be looked at: {error.strerror}") from error
    if not stat.S_ISDIR(mode):
        found = "a symbolic link" if stat.S_ISLNK(mode) else "something else"
        raise WorkspaceError(f"{folder}: must be a folder of the runtime's own, got {found}; move it away")


def check_own_folders(paths: WorkspacePaths) -> None:
    """Check every folder that a workspace keeps its state in: a link there could lead all writes out of it.

    Raises:
        WorkspaceError: one of them is a link or no folder.
    """
    for folder in paths.own_folders:
        check_own_folder(folder)


def make_own_folder(top: Path, *names: str) -> Path:
    """Return the folder `top/names[0]/names[1]/…`, made with mode 0700 where it is missing, whatever the umask says.

    Raises:
        WorkspaceError: a part is a link or no folder, or cannot be made.
    """
    folder = top
    for name in names:
        folder = folder / name
        try:
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)
        except FileExistsError:
            check_own_folder(folder)
        except OSError as error:
            raise WorkspaceError(f"{folder}: cannot be made: {error.strerror}") from error
    return folder


def write_own_file(target: Path, fill: Fill, *, mode: int = 0o600) -> None:
    """Put a whole file in place of whatever file or link is at `target`; its folder exists.

    Raises:
        WorkspaceError: it cannot be written; what was at `target` is untouched.
    """
    try:
        draft = _draft(target, fill, mode)
        try:
            draft.replace(target)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise WorkspaceError(f"{target}: cannot be written: {error.strerror}") from error


def read_plain_file(path: Path, limit: int) -> bytes:
    """Return what a file holds; nothing is waited for, and nothing endless is read.

    Args:
        path: the file; a link is followed.
        limit: the most bytes that it may hold.

    Raises:
        OSError: it cannot be read, is no regular file, or holds more; its `strerror` says which.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it holds more than {limit} bytes")
    return content


def write_new_file(target: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Make a file that is whole or not there, and never in place of another; the umask narrows its mode.

    Raises:
        OSError: it cannot be written, or something is at `target`.
    """
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def _draft(target: Path, fill: Fill, mode: int) -> Path:
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".draft-")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            fill(stream)
            stream.flush()
            os.fsync(stream.fileno())
        draft.chmod(mode)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    return draft
