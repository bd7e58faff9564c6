"""What a role's answer must be: one model a role, its JSON Schema, and the short text that a prompt shows.

The models say which keys there are and of which type. What ties keys to each other, to the step and to the task is in
`rules.py`; how text becomes an answer is in `parsing.py`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from teams_runtime.shared.models import ROLES, Value

MAX_ANSWER_CHARACTERS = 60_000
"""How long an answer may be; bulky material goes into a file that `artifacts` names."""


class PromptKind(StrEnum):
    """The four kinds of prompts; there is no other way to ask a model."""

    ROLE_TASK = "role_task"
    CONTRACT_REPAIR = "contract_repair"
    RESEARCH_DECISION = "research_decision"
    VERSION_CONTROL = "version_control"


STEP_ROLES = {
    "research": "research",
    "plan": "planner",
    "design_advice": "designer",
    "architecture_advice": "architect",
    "architect_guidance": "architect",
    "build": "developer",
    "review": "architect",
    "revise": "developer",
    "qa": "qa",
    "version_control": "version_controller",
}
"""Which role answers at which step."""

ROLE_KINDS = {
    **dict.fromkeys(ROLES, PromptKind.ROLE_TASK),
    "research": PromptKind.RESEARCH_DECISION,
    "version_controller": PromptKind.VERSION_CONTROL,
}
"""The kind of each role's first prompt of a turn; the others of the turn are contract repairs."""

VERDICT_STEPS = ("review", "qa")
"""Where a completed answer must hold a verdict; nowhere else may it hold one."""

TARGET_STEPS = {"plan": ("design_advice", "architecture_advice"), "design_advice": ("architecture_advice",)}
"""Which step an answer may ask for, in the profile `full`; at every other step none."""

FIRST_STEPS = ("research", "plan")
"""Where there is nothing earlier that the work could be sent back to."""

Text = Annotated[str, Field(pattern=r"\S")]
"""A text that is not blank."""

Status = Literal["completed", "blocked", "failed"]
Outcome = Literal["complete", "reopen"]
TargetStep = Literal["design_advice", "architecture_advice"]
ReopenCategory = Literal["scope", "ux", "architecture", "implementation", "verification"]
Verdict = Literal["pass", "fail"]
ReasonCode = Literal["needed_external_grounding", "not_needed_local_evidence", "not_needed_no_subject"]


class Transition(Value):
    """What follows from the answer; the workflow's own table and limits decide the step."""

    outcome: Outcome
    """`complete` goes on; `reopen` sends the work back."""
    target_step: TargetStep | None = None
    """A step asked for next, where the workflow allows one."""
    reopen_category: ReopenCategory | None = None
    """What is wrong, for a reopen."""
    reason: str = ""
    """Why; required for a reopen."""
    unresolved_items: list[Text] = Field(default_factory=list)
    """What is left to do; at least one for a reopen."""


class PlanStep(Value):
    """One change."""

    title: Text
    """What is done, and where."""
    detail: str
    """How, and the test that proves it."""


class Plan(Value):
    """What the planner wants done."""

    goal: Text
    """What is different for the user afterwards."""
    steps: Annotated[list[PlanStep], Field(min_length=1)]
    """In the order of work."""
    acceptance: Annotated[list[Text], Field(min_length=1)]
    """Criteria that QA can decide."""
    paths: list[Text]
    """Paths that the work is expected to change, relative to the worktree."""


class EvidenceRow(Value):
    """What QA found about one criterion."""

    criterion: Text
    """From the plan, or from the requester."""
    evidence: Text
    """A command with its result, or file and line."""
    result: Literal["pass", "fail", "not_tested"]
    """What the evidence shows."""


class Requirement(Value):
    """One fact that the work depends on."""

    requirement: Text
    """The fact."""
    local_evidence: str
    """Where the repository shows it, or `none`."""


