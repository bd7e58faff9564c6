"""Run the repository's own test command, so that QA's verdict rests on what happened and not on what was claimed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teams_runtime.processes.supervisor import run_process
from teams_runtime.shared.errors import ProcessError
from teams_runtime.shared.models import ArtifactRef, RepositoryConfig
from teams_runtime.shared.own_files import make_own_folder, write_own_file

OUTPUT_TAIL_CHARACTERS = 4_000
"""How much of the end of the output goes into the record; the whole output is an artifact file."""


@dataclass(frozen=True, slots=True)
class Verification:
    """One run of the verification command.

    Attributes:
        command: program and arguments.
        exit_code: what the program ended with; None when it was ended at its deadline or did not start.
        timed_out: whether it was ended at its deadline.
        seconds: wall-clock seconds.
        output_tail: the last characters of standard output and standard error, one after the other.
        artifact: the file that holds all of it.
    """

    command: tuple[str, ...]
    exit_code: int | None
    timed_out: bool
    seconds: float
    output_tail: str
    artifact: ArtifactRef

    def payload(self) -> dict[str, Any]:
        """Return it as a delegation's context carries it."""
        return {
            "command": list(self.command),
            "exit_code": self.exit_code,
            "timed_out": self.timed_out,
            "seconds": self.seconds,
            "output_tail": self.output_tail,
            "artifact": self.artifact.model_dump(),
        }


def verify_worktree(
    config: RepositoryConfig, worktree: Path, artifact: Path, workspace: Path, environment: Mapping[str, str]
) -> Verification:
    """Run the verification command in the worktree and keep its output as an artifact file.

    A command that cannot be started is a failed verification, with the reason as its output.

    Args:
        config: names the command and its deadline.
        worktree: where it runs.
        artifact: the file to write, below `workspace`.
        workspace: the folder that artifact paths are relative to.
        environment: all the variables that the command gets.

    Raises:
        WorkspaceError: the artifact file cannot be written.
    """
    try:
        done = run_process(
            config.verification_command,
            cwd=worktree,
            environment=environment,
            deadline_seconds=config.verification_timeout_seconds,
        )
    except ProcessError as error:
        output, exit_code, timed_out, seconds = f"{error}\n".encode(), None, False, 0.0
    else:
        output = done.stdout + done.stderr
        exit_code, timed_out, seconds = None if done.timed_out else done.exit_code, done.timed_out, done.seconds
    return Verification(
        command=tuple(config.verification_command),
        exit_code=exit_code,
        timed_out=timed_out,
        seconds=round(seconds, 3),
        output_tail=output.decode("utf-8", "replace")[-OUTPUT_TAIL_CHARACTERS:],
        artifact=_keep(artifact, output, workspace),
    )


def _keep(target: Path, content: bytes, workspace: Path) -> ArtifactRef:
    make_own_folder(workspace, *target.parent.relative_to(workspace).parts)
    write_own_file(target, lambda stream: stream.write(content))
    return ArtifactRef(
        path=target.relative_to(workspace).as_posix(), sha256=hashlib.sha256(content).hexdigest(), bytes=len(content)
    )
