"""The head as a pure function of the events: what a record says now follows from what happened, and from nothing else.

Every value of an event is checked before it is used, so that no list of JSON values can make the fold fail: what is
of an unknown type, or of a wrong shape, changes only `updated_at`. Nothing that bounds a request is taken on trust:
turns and visits are counted here, and only a person's answer to the question that is open can grant anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from teams_runtime.shared.models import REQUESTER, ROLES
from teams_runtime.store.events import Event

Head = dict[str, Any]

LIMITS = ("reviews", "reopens", "advice")
"""The hard limits of a workflow, by the names that the config uses."""
BUDGETS = ("turns", "calls", "tokens", "cost_usd", "minutes")
"""The budgets of a request, likewise."""
ENDED = ("completed", "failed", "cancelled")
"""The statuses that no event but `resumed` changes; `completed` not even that."""

_COUNTED = {"review": "reviews", "design_advice": "advice", "architecture_advice": "advice"}
"""The limit that a step counts for."""
_NOT_ROLES = (*ROLES, "orchestrator")
"""Actors that are no person."""
_LARGEST = 10**15
"""Larger numbers are no counts, sizes or durations; they are taken as unknown."""


def fold(events: Sequence[Any]) -> Head:
    """Return the head that the events make; `events` is not changed, values inside are shared with it.

    >>> fold([])["status"]
    'queued'
    """
    return reduce(fold_one, events, first_head())


def fold_one(head: Mapping[str, Any] | None, event: Any) -> Head:
    """Return the head after one more event; the given one is not changed.

    Args:
        head: what `fold` made of the events before; keys that are not the fold's own are kept. None is no event yet.
        event: any JSON value; what is not an object changes nothing.
    """
    new = first_head() if head is None else dict(head)
    if not isinstance(event, dict):
        return new
    new["updated_at"] = _text(event.get("timestamp")) or new["updated_at"]
    kind, payload = event.get("type"), event.get("payload")
    take = _TAKERS.get(kind) if isinstance(kind, str) else None
    if take is not None:
        workflow = new["workflow"] = dict(new["workflow"])
        take(new, event, payload if isinstance(payload, dict) else {})
        new["current_role"] = workflow["role"] if workflow["open"] and new["status"] not in ENDED else None
    return new


def first_head() -> Head:
    """Return the head of a record without events."""
    return {
        "scope": "",
        "body": "",
        "requester": "",
        "params": {},
        "created_at": None,
        "status": "queued",
        "sprint_id": None,
        "artifacts": [],
        "workflow": {
            "profile": None,
            "step": None,
            "role": None,
            "visit": 0,
            "cause": None,
            "visits": {},
            "turns": 0,
            "reviews": 0,
            "reopens": 0,
            "advice": 0,
            "spent": {"calls": 0, "tokens": None, "cost_usd": None, "seconds": 0.0},
            "open": False,
            "context": None,
            "base": {"commit": None, "branch": None},
            "report": None,
            "planned": False,
            "qa_tree": None,
            "failure": None,
            "granted": {},
            "retry": False,
            "stop": False,
            "reason": None,
        },
        "current_role": None,
        "result": None,
        "question": None,
        "commit": None,
        "updated_at": None,
    }


def _created(head: Head, event: Event, payload: Mapping[str, Any]) -> None:
    if head["created_at"] is not None:
        return
    params, base = _object(payload.get("params")), _object(payload.get("base"))
    for key in ("scope", "body", "requester"):
        head[key] = _text(payload.get(key)) or ""
    head["params"] = params
    head["created_at"] = _text(event.get("timestamp")) or ""
    head["sprint_id"] = _text(payload.get("sprint_id"))
    head["workflow"] |= {
        "profile": _text(params.get("profile")),
        "base": {"commit": _text(base.get("commit")), "branch": _text(base.get("branch"))},
    }


def _delegated(head: Head, _event: Event, payload: Mapping[str, Any]) -> None:
    step = _text(payload.get("step"))
    if step is None or head["status"] not in {"queued", "running"}:
        return
    workflow, cause = head["workflow"], _text(payload.get("cause")) or "next"
    visit = workflow["visits"].get(step, 0) + 1
    head["status"] = "running"
    workflow |= {
        "step": step,
        "role": _text(payload.get("target")),
        "visit": visit,
        "cause": cause,
        "visits": workflow["visits"] | {step: visit},
        "turns": workflow["turns"] + 1,
        "open": True,
        "context": payload["context"] if isinstance(payload.get("context"), dict) else None,
        "failure": None,
        "retry": False,
    }
    _count(workflow, step, cause)
    _keep_artifacts(head, [_object(_object(workflow["context"]).get("verification")).get("artifact")])


def _count(workflow: dict[str, Any], step: str, cause: str) -> None:
    """Count a delegation against the limits; one that a person asked for again was counted the first time."""
    limit = _COUNTED.get(step)
    if limit is not None and cause != "answer":
        workflow[limit] += 1
    if cause == "stale" or cause.startswith("reopen:"):
        workflow["reopens"] += 1


def _role_report(head: Head, event: Event, payload: Mapping[str, Any]) -> None:
    workflow = head["workflow"]
    workflow["spent"] = _spent(workflow["spent"], payload.get("spent"))
    own = {"seq": event.get("seq"), "summary": event.get("summary")}
    head["result"] = own | {key: value for key, value in payload.items() if key not in own}
    _keep_artifacts(head, payload.get("artifacts"))
    if _closes(workflow, payload):
        workflow |= {"open": False} | _reported(workflow, payload)


def _reported(workflow: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the report of the open turn changes in the workflow."""
    transition = _object(payload.get("transition"))
    report = {key: _text(payload.get(key)) for key in ("step", "role", "status", "verdict", "tree")}
    report |= {key: _text(transition.get(key)) for key in ("outcome", "target_step", "reopen_category")}
    changed: dict[str, Any] = {"report": report}
    if report["role"] == "planner":
        changed["planned"] = bool(_object(payload.get("plan")))
    if report["step"] == "qa" and report["verdict"] == "pass":
        changed["qa_tree"] = _text(_object(workflow["context"]).get("tree")) or report["tree"]
    return changed


