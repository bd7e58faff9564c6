"""Show a prompt without making a call: the text a role would be given now, or was given at an earlier event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from teams_runtime.runtime.side_files import RejectedAnswers
from teams_runtime.runtime.turn_prompt import Turn, TurnPrompt, TurnPrompts
from teams_runtime.shared.errors import InputError
from teams_runtime.shared.models import ROLES, PromptContextRuntimeConfig
from teams_runtime.shared.prompt_context import evidence_role
from teams_runtime.store.records import Record
from teams_runtime.workflows.orchestration.workflow import STEPS
from teams_runtime.workflows.roles.contract import PromptKind
from teams_runtime.workflows.roles.prompt import check_kind
from teams_runtime.workflows.roles.texts import RoleTexts


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which prompt is asked for; None leaves the choice to the record.

    Attributes:
        role: whose prompt; else the role that works on the request, else the developer.
        kind: which of the four; else the kind of the role's own turns.
        at: the event after which the prompt was or would be built (1-based); else the newest.
    """

    role: str | None = None
    kind: PromptKind | None = None
    at: int | None = None


def view_prompt(
    record: Record,
    wanted: Wanted,
    *,
    config: PromptContextRuntimeConfig,
    texts: RoleTexts,
    rejected: RejectedAnswers | None,
) -> TurnPrompt:
    """Build the wanted prompt, by the code that builds it in a run.

    Args:
        record: the whole record.
        wanted: which prompt.
        config: how the history is projected.
        texts: what the roles are told.
        rejected: the request's rejected answers; None for a record outside a workspace.

    Raises:
        InputError: no such role or event, a kind the role is never given, or a repair where no answer was rejected.
    """
    if wanted.at is not None:
        if not 1 <= wanted.at <= record.seq:
            raise InputError(f"--at must name an event of the record, 1 to {record.seq}, got {wanted.at}")
        record = record.at(wanted.at)
    turn = _turn(record, wanted)
    kind = wanted.kind or STEPS[turn.step].kind
    try:
        check_kind(kind, turn.role, turn.step)
    except ValueError as error:
        raise InputError(f"--kind must be a kind of prompt that {turn.role} is given, got {str(kind)!r}") from error
    answer = None
    if kind is PromptKind.CONTRACT_REPAIR:
        answer = rejected.load(record.seq) if rejected else None
        if answer is None:
            raise InputError(f"no answer of a turn that began after event {record.seq} was rejected; see `show`")
    return TurnPrompts(turn, texts, config).build(kind, answer)


def explain_events(record: Record, prompt: TurnPrompt) -> list[dict[str, Any]]:
    """Return one row an event: position (1-based, as in the notice), type, evidence role, and why it is shown."""
    projection = prompt.projection
    reasons = dict(zip(projection.positions, projection.reasons, strict=True))
    return [
        {
            "position": position + 1,
            "type": _event_type(event),
            "role": evidence_role(event),
            "included": position in reasons,
            "reason": reasons.get(position, "omitted"),
        }
        for position, event in enumerate(record.events[: projection.total_events])
    ]


def _turn(record: Record, wanted: Wanted) -> Turn:
    """The turn that is open in the record when it is the wanted role's, else the role's first kind of step."""
    workflow = record.head.get("workflow")
    workflow = workflow if isinstance(workflow, Mapping) else {}
    current = record.head.get("current_role")
    role = wanted.role or _role_of_kind(wanted.kind) or (current if current in ROLES else "developer")
    if role not in ROLES:
        raise InputError(f"--role must be one of {', '.join(ROLES)}, got {role!r}")
    open_step = workflow.get("step")
    if role == current and isinstance(open_step, str) and open_step in STEPS:
        context = workflow.get("context")
        visit = _count(workflow.get("visit")) or 1
        return Turn(record, role, open_step, visit, context if isinstance(context, Mapping) else None)
    step = next(name for name, spec in STEPS.items() if spec.role == role)
    visits = workflow.get("visits")
    return Turn(record, role, step, _count(visits.get(step)) + 1 if isinstance(visits, Mapping) else 1)


def _count(value: object) -> int:
    """Return a count of a record that anybody may have written; what is none is 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else 0


def _role_of_kind(kind: PromptKind | None) -> str | None:
    owners = {PromptKind.RESEARCH_DECISION: "research", PromptKind.VERSION_CONTROL: "version_controller"}
    return None if kind is None else owners.get(kind)


def _event_type(event: Any) -> str | None:
    if not isinstance(event, Mapping):
        return None
    name = event.get("type", event.get("event_type"))
    return name if isinstance(name, str) else None
