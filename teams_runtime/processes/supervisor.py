"""Run one program: bounded in time and output, and nothing of it left when the call returns."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from teams_runtime.processes.pipes import GRACE_SECONDS, Kept, Pipes, started

OUTPUT_LIMIT_BYTES = 16 * 1024 * 1024
ALLOWED_NAMES = ("PATH", "HOME", "LANG", "TMPDIR", "TERM", "USER", "LOGNAME", "SHELL", "TZ", "VIRTUAL_ENV")
"""The variables that a child may see, together with every `LC_*`; nothing that holds a key is among them."""


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
    begun = time.monotonic()
    stdout, stderr = Kept(output_limit_bytes), Kept(output_limit_bytes)
    with started(argv, cwd=cwd, environment=environment) as (process, run):
        pipes = Pipes(process, run, stdout, stderr)
        timed_out = True
        try:
            pipes.write(stdin or b"")
            pipes.close_input()
            timed_out = not pipes.serve(lambda: False, begun + deadline_seconds)
        finally:
            code = pipes.end(grace_seconds)
    return ProcessResult(
        exit_code=code,
        timed_out=timed_out,
        stdout=stdout.text(),
        stderr=stderr.text(),
        truncated=stdout.left_out > 0 or stderr.left_out > 0,
        seconds=time.monotonic() - begun,
    )
