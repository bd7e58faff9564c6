"""The research role's turn: decide whether outside facts are needed, with the `research_decision` prompt."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from teams_runtime.runtime.base_runtime import RoleRuntime
from teams_runtime.workflows.roles.contract import PromptKind
from teams_runtime.workflows.roles.parsing import RoleResult

NOT_DONE = "no research backend is there; the knowledge gap stays open, plan with it in view"


class ResearchRuntime(RoleRuntime):
    """Runs the research decision.

    The decision prompt shows the request's history by the shared projection. A search that is needed and cannot be
    made does not stop the request: the report says so, and whoever plans is shown it.
    """

    kind: ClassVar[PromptKind] = PromptKind.RESEARCH_DECISION

    def _settled(self, result: RoleResult) -> RoleResult:
        research = result.payload.get("research")
        if not research or not research["needed"]:
            return result
        return replace(result, payload=result.payload | {"deep_research": {"done": False, "reason": NOT_DONE}})
