"""Who works next: the steps of both profiles as tables, and one pure function that reads them.

Nothing here looks at the clock, the disk or a model. What a role answers only chooses among the rows of the tables;
whether there is room for the step it chose is asked of the counts that the fold keeps, which no answer can change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from teams_runtime.shared.models import WorkflowConfig
from teams_runtime.store.fold import BUDGETS, ENDED
from teams_runtime.workflows.roles.contract import ROLE_KINDS, STEP_ROLES, TARGET_STEPS, VERDICT_STEPS, PromptKind

COMMIT = "commit"
"""The last step of both profiles; the runtime does it itself, no role works."""
ADVICE_STEPS = ("design_advice", "architecture_advice")
"""The steps that the planner, or an adviser, may ask for."""
CHOICES = ("continue", "stop")
"""What every question can be answered with."""
MAX_QUOTED_CHARACTERS = 1000
"""How much of a role's own words a question or an end repeats; the rest is in its event."""


@dataclass(frozen=True, slots=True)
class StepSpec:
    """One step that a role works.

    Attributes:
        role: who works it.
        kind: the kind of its turn's first prompt.
        writes: whether the role may change files.
    """

    role: str
    kind: PromptKind
    writes: bool


@dataclass(frozen=True, slots=True)
class Profile:
    """The way of a request through the steps.

    Attributes:
        first: where it begins.
        next: which step follows a completed one.
        reopen: which step a reopen of a category goes back to.
        targets: which steps the answer of a step may ask for in place of the next one.
    """

    first: str
    next: Mapping[str, str]
    reopen: Mapping[str, str]
    targets: Mapping[str, tuple[str, ...]]


STEPS: Mapping[str, StepSpec] = {
    step: StepSpec(role, ROLE_KINDS[role], writes=step in {"build", "revise"}) for step, role in STEP_ROLES.items()
}
"""Every step of a role, by name."""

PROFILES: Mapping[str, Profile] = {
    "full": Profile(
        first="research",
        next={
            "research": "plan",
            "plan": "architect_guidance",
            "design_advice": "architect_guidance",
            "architecture_advice": "architect_guidance",
            "architect_guidance": "build",
            "build": "review",
            "review": "qa",
            "revise": "review",
            "qa": "version_control",
            "version_control": COMMIT,
        },
        reopen={
            "scope": "plan",
            "ux": "design_advice",
            "architecture": "architect_guidance",
            "implementation": "revise",
            "verification": "revise",
        },
        targets=TARGET_STEPS,
    ),
    "lean": Profile(
        first="plan",
        next={"plan": "build", "build": "qa", "qa": "version_control", "version_control": COMMIT},
        reopen={
            "scope": "plan",
            "ux": "plan",
            "architecture": "plan",
            "implementation": "build",
            "verification": "build",
        },
        targets={},
    ),
}
"""Both profiles, by name."""


