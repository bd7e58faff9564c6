"""Run one program: bounded in time and output, and nothing of it left when the call returns."""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from teams_runtime.processes.descendants import MARK, PLACE_MARK, Family, family, place_mark
from teams_runtime.shared.errors import ProcessError

OUTPUT_LIMIT_BYTES = 16 * 1024 * 1024
GRACE_SECONDS = 2.0
"""How long a program may take to end by itself after TERM, before KILL."""
KILL_SECONDS = 10.0
"""How long the kernel may take to end a killed process before the call gives up with an error."""
ALLOWED_NAMES = ("PATH", "HOME", "LANG", "TMPDIR", "TERM", "USER", "LOGNAME", "SHELL", "TZ", "VIRTUAL_ENV")
"""The variables that a child may see, together with every `LC_*`; nothing that holds a key is among them."""
_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a program ended.

    Attributes:
        exit_code: its exit status; minus the signal number when a signal ended it.
        timed_out: whether it was ended at its deadline.
        stdout: what it wrote, at most the output limit: the first and the last part with a line between them that
            tells how many bytes were left out.
        stderr: likewise.
        truncated: whether either of the two had something left out.
        seconds: wall-clock seconds from start to the end of its last process.
    """

    exit_code: int
    timed_out: bool
    stdout: bytes
    stderr: bytes
    truncated: bool
    seconds: float


def child_environment(source: Mapping[str, str], extra_names: Iterable[str] = ()) -> dict[str, str]:
    """Return the part of an environment that a child may see.

    >>> child_environment({"PATH": "/bin", "LC_ALL": "C", "API_KEY": "secret"})
    {'PATH': '/bin', 'LC_ALL': 'C'}
    """
    names = {*ALLOWED_NAMES, *extra_names}
    return {name: value for name, value in source.items() if name in names or name.startswith("LC_")}


def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    deadline_seconds: float,
    stdin: bytes | None = None,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    grace_seconds: float = GRACE_SECONDS,
) -> ProcessResult:
    """Run a program to its end, or to its deadline, and end whatever it started.

    The program runs in a session, and so a process group, of its own. When it ends by itself, what it left in the
    background ends with it: asked first (TERM) and killed when it does not follow; likewise all of it at the deadline.

    Args:
        argv: program and arguments; no shell reads them.
        cwd: folder it runs in.
        environment: all the variables that it gets; see `child_environment`.
        deadline_seconds: wall-clock seconds it may take.
        stdin: what it can read; None is an empty input.
        output_limit_bytes: how much of each output stream is kept.
        grace_seconds: how long a process may take to end by itself after TERM.

    Raises:
        ProcessError: it cannot be started, or a process of it cannot be ended.
    """
    started = time.monotonic()
    with family() as run:
        marks = {MARK: run.mark, PLACE_MARK: place_mark(cwd)}
        process = _start(argv, cwd, {**environment, **marks}, has_input=stdin is not None)
        run.leader = process.pid
        with _Conversation(process, run, stdin, output_limit_bytes, grace_seconds) as conversation:
            timed_out = not conversation.until_exit(started + deadline_seconds)
        code = process.wait()
    return ProcessResult(
        exit_code=code,
        timed_out=timed_out,
        stdout=conversation.stdout.text(),
        stderr=conversation.stderr.text(),
        truncated=conversation.stdout.left_out > 0 or conversation.stderr.left_out > 0,
        seconds=time.monotonic() - started,
    )


def _start(
    argv: Sequence[str], cwd: Path, environment: Mapping[str, str], *, has_input: bool
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError, IndexError) as error:
        name = argv[0] if argv else ""
        raise ProcessError(f"{name!r} cannot be started: {_start_failure(error, cwd)}") from error


def _start_failure(error: Exception, cwd: Path) -> str:
    if not cwd.is_dir():
        return f"the folder {str(cwd)!r} it should run in is not there"
    if isinstance(error, FileNotFoundError):
        return "no such program; install it, or correct its name or PATH"
    if isinstance(error, PermissionError):
        return "permission denied; make it executable (chmod +x), or name another program"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}; check the program and its arguments"
    return f"{error}; check the program and its arguments"


class _Kept:
    """The first and the last part of a stream, at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.left_out = 0

    def feed(self, data: bytes) -> None:
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._tail_limit + 16 * _CHUNK:
            self._shorten()

    def _shorten(self) -> None:
        excess = len(self._tail) - self._tail_limit
        if excess > 0:
            del self._tail[:excess]
            self.left_out += excess

    def text(self) -> bytes:
        self._shorten()
        gap = b"\n[%d bytes left out]\n" % self.left_out if self.left_out else b""
        return bytes(self._head) + gap + bytes(self._tail)


