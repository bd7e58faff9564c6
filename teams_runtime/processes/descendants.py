"""Every process that came from one command, found and ended, wherever it went.

A command runs in a session of its own. On Linux this process becomes a subreaper while commands run, so that a child
that daemonises (`setsid`, double fork) becomes our child when its parent ends, and is found. Elsewhere what left the
command's process group after its parent ended is out of reach.

Whose an adopted process is, is told by a mark in its environment. One that threw its environment away is ended by the
run that is then the only one. A program that this process starts by other means is never touched while it stays in
this process's own session.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

MARK = "TEAMS_RUNTIME_RUN"
"""Environment variable that tells which run a process belongs to."""

_SET_CHILD_SUBREAPER = 36
_GET_CHILD_SUBREAPER = 37


class Family:
    """The processes of one run; made by `family`."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.leader: int | None = None
        self.leader_ended = threading.Event()
        self._seen: set[psutil.Process] = set()

    def members(self) -> set[psutil.Process]:
        """Return every process of this run that is there now, without the leader, zombies included."""
        found: set[psutil.Process] = set()
        for child in _direct_children():
            if child.pid != self.leader and not _RUNS.belongs(child, self.mark):
                continue
            found.add(child)
            with suppress(psutil.Error):
                found.update(child.children(recursive=True))
        self._seen.update(found)
        found.update(process for process in self._seen if _is_alive(process))
        return {process for process in found if process.pid != self.leader}

    def end(self, grace_seconds: float, kill_seconds: float) -> bool:
        """End the whole family: ask (TERM), wait `grace_seconds`, then KILL until none is left.

        Returns:
            Whether all are gone; False only when the kernel cannot end one within `kill_seconds`.
        """
        return self._signal_until_gone(signal.SIGTERM, grace_seconds) or self._signal_until_gone(
            signal.SIGKILL, kill_seconds
        )

    def _signal_until_gone(self, number: signal.Signals, seconds: float) -> bool:
        limit = time.monotonic() + seconds
        pause = 0.001
        told: set[psutil.Process] = set()
        members = self.members()
        if members or not self.leader_ended.is_set():
            self._signal_group(number)
        while members or not self.leader_ended.is_set():
            for process in members - told:
                _signal(process, number)
            _reap(members)
            if number is signal.SIGTERM:
                told |= members
            if time.monotonic() >= limit:
                return False
            self.leader_ended.wait(pause) if not members else time.sleep(pause)
            pause = min(pause * 2, 0.02)
            members = self.members()
        return True

    def _signal_group(self, number: signal.Signals) -> None:
        if self.leader is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, number)


class _Runs:
    """Which runs are going on in this process, and what must be put back after the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._active: dict[str, Family] = {}
        self._strangers: frozenset[psutil.Process] = frozenset()
        self._was_subreaper = 0

    def start(self) -> Family:
        with self._lock:
            if not self._active:
                self._strangers = frozenset(_direct_children())
                self._was_subreaper = _subreaper()
                _set_subreaper(1)
            run = Family(f"{os.getpid()}-{next(self._numbers)}")
            self._active[run.mark] = run
            return run

    def stop(self, run: Family) -> None:
        with self._lock:
            del self._active[run.mark]
            if not self._active:
                _set_subreaper(self._was_subreaper)

    def belongs(self, child: psutil.Process, mark: str) -> bool:
        """Tell whether a child of this process is one that the run `mark` left behind."""
        with self._lock:
            others = {name: run.leader for name, run in self._active.items() if name != mark}
            strangers = self._strangers
        if child in strangers or child.pid in others.values() or _shares_our_session(child.pid):
            return False
        found = _mark_of(child)
        return found == mark or (found not in others and not others)


_RUNS = _Runs()


@contextmanager
def family() -> Iterator[Family]:
    """Give the family of one run, and be the parent of its orphans meanwhile."""
    run = _RUNS.start()
    try:
        yield run
    finally:
        _RUNS.stop(run)


def _direct_children() -> set[psutil.Process]:
    """Return the children of this process; from the kernel's own list where there is one, as a scan is slow."""
    try:
        lists = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
        pids = [int(pid) for text in lists for pid in text.split()]
    except OSError:
        pids = []
        lists = []
    if not lists:
        return set(psutil.Process().children())
    found: set[psutil.Process] = set()
    for pid in pids:
        with suppress(psutil.Error):
            found.add(psutil.Process(pid))
    return found


def _shares_our_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == os.getsid(0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False


def _mark_of(process: psutil.Process) -> str | None:
    try:
        found: str | None = process.environ().get(MARK)
    except (psutil.Error, OSError):
        return None
    return found


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.Error):
        process.send_signal(number)


def _reap(members: set[psutil.Process]) -> None:
    for process in members:
        with suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)


def _subreaper() -> int:
    if sys.platform != "linux":
        return 0
    value = ctypes.c_int(0)
    failed = ctypes.CDLL(None).prctl(_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0)
    return 0 if failed else value.value


def _set_subreaper(value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(value), 0, 0, 0)


def end_leftovers(folder: Path, *, grace_seconds: float = 2.0, kill_seconds: float = 10.0) -> int:
    """End the programs that a killed process of this package left running in a folder, with all that they started.

    Only programs that carry this package's mark and whose own folder is `folder`, or lies below it, are meant. Call it
    when no other process of this package can be at work there.

    Returns:
        How many processes were ended.
    """
    top = folder.resolve()
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        if process.pid != os.getpid() and _was_started_in(process, top):
            found.add(process)
            with suppress(psutil.Error):
                found.update(process.children(recursive=True))
    for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, kill_seconds)):
        for process in found:
            _signal(process, number)
        _, alive = psutil.wait_procs(found, seconds)
        if not alive:
            break
    return len(found)


def _was_started_in(process: psutil.Process, top: Path) -> bool:
    try:
        return Path(process.cwd()).is_relative_to(top) and MARK in process.environ()
    except (psutil.Error, OSError):
        return False
