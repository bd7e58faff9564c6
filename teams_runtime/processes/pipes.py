"""All pipes of one program served at once, and its family ended when the conversation is over.

`supervisor` runs a program to its end with it, `conversation` talks with one line by line.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from teams_runtime.processes.descendants import MARK, PLACE_MARK, Family, family, place_mark
from teams_runtime.shared.errors import ProcessError

GRACE_SECONDS = 2.0
"""How long a program may take to end by itself after TERM, before KILL."""
KILL_SECONDS = 10.0
"""How long the kernel may take to end a killed process before the call gives up with an error."""
CHUNK_BYTES = 65536


class Sink(Protocol):
    """Takes what a program writes, piece by piece."""

    def feed(self, data: bytes) -> None:
        """Take the next piece, never an empty one."""
        ...


class Kept:
    """The first and the last part of a stream.

    Args:
        limit: how many bytes are kept at most.
    """

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.left_out = 0

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._tail_limit + 16 * CHUNK_BYTES:
            self._shorten()

    def _shorten(self) -> None:
        excess = len(self._tail) - self._tail_limit
        if excess > 0:
            del self._tail[:excess]
            self.left_out += excess

    def text(self) -> bytes:
        """Return what was kept; between the two parts one line tells how many bytes were left out."""
        self._shorten()
        gap = b"\n[%d bytes left out]\n" % self.left_out if self.left_out else b""
        return bytes(self._head) + gap + bytes(self._tail)


class Pipes:
    """One running program and its three pipes, none of which can make the other side wait for ever."""

    def __init__(self, process: subprocess.Popen[bytes], run: Family, stdout: Sink, stderr: Sink) -> None:
        self.process = process
        self._run = run
        self._input = bytearray()
        self._input_closing = False
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        self._waiter = threading.Thread(target=self._wait, name=f"wait-{process.pid}", daemon=True)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        for pipe, sink in ((process.stdout, stdout), (process.stderr, stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, sink)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
        self._waiter.start()

    @property
    def ended(self) -> bool:
        """Whether the program itself has ended; what it started may still be there."""
        return self._run.leader_ended.is_set()

    def write(self, data: bytes) -> None:
        """Send data to the program's input; it goes out while the pipes are served."""
        if data and self.process.stdin is not None and not self.process.stdin.closed:
            if not self._input:
                self._selector.register(self.process.stdin, selectors.EVENT_WRITE)
            self._input += data

    def close_input(self) -> None:
        """Tell the program that no more input comes, as soon as all of it is sent."""
        self._input_closing = True
        self._close_sent_input()

    def serve(self, until: Callable[[], bool], limit: float, beat: float | None = None) -> bool:
        """Serve the pipes until `until()` is true or the program has ended.

        Args:
            until: looked at after every piece that came or went.
            limit: point of time (`time.monotonic`) to stop at.
            beat: seconds after which `until()` is looked at again though nothing happened.

        Returns:
            Whether it stopped before the limit.
        """
        while not self.ended and not until():
            left = limit - time.monotonic()
            if left <= 0:
                return False
            for key, _ in self._selector.select(left if beat is None else min(left, beat)):
                self._serve(key)
        return True

    def drain(self) -> None:
        """Read what is still in the pipes; bounded, as outside Linux a writer may have got away."""
        limit = time.monotonic() + GRACE_SECONDS
        while ready := [key for key, _ in self._selector.select(0) if key.data is not None]:
            if time.monotonic() > limit:
                return
            for key in ready:
                self._serve(key)

    def end(self, grace_seconds: float) -> int:
        """End the program with all that it started, read what is left, and return its exit code.

        Raises:
            ProcessError: the system cannot end a process of it.
        """
        ended = self._run.end(grace_seconds, KILL_SECONDS)
        if ended:
            self._waiter.join()
            self.drain()
            os.close(self._wake_write)
        os.close(self._wake_read)
        self._selector.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        if not ended:
            raise ProcessError(f"process {self.process.pid} cannot be ended by the system; look at it with ps")
        return self.process.wait()

    def _serve(self, key: selectors.SelectorKey) -> None:
        if key.fd == self._wake_read:
            os.read(self._wake_read, 1)
        elif key.data is not None:
            data = os.read(key.fd, CHUNK_BYTES)
            if data:
                key.data.feed(data)
            else:
                self._selector.unregister(key.fileobj)
        else:
            self._send(key)

    def _send(self, key: selectors.SelectorKey) -> None:
        try:
            written = os.write(key.fd, self._input[:CHUNK_BYTES])
        except BrokenPipeError:
            written, self._input_closing = len(self._input), True
        del self._input[:written]
        if not self._input:
            self._selector.unregister(key.fileobj)
            self._close_sent_input()

    def _close_sent_input(self) -> None:
        if self._input_closing and not self._input and self.process.stdin is not None:
            self.process.stdin.close()

    def _wait(self) -> None:
        """Wait for the leader, leaving it unreaped where possible, so that its group's number stays taken."""
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self.process.wait()
        self._run.leader_ended.set()
        with suppress(OSError):
            os.write(self._wake_write, b"x")


@contextmanager
def started(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], stdout: int | IO[bytes] = subprocess.PIPE
) -> Iterator[tuple[subprocess.Popen[bytes], Family]]:
    """Start a program in a session, and so a process group, of its own; its family is known in the block.

    Whoever uses this ends the family before the block does: `Pipes.end`, or `Family.end`.

    Args:
        argv: program and arguments; no shell reads them.
        cwd: folder it runs in.
        environment: all the variables that it gets.
        stdout: where its output goes.

    Raises:
        ProcessError: it cannot be started.
    """
    with family() as run:
        marks = {MARK: run.mark, PLACE_MARK: place_mark(cwd)}
        process = _start(argv, cwd, {**environment, **marks}, stdout)
        run.leader = process.pid
        yield process, run


def _start(
    argv: Sequence[str], cwd: Path, environment: Mapping[str, str], stdout: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=stdout,
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
