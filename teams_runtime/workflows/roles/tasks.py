"""What each step asks for, in a few lines, and how a delegation's context is shown below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from teams_runtime.workflows.roles.data import data_block
from teams_runtime.workflows.roles.research import RESEARCH_TASK
from teams_runtime.workflows.roles.version_controller import VERSION_CONTROL_TASK

STEP_TASKS = {
    "research": RESEARCH_TASK,
    "plan": """\
Make the plan for this request, or renew it when the events show that it was sent back.
Ask for advice first (only in the profile `full`, and only when a real question of design or structure is open): name \
the step in `target_step`, put the questions into `insights` and leave `plan` null.""",
    "design_advice": """\
Answer the planner's design questions, and those that the plan raises for the people who will use the result.
If a question of structure must be settled too, name `architecture_advice` in `target_step`.""",
    "architecture_advice": """\
Answer the planner's or designer's questions of structure before the plan is made, one decision each, with its reason.
Verdict: null.""",
    "architect_guidance": """\
Give the developer the technical guidance for the newest plan. If the plan cannot work, reopen with category `scope`.
Verdict: null.""",
    "build": """\
Carry out the newest plan, under the architect's guidance if there is any, in this worktree.
If the events show that the work was sent back, deal with every unresolved item of the newest report.""",
    "review": """\
Review the whole change in this worktree against plan, guidance and request, and give your verdict.
For a fail, name each thing to mend in `unresolved_items`, and the category: mostly `implementation`.""",
    "revise": """\
Mend the work in this worktree: deal with every unresolved item of the newest review or QA report, and look for the same
fault elsewhere. Leave alone what was found good.""",
    "qa": """\
Test the work in this worktree and give your verdict. It is bound to the tree named below: a later change makes it void.
When the verification command, run by the runtime, has failed, a pass is refused.""",
    "version_control": VERSION_CONTROL_TASK,
}
"""By step."""

NO_VERIFICATION = "No verification command is configured: find and run the repository's own tests."
VERIFICATION = "What the verification command gave (data):"
TREE = "The tree under test (data):"
COMMIT = "What the commit holds (data):"


def shows_context(step: str) -> bool:
    """Return whether a step's task shows its context."""
    return step in _CONTEXTS


def step_context(step: str, context: Mapping[str, Any]) -> str:
    """Return what a step's task shows of its context: fenced data, one key a line; `""` for steps that show none."""
    show = _CONTEXTS.get(step)
    return show(context) if show else ""


def context_texts(step: str) -> tuple[str, ...]:
    """Return the fixed sentences that `step_context` may use at a step."""
    return {"qa": (TREE, VERIFICATION, NO_VERIFICATION), "version_control": (COMMIT,)}.get(step, ())


def _qa_context(context: Mapping[str, Any]) -> str:
    check = context.get("verification")
    shown = f"{VERIFICATION}\n{data_block(check)}" if isinstance(check, Mapping) else NO_VERIFICATION
    return f"{TREE}\n{data_block({'tree': context.get('tree')})}\n{shown}"


def _commit_context(context: Mapping[str, Any]) -> str:
    return f"{COMMIT}\n{data_block({key: context.get(key) for key in ('base', 'tree', 'paths', 'outside', 'stat')})}"


_CONTEXTS: dict[str, Callable[[Mapping[str, Any]], str]] = {"qa": _qa_context, "version_control": _commit_context}
