"""Talk with one program line by line: bounded in time and in the length of a line, and nothing of it left after."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from teams_runtime.processes.pipes import GRACE_SECONDS, Kept, Pipes, started
from teams_runtime.shared.errors import ProcessCancelledError, ProcessDeadlineError, ProcessError

LINE_LIMIT_BYTES = 64 * 1024 * 1024
"""How long one line of a program may be; a client's line can carry a whole file or answer."""
STDERR_LIMIT_BYTES = 256 * 1024
_BEAT_SECONDS = 0.1
"""How often a conversation looks whether it was cancelled."""


class _Lines:
    """Cuts a stream into lines."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._part = bytearray()
        self.ready: deque[bytes] = deque()
        self.too_long = False

    def feed(self, data: bytes) -> None:
        if self.too_long:
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._part += line
            self.ready.append(bytes(self._part))
            self._part.clear()
        self._part += rest
        if len(self._part) > self._limit:
            self.too_long = True
            self._part.clear()

    def last(self) -> bytes | None:
        """Return what stood after the last line break, once; None when nothing did."""
        rest = bytes(self._part)
        self._part.clear()
        return rest or None


class Conversation:
    """One running program; made by `converse`.

    Attributes:
        exit_code: how the program ended, minus the signal number when a signal ended it; None while in the block.
    """

    def __init__(
        self, pipes: Pipes, lines: _Lines, stderr: Kept, limit: float, cancelled: threading.Event | None
    ) -> None:
        self._pipes, self._lines, self._stderr = pipes, lines, stderr
        self._limit, self._cancelled = limit, cancelled
        self._drained = False
        self.exit_code: int | None = None

    @property
    def pid(self) -> int:
        """The program's process id, which is its process group's too."""
        return self._pipes.process.pid

    @property
    def stderr(self) -> str:
        """What the program wrote to its standard error so far: the first and the last part of it, as text."""
        return self._stderr.text().decode("utf-8", "replace")

    def send(self, text: str) -> None:
        """Send text to the program's input; a line needs its own line break. It goes out while lines are awaited."""
        self._pipes.write(text.encode("utf-8", "replace"))

    def close_input(self) -> None:
        """Tell the program that no more input comes."""
        self._pipes.close_input()

    def receive(self, deadline_seconds: float | None = None) -> bytes | None:
        """Return the next line of the program's output without its line break; None when it ended.

        Args:
            deadline_seconds: how long to wait for this line; None is as long as the conversation lasts.

        Raises:
            ProcessDeadlineError: the time is over.
            ProcessCancelledError: the conversation was cancelled.
            ProcessError: a line is longer than the limit.
        """
        limit = self._limit if deadline_seconds is None else min(self._limit, time.monotonic() + deadline_seconds)
        beat = None if self._cancelled is None else _BEAT_SECONDS
        in_time = self._pipes.serve(self._stopping, limit, beat)
        self._check()
        if self._lines.ready:
            return self._lines.ready.popleft()
        if not in_time:
            raise ProcessDeadlineError("the program was still at work at its deadline")
        if not self._drained:
            self._drained = True
            self._pipes.drain()
            self._check()
        return self._lines.ready.popleft() if self._lines.ready else self._lines.last()

    def _stopping(self) -> bool:
        cancelled = self._cancelled is not None and self._cancelled.is_set()
        return bool(self._lines.ready) or self._lines.too_long or cancelled

    def _check(self) -> None:
        if self._cancelled is not None and self._cancelled.is_set():
            raise ProcessCancelledError("the conversation with the program was cancelled")
        if self._lines.too_long:
            raise ProcessError("the program wrote a line that is longer than the limit")


@contextmanager
def converse(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    deadline_seconds: float,
    cancelled: threading.Event | None = None,
    line_limit_bytes: int = LINE_LIMIT_BYTES,
    grace_seconds: float = GRACE_SECONDS,
) -> Iterator[Conversation]:
    """Start a program and talk with it in the block; afterwards it and all that it started are gone.

    What is still there at the end of the block, also after an exception, is asked to end (TERM) and killed when it
    does not follow, wherever it went.

    Args:
        argv: program and arguments; no shell reads them.
        cwd: folder it runs in.
        environment: all the variables that it gets; see `child_environment`.
        deadline_seconds: wall-clock seconds the whole conversation may take.
        cancelled: set from another thread to end the conversation early.
        line_limit_bytes: how long one line of its output may be.
        grace_seconds: how long a process may take to end by itself after TERM.

    Raises:
        ProcessError: it cannot be started, or a process of it cannot be ended.
    """
    limit = time.monotonic() + deadline_seconds
    lines, stderr = _Lines(line_limit_bytes), Kept(STDERR_LIMIT_BYTES)
    with started(argv, cwd=cwd, environment=environment) as (process, run):
        talk = Conversation(Pipes(process, run, lines, stderr), lines, stderr, limit, cancelled)
        try:
            yield talk
        finally:
            talk.exit_code = talk._pipes.end(grace_seconds)  # noqa: SLF001 - made three lines above
