"""Exchange of two names in one step, where the operating system has it."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE
_LIBC = ctypes.CDLL(None, use_errno=True)


def exchange_names(first: Path, second: Path) -> None:
    """Let each path name what the other one named.

    Raises:
        OSError: it failed; `ENOSYS` or `EINVAL` where this is not to be had.
    """
    call = getattr(_LIBC, "renameat2", None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if call(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
