"""Build the service that a verb works with, from the folder it was called in."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime
from pathlib import Path

from teams_runtime.cli.workspace import open_workspace
from teams_runtime.shared.own_files import check_own_folders
from teams_runtime.shared.paths import WorkspacePaths
from teams_runtime.store.records import RecordStore
from teams_runtime.workflows.orchestration.team_service import TeamService


def now() -> datetime:
    """Return the time now, in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """Return a new unique text of 32 hex digits."""
    return uuid.uuid4().hex


def open_service(start: Path) -> TeamService:
    """Return the service of the workspace that `start` lies in.

    Raises:
        UserError: there is no workspace, or a part of the service cannot be built.
    """
    paths, config = open_workspace(start)
    return TeamService(paths, config, clock=now, new_id=new_id, environment=os.environ)


def open_store(paths: WorkspacePaths) -> RecordStore:
    """Return the record store of a workspace, for verbs that work no request.

    Raises:
        WorkspaceError: a folder of the workspace's state is a link or no folder.
    """
    check_own_folders(paths)
    return RecordStore(paths, clock=now, new_id=new_id)
