"""Where things lie: the workspace found upwards from a folder, and every path derived from a checked request id."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from teams_runtime.shared.errors import InputError, WorkspaceError

CONFIG_NAME = "team_runtime.yaml"
STATE_NAME = ".teams_runtime"
REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
"""What a request id must match as a whole; it is a file name and part of a branch name."""


def check_request_id(value: str) -> str:
    """Return `value` when it can be a request id.

    A name that git or a file system reads in another way is refused too: `..` inside, a final dot, a final `.lock`.

    Raises:
        InputError: it cannot.

    >>> check_request_id("20261201-fix-sum")
    '20261201-fix-sum'
    """
    odd = ".." in value or value.endswith((".", ".lock"))
    if odd or not REQUEST_ID.fullmatch(value):
        shown = value if len(value) <= 60 else value[:60] + "…"
        raise InputError(
            "a request id must be 1 to 128 of the characters A-Z a-z 0-9 . _ - and start with a letter or digit, with "
            f"no '..', final '.' or '.lock', got {shown!r}"
        )
    return value


@dataclass(frozen=True, slots=True)
class WorkspacePaths:
    """Every path of one workspace; nothing is created by asking for one.

    Attributes:
        root: the folder that holds `team_runtime.yaml`, absolute.
    """

    root: Path

    @property
    def config_file(self) -> Path:
        """The config file."""
        return self.root / CONFIG_NAME

    @property
    def state(self) -> Path:
        """The folder that holds everything the runtime writes; it ignores itself for git."""
        return self.root / STATE_NAME

    @property
    def requests(self) -> Path:
        """The folder of the record files."""
        return self.state / "requests"

    @property
    def locks(self) -> Path:
        """The folder of the lock files."""
        return self.state / "locks"

    def record_lock(self, request_id: str) -> Path:
        """The file that is locked while a request's record is written."""
        return self.locks / f"{check_request_id(request_id)}.record.lock"

    def run_lock(self, request_id: str) -> Path:
        """The file that is locked while a process works on a request."""
        return self.locks / f"{check_request_id(request_id)}.run.lock"

    def record(self, request_id: str) -> Path:
        """The record file of one request."""
        return self.requests / f"{check_request_id(request_id)}.json"

    def worktree(self, request_id: str) -> Path:
        """The git worktree of one request."""
        return self.state / "worktrees" / check_request_id(request_id)

    def artifacts(self, request_id: str) -> Path:
        """The folder of one request's artifact files."""
        return self.state / "artifacts" / check_request_id(request_id)

    @property
    def log(self) -> Path:
        """The file that keeps the log lines of every run."""
        return self.state / "runtime.log"

    @property
    def telemetry(self) -> Path:
        """The folder of call manifests."""
        return self.state / "telemetry"

    @property
    def sessions(self) -> Path:
        """The folder that says which provider conversations go on."""
        return self.state / "sessions"

    def request_sessions(self, request_id: str) -> Path:
        """The folder of the conversations that go on for one request."""
        return self.sessions / "requests" / check_request_id(request_id)

    def client_home(self, provider: str) -> Path:
        """The folder that one provider's client has for itself in this workspace: its login, settings and sessions."""
        return self.state / "clients" / provider

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """The state folder and every folder in it, outermost first."""
        inner = (self.requests, self.locks, self.telemetry, self.sessions)
        return (self.state, *inner, *(self.state / name for name in ("worktrees", "artifacts", "clients")))


def find_workspace(start: Path) -> WorkspacePaths:
    """Return the workspace that `start` lies in: the nearest folder upwards with a config file.

    Raises:
        WorkspaceError: there is none.
    """
    start = Path(os.path.realpath(start))
    for folder in (start, *start.parents):
        if os.path.lexists(folder / CONFIG_NAME):  # whether it can be read is told by whoever reads it
            return WorkspacePaths(folder)
    raise WorkspaceError(f"{start}: no {CONFIG_NAME} here or in any folder above; `teams-runtime init` makes one")
