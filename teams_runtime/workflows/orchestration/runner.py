"""Who works on a request: one process at a time, told by a lock that ends with the process that holds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from teams_runtime.shared.errors import InputError, WorkspaceError
from teams_runtime.shared.own_files import make_own_folder
from teams_runtime.shared.paths import WorkspacePaths


@contextmanager
def only_runner(paths: WorkspacePaths, request_id: str) -> Iterator[None]:
    """Be the one process that works a request, or removes it; the lock is gone with the process that holds it.

    Raises:
        InputError: another process is at work on the request.
        WorkspaceError: the lock file cannot be made.
    """
    make_own_folder(paths.root, *paths.locks.relative_to(paths.root).parts)
    place = paths.run_lock(request_id)
    lock = FileLock(place, timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(f"{request_id}: another process is working on this request") from error
    except (OSError, NotImplementedError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkspaceError(f"{place}: cannot be locked: {reason}") from error
    try:
        yield
    finally:
        lock.release()


def is_worked_on(paths: WorkspacePaths, request_id: str) -> bool:
    """Tell whether a process works on a request now; nothing is written for a request that never was worked on."""
    place = paths.run_lock(request_id)
    if not place.exists():
        return False
    try:
        with FileLock(place, timeout=0, mode=0o600):
            return False
    except (Timeout, OSError):
        return True