class _Conversation:
    """All pipes of one process served at once, so that neither side can wait for the other for ever."""

    def __init__(
        self, process: subprocess.Popen[bytes], run: Family, stdin: bytes | None, limit: int, grace: float
    ) -> None:
        self._process = process
        self._grace = grace
        self._run = run
        self._input = memoryview(stdin or b"")
        self.stdout = _Kept(limit)
        self.stderr = _Kept(limit)
        self._selector = selectors.DefaultSelector()
        self._exit_read, self._exit_write = os.pipe()
        self._waiter = threading.Thread(target=self._wait, name=f"wait-{process.pid}", daemon=True)

    def __enter__(self) -> _Conversation:
        self._selector.register(self._exit_read, selectors.EVENT_READ)
        for pipe, kept in ((self._process.stdout, self.stdout), (self._process.stderr, self.stderr)):
            self._register(pipe, selectors.EVENT_READ, kept)
        self._register(self._process.stdin, selectors.EVENT_WRITE, None)
        self._waiter.start()
        return self

    def __exit__(self, *_: object) -> None:
        ended = self._run.end(self._grace, KILL_SECONDS)
        if ended:
            self._waiter.join()
            self._drain()
            os.close(self._exit_write)
        os.close(self._exit_read)
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        if not ended:
            raise ProcessError(f"process {self._process.pid} cannot be ended by the system; look at it with ps")

    def until_exit(self, limit: float) -> bool:
        """Serve the pipes until the leader has exited; False when the time limit comes first."""
        while not self._run.leader_ended.is_set():
            left = limit - time.monotonic()
            if left <= 0:
                return False
            for key, _ in self._selector.select(left):
                self._serve(key)
        return True

    def _drain(self) -> None:
        """Read what is still in the pipes; bounded, as outside Linux a writer may have got away."""
        limit = time.monotonic() + GRACE_SECONDS
        while ready := [key for key, _ in self._selector.select(0) if key.data is not None]:
            if time.monotonic() > limit:
                return
            for key in ready:
                self._serve(key)

    def _serve(self, key: selectors.SelectorKey) -> None:
        if key.fd == self._exit_read:
            os.read(self._exit_read, 1)
        elif isinstance(key.data, _Kept):
            self._read(key, key.data)
        else:
            self._write(key)

    def _read(self, key: selectors.SelectorKey, kept: _Kept) -> None:
        data = os.read(key.fd, _CHUNK)
        if data:
            kept.feed(data)
        else:
            self._selector.unregister(key.fileobj)

    def _write(self, key: selectors.SelectorKey) -> None:
        try:
            written = os.write(key.fd, self._input[:_CHUNK])
        except BrokenPipeError:
            written = len(self._input)
        self._input = self._input[written:]
        if not self._input and self._process.stdin is not None:
            self._selector.unregister(key.fileobj)
            self._process.stdin.close()

    def _register(self, pipe: IO[bytes] | None, event: int, kept: _Kept | None) -> None:
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, event, kept)

    def _wait(self) -> None:
        """Wait for the leader, leaving it unreaped where possible, so that its group's number stays taken."""
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        self._run.leader_ended.set()
        with suppress(OSError):
            os.write(self._exit_write, b"x")
