"""From a model's text to a `RoleResult`, or to every issue that keeps it from being one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from teams_runtime.shared.errors import ContractError
from teams_runtime.workflows.roles.answer_text import read_object
from teams_runtime.workflows.roles.contract import ANSWERS, ROLE_KINDS, STEP_ROLES, Answer, PromptKind
from teams_runtime.workflows.roles.issues import bounded_issues, issue, pointer, shown
from teams_runtime.workflows.roles.rules import Expected, Sound, rule_issues

_SURROGATE = re.compile("[\ud800-\udfff]")

_MUST = {
    "missing": "must be there, got nothing",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "string_pattern_mismatch": "must not be blank",
    "too_short": "must not be empty",
}
"""What must hold, by pydantic's name of the error."""


@dataclass(frozen=True, slots=True)
class RoleResult:
    """A role's answer that keeps its contract.

    Attributes:
        role: who answered.
        status: `completed`, `blocked` or `failed`.
        summary: the summary of the role's event.
        payload: the payload of the role's event: `role`, `status`, `insights`, `artifacts`, `proposals`, `error`,
            `transition` with all its keys, then the role's own parts that are given. What an answer leaves out has its
            default; `transition.outcome` is None when a `blocked` or `failed` answer names no transition.
    """

    role: str
    status: str
    summary: str
    payload: dict[str, Any] = field(hash=False)

    @property
    def outcome(self) -> str | None:
        """`complete`, `reopen`, or None when a blocked or failed answer names none."""
        return self._transition("outcome")

    @property
    def target_step(self) -> str | None:
        """The step that is asked for next, or None."""
        return self._transition("target_step")

    @property
    def reopen_category(self) -> str | None:
        """What is wrong, for a reopen; else None."""
        return self._transition("reopen_category")

    @property
    def verdict(self) -> str | None:
        """`pass`, `fail`, or None where none belongs."""
        verdict: str | None = self.payload.get("verdict")
        return verdict

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Files made for people to read, relative to the worktree."""
        return tuple(self.payload["artifacts"])

    def _transition(self, key: str) -> str | None:
        value: str | None = self.payload["transition"][key]
        return value


def parse_answer(
    text: str,
    *,
    role: str,
    step: str,
    purpose: PromptKind,
    request_id: str,
    context: Mapping[str, Any] | None,
    profile: str = "full",
) -> RoleResult:
    """Return the answer that `text` holds.

    Args:
        text: what the model gave, as it is.
        role: who was asked.
        step: at which step.
        purpose: the kind of the prompt that was answered.
        request_id: the request's id.
        context: what the task showed: `verification` binds QA's verdict, `paths` the commit.
        profile: the request's profile; only `full` has advice steps to ask for.

    Raises:
        ContractError: the text does not keep the contract; carries all its issues.
        ValueError: the role does not work at that step, or is never asked for that purpose.
    """
    if STEP_ROLES.get(step) != role or purpose not in (ROLE_KINDS[role], PromptKind.CONTRACT_REPAIR):
        raise ValueError(f"no prompt of kind {purpose} is made for {role} at the step {step!r}")
    given = read_object(text)
    model = ANSWERS[role]
    shape = _shape_errors(model, given)
    wrong = frozenset(str(error["loc"][0]) for error in shape)
    sound = Sound({key: value for key, value in given.items() if key in model.model_fields and key not in wrong}, wrong)
    expected = Expected(request_id, role, step, context or {}, advice=profile == "full")
    issues = bounded_issues([*(_shape_issue(model, error) for error in shape), *rule_issues(sound, expected)])
    if issues:
        raise ContractError(issues)
    return _result(model, given)


def _shape_errors(model: type[Answer], given: dict[str, Any]) -> list[ErrorDetails]:
    """Return what keeps the object from being of the model's shape; lone surrogates are no fault."""
    try:
        model.model_validate(_without_surrogates(given))
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def _without_surrogates(value: Any) -> Any:
    """Return a copy in which lone surrogates are replaced: pydantic takes no string that UTF-8 has no form for."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value


def _shape_issue(model: type[Answer], error: ErrorDetails) -> str:
    where = pointer(error["loc"])
    if error["type"] == "extra_forbidden":
        return issue(where, _unknown(str(error["loc"][-1]), _allowed(model, error["loc"][:-1])))
    if error["type"] == "missing":
        return issue(where, _MUST["missing"])
    if error["type"] == "literal_error":
        return issue(where, f"must be one of {error['ctx']['expected']}, got {shown(error['input'])}")
    return issue(where, f"{_MUST[error['type']]}, got {shown(error['input'])}")


def _unknown(key: str, allowed: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key[:60], allowed, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"must not be there: an unknown key; {hint}allowed are {', '.join(allowed)}"


def _allowed(model: type[Answer], path: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the keys that the object at `path` may have."""
    schema = model.model_json_schema()
    node = schema
    for part in path:
        node = _inner(schema, node["items"] if isinstance(part, int) else node["properties"][part])
    return tuple(node["properties"])


def _inner(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a node stands for: its reference followed, its null alternative left out."""
    node = node.get("anyOf", [node])[0]
    return schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node


def _result(model: type[Answer], given: dict[str, Any]) -> RoleResult:
    """Return the result of an answer without issues; its values are the given ones."""
    filled: dict[str, Any] = {
        "insights": [], "artifacts": [], "proposals": {}, "error": None,
        **{key: given[key] for key in model.model_fields if given.get(key) is not None},
    }  # fmt: skip
    transition = {
        "outcome": "complete" if given["status"] == "completed" else None,
        "target_step": None,
        "reopen_category": None,
        "reason": "",
        "unresolved_items": [],
        **(given.get("transition") or {}),
    }
    order = [key for key in model.model_fields if key not in ("request_id", "summary")]
    filled["transition"] = transition
    payload = {key: filled[key] for key in order if key in filled}
    return RoleResult(given["role"], given["status"], given["summary"], payload)
