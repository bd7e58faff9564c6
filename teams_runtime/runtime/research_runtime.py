"""The research role's turn: decide whether outside facts are needed, with the `research_decision` prompt."""

from __future__ import annotations

from typing import ClassVar

from teams_runtime.runtime.base_runtime import RoleRuntime
from teams_runtime.workflows.roles.contract import PromptKind


class ResearchRuntime(RoleRuntime):
    """Runs the research decision.

    The request's history is in the decision prompt by the shared projection; it is never part of a brief for deep
    research.  Where facts are needed and no research backend is configured, the gap stays visible in the report.
    """

    kind: ClassVar[PromptKind] = PromptKind.RESEARCH_DECISION