class Research(Value):
    """Whether facts from outside the repository are needed."""

    needed: bool
    """Whether a search must be made before anyone plans."""
    reason_code: ReasonCode
    """Why; it agrees with `needed`."""
    subject: str
    """What the facts are about."""
    query: str
    """The question to search for."""
    knowledge_gap: str
    """What is not known, and what would go wrong without it."""
    planner_guidance: str
    """What helps the planner either way."""
    requirements: list[Requirement]
    """What the work depends on, with the local evidence seen."""


class Commit(Value):
    """What the version controller confirms."""

    message: Text
    """Commit message: a first line, a blank line, the reasons."""
    paths: list[Text]
    """Exactly the paths of the task."""


class Answer(Value):
    """What every role answers."""

    request_id: str
    """Id of the request."""
    role: str
    """Who answers."""
    status: Status
    """`blocked` needs a person; `failed` cannot be done."""
    summary: Text
    """What was done or decided, in one sentence."""
    insights: list[Text] = Field(default_factory=list)
    """Findings that later roles need."""
    artifacts: list[Text] = Field(default_factory=list)
    """Files made for people to read, relative to the worktree."""
    proposals: dict[str, Any] = Field(default_factory=dict)
    """Whatever else later roles should know, by name."""
    error: Text | None = None
    """Why the status is `blocked` or `failed`; else null."""
    transition: Transition | None = None
    """What follows; left out means `complete`."""


class PlannerAnswer(Answer):
    """What the planner answers."""

    plan: Plan | None = None
    """Required when completed, unless advice is asked for first."""


class ArchitectAnswer(Answer):
    """What the architect answers."""

    verdict: Verdict | None = None
    """Required when a review is completed; null at every other step."""


class QaAnswer(Answer):
    """What QA answers."""

    verdict: Verdict | None = None
    """Required when completed."""
    evidence_matrix: list[EvidenceRow] = Field(default_factory=list)
    """Required when completed: one row a criterion."""


class ResearchAnswer(Answer):
    """What the research role answers."""

    research: Research | None = None
    """Required when completed."""


class VersionControllerAnswer(Answer):
    """What the version controller answers."""

    commit: Commit | None = None
    """Required when completed without a reopen."""


ANSWERS: dict[str, type[Answer]] = {
    **dict.fromkeys(ROLES, Answer),
    "planner": PlannerAnswer,
    "architect": ArchitectAnswer,
    "qa": QaAnswer,
    "research": ResearchAnswer,
    "version_controller": VersionControllerAnswer,
}
"""The model of each role's answer."""

_PARTS = {
    "planner": """,
 "plan": {"goal": "<one sentence: what is different afterwards>",
  "steps": [{"title": "<one change and its place>", "detail": "<how to do it and the test that proves it>"}],
  "acceptance": ["<a criterion that QA can decide>"], "paths": ["<a path you expect to change>"]}""",
    "architect": """,
 "verdict": null""",
    "qa": """,
 "verdict": "pass" or "fail",
 "evidence_matrix": [{"criterion": "<a criterion of the plan>", "evidence": "<a command and its result, or file:line>",
  "result": "pass" or "fail" or "not_tested"}]""",
    "research": """,
 "research": {"needed": true or false, "reason_code": "needed_external_grounding" or "not_needed_local_evidence" or
  "not_needed_no_subject", "subject": "<what the facts are about>", "query": "<the question to search for>",
  "knowledge_gap": "<what is not known and why it matters>", "planner_guidance": "<what helps the planner>",
  "requirements": [{"requirement": "<a fact the work needs>", "local_evidence": "<file and line, or none>"}]}""",
    "version_controller": """,
 "commit": {"message": "<the whole commit message>", "paths": ["<each path of the task>"]}""",
}

_PART_RULES = {
    "planner": '- "target_step" may ask for "design_advice" or "architecture_advice" first; "plan" may then be null.\n',
    "designer": '- "target_step" may ask for "architecture_advice".\n',
    "architect": '- At the step review "verdict" is "pass" (outcome complete) or "fail" (outcome reopen); else null.\n',
    "qa": '- "pass" goes with outcome complete, "fail" with reopen. No row of a "pass" is "fail".\n',
}