def _turn_failed(head: Head, _event: Event, payload: Mapping[str, Any]) -> None:
    workflow = head["workflow"]
    workflow["spent"] = _spent(workflow["spent"], payload.get("spent"))
    if _closes(workflow, payload):
        failure = {key: _text(payload.get(key)) for key in ("step", "kind", "remedy")}
        workflow |= {"open": False, "failure": failure}


def _closes(workflow: Mapping[str, Any], payload: Mapping[str, Any]) -> bool:
    """Return whether the event ends the turn that is open; a late one of another step ends nothing."""
    return bool(workflow["open"] and payload.get("step") == workflow["step"])


def _waiting(head: Head, event: Event, payload: Mapping[str, Any]) -> None:
    if head["status"] not in {"queued", "running"}:
        return
    head["status"] = "waiting"
    head["question"] = {
        "seq": event.get("seq"),
        "reason": _text(payload.get("reason")) or "",
        "text": _text(payload.get("question")) or "",
        "choices": [choice for choice in _list(payload.get("choices")) if isinstance(choice, str)],
        "step": _text(payload.get("step")),
    }


def _answered(head: Head, event: Event, payload: Mapping[str, Any]) -> None:
    question, choice = head["question"], payload.get("choice")
    if head["status"] != "waiting" or not _is_by_a_person(event, payload) or choice not in question["choices"]:
        return
    if type(payload.get("question_seq")) is not int or payload["question_seq"] != question["seq"]:
        return
    head |= {"status": "running", "question": None}
    workflow = head["workflow"]
    workflow["stop"] = choice == "stop"
    if choice == "continue":
        _grant(workflow, question["reason"])


def _is_by_a_person(event: Event, payload: Mapping[str, Any]) -> bool:
    actor = _text(event.get("actor"))
    return payload.get("role") == REQUESTER and actor is not None and actor.strip().casefold() not in _NOT_ROLES


def _grant(workflow: dict[str, Any], reason: str) -> None:
    """Give what the question asked for: one grant of a limit or budget, or one more turn of the step that stopped."""
    kind, _, name = reason.partition(":")
    if (kind == "limit" and name in LIMITS) or (kind == "budget" and name in BUDGETS):
        workflow["granted"] = workflow["granted"] | {name: workflow["granted"].get(name, 0) + 1}
    elif kind != "git":
        workflow["retry"] = True


def _resumed(head: Head, _event: Event, _payload: Mapping[str, Any]) -> None:
    if head["status"] in {"failed", "cancelled"}:
        head["workflow"] |= {"retry": head["status"] == "failed", "stop": False, "reason": None}
        head["status"] = "running"


def _commit_prepared(head: Head, _event: Event, payload: Mapping[str, Any]) -> None:
    keys = ("branch", "base", "tree", "paths", "message", "author", "date")
    head["commit"] = {key: payload.get(key) for key in keys} | {"sha": None}


def _commit_recorded(head: Head, _event: Event, payload: Mapping[str, Any]) -> None:
    if head["commit"] is not None:
        head["commit"] = head["commit"] | {"sha": _text(payload.get("sha"))}


def _ended(status: str) -> Callable[[Head, Event, Mapping[str, Any]], None]:
    def take(head: Head, _event: Event, payload: Mapping[str, Any]) -> None:
        if head["status"] not in ENDED:
            head |= {"status": status, "question": None}
            head["workflow"]["reason"] = _text(payload.get("reason"))

    return take


_TAKERS: Mapping[str, Callable[[Head, Event, Mapping[str, Any]], None]] = {
    "created": _created,
    "delegated": _delegated,
    "role_report": _role_report,
    "turn_failed": _turn_failed,
    "waiting": _waiting,
    "answered": _answered,
    "resumed": _resumed,
    "commit_prepared": _commit_prepared,
    "commit_recorded": _commit_recorded,
    "completed": _ended("completed"),
    "failed": _ended("failed"),
    "cancelled": _ended("cancelled"),
}
"""What each type of event does to a head whose `workflow` is a copy already."""


def _spent(before: Mapping[str, Any], given: object) -> dict[str, Any]:
    """Return the sums; what no turn has told yet stays None."""
    turn = _object(given)
    return {key: _sum(before[key], _number(turn.get(key))) for key in ("calls", "tokens", "cost_usd", "seconds")}


def _sum(before: float | None, turn: float | None) -> float | None:
    if turn is None:
        return before
    return round(turn if before is None else before + turn, 9)  # a whole number stays one


def _keep_artifacts(head: Head, given: object) -> None:
    """Add the artifact references to the list; one of a path that is known takes its place."""
    for reference in _references(given):
        known = {one["path"]: one for one in head["artifacts"]}
        head["artifacts"] = list((known | {reference["path"]: reference}).values())


def _references(given: object) -> Iterator[dict[str, Any]]:
    for one in _list(given):
        if isinstance(one, dict) and isinstance(one.get("path"), str) and {"sha256", "bytes"} <= one.keys():
            yield one


def _number(value: object) -> float | None:
    """Return a count, size or duration; None for everything else, NaN and infinity included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= _LARGEST else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