@dataclass(frozen=True, slots=True)
class Step:
    """Do a step now.

    Attributes:
        step: which one.
        role: who works it; None for the commit.
        visit: how many times the step will have run for the request, this time included.
        cause: `start`, `next`, `advice`, `revise`, `reopen:<category>`, `stale` or `answer`.
        pending: whether it was begun already and its end is not recorded: a run was killed.
    """

    step: str
    role: str | None
    visit: int
    cause: str
    pending: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask a person.

    Attributes:
        reason: `limit:<name>`, `budget:<name>`, `blocked`, `contract`, `provider:<kind>`, `git` or `workflow`.
        question: what the person is asked, with what each choice does.
        choices: the answers that are taken.
    """

    reason: str
    question: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """End the request.

    Attributes:
        status: `completed`, `failed` or `cancelled`.
        reason: why, in one sentence.
    """

    status: str
    reason: str


Decision = Step | Wait | Done


def decide(head: Mapping[str, Any], config: WorkflowConfig, *, tree: str | None = None) -> Decision:
    """Return what happens next to a request.

    Args:
        head: what `fold` makes of its events.
        config: limits and budgets, and the profile of a request that names none.
        tree: hash of the worktree as it is now. When it is given, no change that QA has not passed gets to
            `version_control` or to the commit.
    """
    ended = _ended(head)
    if ended is not None:
        return ended
    if head["commit"] is not None:  # what was prepared has been judged: it is finished, whatever happened since
        return Step(COMMIT, None, 1, "next", pending=True)
    profile = PROFILES.get(head["workflow"]["profile"]) or PROFILES[config.profile]
    wanted = _wanted(head, profile)
    if not isinstance(wanted, Step):
        return wanted
    step = _bound_to_tree(wanted, head["workflow"], tree)
    return step if step.pending or step.role is None else _within_bounds(step, head["workflow"], profile, config)


def _ended(head: Mapping[str, Any]) -> Wait | Done | None:
    """Return the end or the question that stands already."""
    status, question, workflow = head["status"], head["question"], head["workflow"]
    if status in ENDED:
        return Done(status, workflow["reason"] or f"the request is {status}")
    if status == "waiting":
        return Wait(question["reason"], question["text"], tuple(question["choices"]))
    if head["commit"] is not None and head["commit"]["sha"] is not None:
        return Done("completed", f"committed {head['commit']['sha'][:12]} on {head['commit']['branch']}")
    if workflow["stop"]:
        return Done("cancelled", "a person answered stop")
    return None


def _wanted(head: Mapping[str, Any], profile: Profile) -> Decision:
    """Return what the tables say, limits and budgets aside."""
    workflow = head["workflow"]
    step = workflow["step"]
    if step is None:
        return _step(profile.first, workflow, "start")
    if step not in profile.next:
        return Wait("workflow", f"The record is at the step {step!r}, which its profile lacks. {_STOP}", ("stop",))
    if workflow["open"]:
        return Step(step, STEPS[step].role, workflow["visit"], workflow["cause"], pending=True)
    stopped = _stopped(head)
    if stopped is not None:
        return _step(step, workflow, "answer") if workflow["retry"] else stopped
    return _following(workflow, profile)


def _stopped(head: Mapping[str, Any]) -> Wait | Done | None:
    """Return why the newest turn does not lead on: it failed, or its role is blocked or has given up."""
    failure, report = head["workflow"]["failure"], head["workflow"]["report"]
    if failure is not None:
        return _failed_turn(failure, STEPS[head["workflow"]["step"]].role)
    if report["status"] == "blocked":
        words = f"{report['role']} cannot go on with {report['step']} alone: {_words(head)}"
        return Wait(
            "blocked", f"{words}\n`continue` gives it the step again, together with your text. {_STOP}", CHOICES
        )
    if report["status"] == "failed":
        return Done("failed", f"{report['role']} gave up at {report['step']}: {_words(head)}")
    return None


def _failed_turn(failure: Mapping[str, Any], role: str) -> Wait:
    kind, step = failure["kind"] or "unknown", failure["step"]
    again = f"`continue` lets {role} try again. {_STOP}"
    remedy = f": {failure['remedy']}" if failure["remedy"] else ""
    if kind == "contract":
        broken = f"The answer of {role} at {step} breaks its contract, repairs included{remedy}"
        return Wait("contract", f"{broken}\n{again}", CHOICES)
    return Wait(f"provider:{kind}", f"The call of {role} at {step} failed ({kind}){remedy}\n{again}", CHOICES)


def _words(head: Mapping[str, Any]) -> str:
    """Return what the role said itself."""
    said = head["result"].get("error") or head["result"].get("summary")
    text = said if isinstance(said, str) else "it gave no reason"
    return text if len(text) <= MAX_QUOTED_CHARACTERS else text[: MAX_QUOTED_CHARACTERS - 1] + "…"


def _following(workflow: Mapping[str, Any], profile: Profile) -> Step:
    """Return the step that a completed answer leads to."""
    report, step = workflow["report"], workflow["step"]
    if report["outcome"] == "reopen" or (step in VERDICT_STEPS and report["verdict"] != "pass"):
        return _reopened(workflow, profile)
    if report["target_step"] in profile.targets.get(step, ()):
        return _step(report["target_step"], workflow, "advice")
    if step in ADVICE_STEPS and not workflow["planned"]:  # the planner asked before planning
        return _step("plan", workflow, "next")
    return _step(profile.next[step], workflow, "next")


def _reopened(workflow: Mapping[str, Any], profile: Profile) -> Step:
    """Return the step that a reopen goes back to; what has not been reached yet cannot be gone back to."""
    given = workflow["report"]["reopen_category"]
    category = given if given in profile.reopen else "implementation"
    target = profile.reopen[category]
    unplanned = target == "architect_guidance" and not workflow["planned"]
    unbuilt = target in {"revise", "build"} and "build" not in workflow["visits"]
    if unplanned or unbuilt:
        target = "plan"
    revises = workflow["step"] == "review" and target == "revise"
    return _step(target, workflow, "revise" if revises else f"reopen:{category}")


def _step(step: str, workflow: Mapping[str, Any], cause: str) -> Step:
    role = STEPS[step].role if step in STEPS else None
    return Step(step, role, workflow["visits"].get(step, 0) + 1, cause)


def _bound_to_tree(step: Step, workflow: Mapping[str, Any], tree: str | None) -> Step:
    """Return QA in place of a step towards the commit when the worktree is not as QA passed it."""
    if tree is None or step.step not in {"version_control", COMMIT} or tree == workflow["qa_tree"]:
        return step
    return _step("qa", workflow, "stale")


def _within_bounds(step: Step, workflow: Mapping[str, Any], profile: Profile, config: WorkflowConfig) -> Step | Wait:
    """Return the step, or the question when a limit or budget has no room for it."""
    for limit in _limits_of(step, profile):
        value, more = getattr(config.limits, limit), workflow["granted"].get(limit, 0)
        if workflow[limit] >= value + more:
            return _limit_question(limit, workflow[limit], value, more, step)
    for budget in BUDGETS:
        value, more = getattr(config.budgets, budget), workflow["granted"].get(budget, 0)
        used = _used(budget, workflow)
        if value is not None and used >= value * (1 + more):
            return _budget_question(budget, used, value, more, step)
    return step


def _limits_of(step: Step, profile: Profile) -> tuple[str, ...]:
    """Return the limits that a step counts for, and `reviews` when it sends work back that cannot end unreviewed."""
    if step.cause == "answer":  # a person asked for it; it was counted the first time
        return ()
    reopens = step.cause == "stale" or step.cause.startswith("reopen:")
    sent_back = step.cause == "revise" or step.cause.startswith("reopen:")
    reviewed = step.step == "review" or (sent_back and "review" in profile.next)
    asked = {"reopens": reopens, "reviews": reviewed, "advice": step.step in ADVICE_STEPS}
    return tuple(limit for limit, counts in asked.items() if counts)


def _used(budget: str, workflow: Mapping[str, Any]) -> float:
    if budget == "turns":
        return int(workflow["turns"])
    if budget == "minutes":
        return float(workflow["spent"]["seconds"]) / 60
    return workflow["spent"][budget] or 0


_STOP = "`stop` cancels the request; its record and worktree stay."

_UNITS = {
    "reviews": "reviews",
    "reopens": "reopens",
    "advice": "advice steps",
    "turns": "turns",
    "calls": "calls",
    "tokens": "tokens",
    "cost_usd": "US dollars",
    "minutes": "minutes of work",
}
_ONE = {"reviews": "one review", "reopens": "one reopen", "advice": "one advice step"}


def _limit_question(limit: str, used: int, value: int, more: int, step: Step) -> Wait:
    allowed = f"`continue` allows {_ONE[limit]} more and goes on with {step.step}."
    return Wait(f"limit:{limit}", f"{_reached('limits', limit, used, value, more)}\n{allowed} {_STOP}", CHOICES)


def _budget_question(budget: str, used: float, value: float, more: int, step: Step) -> Wait:
    allowed = f"`continue` allows {_number(value)} {_UNITS[budget]} more and goes on with {step.step}."
    reached = _reached("budgets", budget, used, value, more * value)
    return Wait(f"budget:{budget}", f"{reached}\n{allowed} {_STOP}", CHOICES)


def _reached(section: str, name: str, used: float, value: float, more: float) -> str:
    granted = f", {_number(more)} more were allowed" if more else ""
    bound = f"workflow.{section}.{name} is {_number(value)}{granted}"
    return f"The request has used {_number(used)} {_UNITS[name]}, and that is its limit: {bound}."


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.2f}".rstrip("0").rstrip(".")