_SHAPE = """\
Answer with one JSON object of this shape and nothing else: no text around it, no second object, no other keys.

{{"request_id": "<the id of this request>", "role": "{role}", "status": "completed" or "blocked" or "failed",
 "summary": "<one sentence: what you did or decided>", "insights": ["<a finding that later roles need>"],
 "artifacts": ["<a file you made for people to read>"], "proposals": {{}}, "error": null,
 "transition": {{"outcome": {outcome}, "target_step": null, "reopen_category": null,
  "reason": "<why this outcome>", "unresolved_items": []}}{part}}}

- Put real values in place of every <...>. Lists may be empty where nothing is to be said. Paths are relative.
- "blocked" (only a person can help) and "failed" (it cannot be done) say why in "error"; else it is null.
{rules}"""

_REOPEN_RULE = """\
- "reopen" sends the work back. It needs "reopen_category" (scope, ux, architecture, implementation or verification),
  "reason" and "unresolved_items".
"""


def contract_text(role: str, purpose: PromptKind) -> str:
    """Return the contract as a prompt shows it: the shape with placeholders, then the rules that need words.

    Every prompt of one role shows the same text, so that a provider's prefix cache holds from turn to turn.

    Raises:
        ValueError: no role is asked for that purpose.
    """
    _check_purpose(role, purpose)
    first = any(STEP_ROLES[step] == role for step in FIRST_STEPS)
    outcome = '"complete"' if first else '"complete" or "reopen"'
    rules = ("" if first else _REOPEN_RULE) + _PART_RULES.get(role, "")
    return _SHAPE.format(role=role, outcome=outcome, part=_PARTS.get(role, ""), rules=rules).strip()


def placeholders(role: str) -> tuple[str, ...]:
    """Return the `<...>` tokens of the role's contract text that no real answer may hold."""
    return tuple(dict.fromkeys(re.findall(r"<[a-z][^<>\n]+>", contract_text(role, ROLE_KINDS[role]))))


def answer_schema(role: str, purpose: PromptKind, *, closed: bool = False) -> dict[str, Any]:
    """Return the JSON Schema (2020-12, self-contained) of the role's answer.

    It says what a schema can say; the rules between keys are checked by `parse_answer` alone.

    Args:
        role: who answers.
        purpose: what for.
        closed: for providers that take only schemas in which every object names all its keys and requires each:
            `proposals` is then always empty, and no key may be left out.

    Raises:
        ValueError: no role is asked for that purpose.
    """
    _check_purpose(role, purpose)
    model = ANSWERS[role].model_json_schema()
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **_tidy(model, closed=closed)}
    schema["properties"]["role"] = {"const": role, **schema["properties"]["role"]}
    return schema


def _tidy(node: Any, *, closed: bool) -> Any:
    """Return a part of a generated schema without titles and defaults; `closed` as in `answer_schema`."""
    if isinstance(node, list):
        return [_tidy(item, closed=closed) for item in node]
    if not isinstance(node, dict):
        return node
    named = {  # here the keys are names, and may be called "title" themselves
        key: {name: _tidy(part, closed=closed) for name, part in node[key].items()}
        for key in ("$defs", "properties")
        if key in node
    }
    kept = {key: value for key, value in node.items() if key not in ("title", "default", *named)}
    tidy = {**{key: _tidy(value, closed=closed) for key, value in kept.items()}, **named}
    if closed and node.get("type") == "object":
        tidy.setdefault("properties", {})
        tidy |= {"additionalProperties": False, "required": list(tidy["properties"])}
    return tidy


def _check_purpose(role: str, purpose: PromptKind) -> None:
    """Raise ValueError when no prompt of that kind is ever made for the role."""
    if purpose not in (ROLE_KINDS[role], PromptKind.CONTRACT_REPAIR):
        raise ValueError(f"a prompt for {role} must be {ROLE_KINDS[role]} or contract_repair, got {purpose}")
