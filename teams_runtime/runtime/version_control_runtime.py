"""The version controller's turn: it words the commit and confirms the paths; the runtime makes the commit itself."""

from __future__ import annotations

from typing import ClassVar

from teams_runtime.runtime.base_runtime import RoleRuntime
from teams_runtime.workflows.roles.contract import PromptKind


class VersionControlRuntime(RoleRuntime):
    """Runs the turn whose answer is a commit message and the confirmed list of paths."""

    kind: ClassVar[PromptKind] = PromptKind.VERSION_CONTROL
