"""Who works on a request: one process at a time, told by a lock that ends with the process that holds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from teams_runtime.shared.errors import InputError
from teams_runtime.shared.paths import WorkspacePaths


@contextmanager
def only_runner(paths: WorkspacePaths, request_id: str) -> Iterator[None]:
    """Be the one process that works on a request.

    Raises:
        InputError: another one is.
    """
    paths.locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with _lock(paths, request_id):
            yield
    except Timeout as error:
        raise InputError(f"{request_id}: another process is working on this request") from error


def is_worked_on(paths: WorkspacePaths, request_id: str) -> bool:
    """Tell whether a process works on a request now; nothing is written for a request that never was worked on."""
    if not paths.run_lock(request_id).exists():
        return False
    try:
        with _lock(paths, request_id):
            return False
    except (Timeout, OSError):
        return True


def _lock(paths: WorkspacePaths, request_id: str) -> FileLock:
    return FileLock(paths.run_lock(request_id), timeout=0, mode=0o600)
