"""The workspace that a command works in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from teams_runtime.shared.errors import WorkspaceError
from teams_runtime.shared.paths import WorkspacePaths, find_workspace

if TYPE_CHECKING:
    from teams_runtime.shared.models import TeamRuntimeConfig


def here() -> Path:
    """Return the current folder.

    Raises:
        WorkspaceError: it was removed meanwhile.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise WorkspaceError(f"the current folder cannot be used: {error.strerror}; change to another one") from error


def open_workspace(start: Path) -> tuple[WorkspacePaths, TeamRuntimeConfig]:
    """Return the workspace that `start` lies in, and its config.

    Raises:
        WorkspaceError: there is no workspace here or above.
        ConfigError: its config file cannot be used.
    """
    from teams_runtime.shared.config import load_team_runtime_config

    paths = find_workspace(start)
    return paths, load_team_runtime_config(paths.root)
