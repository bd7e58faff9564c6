"""One process works a request at a time; others are told at once and do not wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from teams_runtime.shared.errors import InputError, WorkspaceError
from teams_runtime.shared.own_files import make_own_folder
from teams_runtime.shared.paths import WorkspacePaths, check_request_id


@contextmanager
def only_runner(paths: WorkspacePaths, request_id: str) -> Iterator[None]:
    """Be the one process that works a request, or removes it; the lock is gone with the process that holds it.

    Raises:
        InputError: another process is at work on the request.
        WorkspaceError: the lock file cannot be made.
    """
    make_own_folder(paths.root, *paths.locks.relative_to(paths.root).parts)
    place = paths.locks / f"{check_request_id(request_id)}.run.lock"
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
