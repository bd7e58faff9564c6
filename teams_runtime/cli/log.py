"""Keep what the runtime logs while a request is worked on, in one file of the workspace."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from teams_runtime.shared.errors import WorkspaceError
from teams_runtime.shared.own_files import make_own_folder
from teams_runtime.shared.paths import WorkspacePaths


@contextmanager
def kept_log(paths: WorkspacePaths) -> Iterator[None]:
    """Append what this package logs, from INFO on, to the workspace's log file: one line each, with the time in UTC.

    Raises:
        WorkspaceError: the file cannot be opened.
    """
    logger = logging.getLogger("teams_runtime")
    before = logger.level
    try:
        make_own_folder(paths.root, paths.state.name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(paths.log, flags, 0o600)
    except OSError as error:
        raise WorkspaceError(f"{paths.log}: the log must be a file that can be written: {error.strerror}") from error
    with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as stream:
        handler = logging.StreamHandler(stream)
        formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
        formatter.converter = time.gmtime
        handler.setFormatter(formatter)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.setLevel(before)
            logger.removeHandler(handler)
