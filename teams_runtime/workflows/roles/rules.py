"""What ties the keys of an answer to each other, to the step and to the task: one small function a rule.

A rule is given the keys whose types are right and skips what is not there, so that one wrong key hides no other issue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from teams_runtime.workflows.roles.contract import FIRST_STEPS, TARGET_STEPS, VERDICT_STEPS, placeholders
from teams_runtime.workflows.roles.issues import issue, pointer, shown, shown_all

MAX_MESSAGE_CHARACTERS = 10_000
"""How long a commit message may be."""

MAX_FIRST_LINE_CHARACTERS = 120
"""How long the first line of a commit message may be."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What an answer is held against.

    Attributes:
        request_id: the request's id.
        role: who was asked.
        step: at which step.
        context: what the task showed; see the payload of `delegated`.
        advice: whether the request's profile has advice steps.
    """

    request_id: str
    role: str
    step: str
    context: Mapping[str, Any]
    advice: bool


@dataclass(frozen=True, slots=True)
class Sound:
    """The keys of an answer whose types are right.

    Attributes:
        keys: by name; what was left out is not there.
        wrong: names of the keys that are there, or should be, and are wrong.
    """

    keys: Mapping[str, Any]
    wrong: frozenset[str]

    def completed(self) -> bool:
        """Whether the status is known and `completed`."""
        return self.keys.get("status") == "completed"

    def stopped(self) -> bool:
        """Whether the status is known and not `completed`."""
        return self.keys.get("status") in ("blocked", "failed")

    def transition(self) -> Mapping[str, Any]:
        """The transition, empty when there is none."""
        return self.keys.get("transition") or {}

    def outcome(self) -> str | None:
        """The outcome, `complete` when the answer leaves it out; None when it cannot be known."""
        return None if "transition" in self.wrong else self.transition().get("outcome", "complete")

    def missing(self, key: str) -> bool:
        """Whether the key is left out, null or an empty list, rather than wrong."""
        return key not in self.wrong and not self.keys.get(key)


Rule = Callable[[Sound, Expected], Iterator[str]]


def rule_issues(sound: Sound, expected: Expected) -> Iterator[str]:
    """Yield every issue that the rules find."""
    for rule in _RULES:
        yield from rule(sound, expected)


def _identity(sound: Sound, expected: Expected) -> Iterator[str]:
    for key, wanted in (("request_id", expected.request_id), ("role", expected.role)):
        if key in sound.keys and sound.keys[key] != wanted:
            yield issue(f"/{key}", f"must be {shown(wanted)}, got {shown(sound.keys[key])}")


def _error(sound: Sound, _expected: Expected) -> Iterator[str]:
    error = sound.keys.get("error")
    if sound.completed() and error is not None:
        yield issue("/error", f"must be null when the status is 'completed', got {shown(error)}")
    if sound.stopped() and sound.missing("error"):
        yield issue("/error", f"must say why the status is {shown(sound.keys['status'])}, got {shown(error)}")


def _outcome(sound: Sound, expected: Expected) -> Iterator[str]:
    if sound.outcome() != "reopen":
        return
    if sound.stopped():
        yield issue("/transition/outcome", "must be 'complete' unless the status is 'completed', got 'reopen'")
    if expected.step in FIRST_STEPS:
        yield issue(
            "/transition/outcome",
            f"must be 'complete' at the step {expected.step}, which no step precedes, got 'reopen'; "
            "when a person must decide, the status is 'blocked'",
        )


def _reopen(sound: Sound, _expected: Expected) -> Iterator[str]:
    transition = sound.transition()
    category = transition.get("reopen_category")
    if sound.outcome() == "reopen":
        if category is None:
            yield issue("/transition/reopen_category", "must name a category for a reopen, got null")
        if not transition.get("reason", "").strip():
            yield issue("/transition/reason", "must say why for a reopen, got nothing")
        if not transition.get("unresolved_items"):
            yield issue("/transition/unresolved_items", "must name at least one item for a reopen, got none")
    elif category is not None:
        yield issue("/transition/reopen_category", f"must be null without a reopen, got {shown(category)}")


def _target(sound: Sound, expected: Expected) -> Iterator[str]:
    target = sound.transition().get("target_step")
    if target is None:
        return
    allowed = TARGET_STEPS.get(expected.step, ()) if expected.advice else ()
    if target not in allowed:
        wanted = f"one of {', '.join(map(shown, allowed))} or null" if allowed else "null"
        yield issue("/transition/target_step", f"must be {wanted} at the step {expected.step}, got {shown(target)}")
    elif not sound.completed() or sound.outcome() == "reopen":
        yield issue("/transition/target_step", f"must be null unless completed without a reopen, got {shown(target)}")


def _verdict(sound: Sound, expected: Expected) -> Iterator[str]:
    verdict = sound.keys.get("verdict")
    if expected.step not in VERDICT_STEPS:
        if verdict is not None:
            yield issue("/verdict", f"must be null at the step {expected.step}, got {shown(verdict)}")
        return
    if sound.stopped() and verdict is not None:
        yield issue("/verdict", f"must be null unless the status is 'completed', got {shown(verdict)}")
    if sound.completed() and sound.missing("verdict"):
        yield issue("/verdict", f"must be 'pass' or 'fail' at the step {expected.step}, got null")
    outcome = sound.outcome()
    if (verdict, outcome) in (("pass", "reopen"), ("fail", "complete")):
        yield issue(
            "/verdict", f"must go with the outcome ('pass' complete, 'fail' reopen), got {shown(verdict)} and {outcome}"
        )


def _evidence(sound: Sound, expected: Expected) -> Iterator[str]:
    if expected.role != "qa" or not sound.completed():
        return
    if sound.missing("evidence_matrix"):
        yield issue("/evidence_matrix", "must hold a row for each criterion, got none")
    if sound.keys.get("verdict") != "pass":
        return
    for index, row in enumerate(sound.keys.get("evidence_matrix") or ()):
        if row["result"] == "fail":
            yield issue(f"/evidence_matrix/{index}/result", "must not be 'fail' when the verdict is 'pass', got 'fail'")


def _verification(sound: Sound, expected: Expected) -> Iterator[str]:
    check = expected.context.get("verification")
    if sound.keys.get("verdict") != "pass" or not isinstance(check, Mapping):
        return
    if check.get("timed_out") or check.get("exit_code") != 0:
        ended = "ran out of time" if check.get("timed_out") else f"ended with exit code {shown(check.get('exit_code'))}"
        yield issue("/verdict", f"must be 'fail' when the verification command failed (it {ended}), got 'pass'")


def _plan(sound: Sound, expected: Expected) -> Iterator[str]:
    needed = expected.role == "planner" and sound.completed() and "transition" not in sound.wrong
    if needed and sound.missing("plan") and sound.transition().get("target_step") is None:
        yield issue("/plan", "must hold the plan unless advice is asked for first, got null")


def _research(sound: Sound, expected: Expected) -> Iterator[str]:
    if expected.role != "research":
        return
    if sound.completed() and sound.missing("research"):
        yield issue("/research", "must hold the decision, got null")
    research = sound.keys.get("research") or {}
    if not research:
        return
    needed, code = research["needed"], research["reason_code"]
    if needed != (code == "needed_external_grounding"):
        yield issue("/research/reason_code", f"must agree with needed ({shown(needed)}), got {shown(code)}")
    for key in ("subject", "query", "knowledge_gap"):
        if needed and not research[key].strip():
            yield issue(f"/research/{key}", f"must not be blank when needed is true, got {shown(research[key])}")


def _commit(sound: Sound, expected: Expected) -> Iterator[str]:
    if expected.role != "version_controller":
        return
    if sound.completed() and sound.outcome() == "complete" and sound.missing("commit"):
        yield issue("/commit", "must hold the commit's message and paths, got null")
    commit = sound.keys.get("commit")
    if commit:
        yield from _message_issues(commit["message"])
        yield from _commit_path_issues(commit["paths"], expected.context.get("paths"))


def _message_issues(message: str) -> Iterator[str]:
    first = message.partition("\n")[0]
    if len(message) > MAX_MESSAGE_CHARACTERS:
        yield issue("/commit/message", f"must be at most {MAX_MESSAGE_CHARACTERS} characters, got {len(message)}")
    if "\0" in message:
        yield issue("/commit/message", "must hold no NUL character, got one")
    if not first.strip() or len(first) > MAX_FIRST_LINE_CHARACTERS:
        yield issue(
            "/commit/message",
            f"must start with a line of 1 to {MAX_FIRST_LINE_CHARACTERS} characters, got {len(first.strip())}",
        )


def _commit_path_issues(paths: list[str], wanted: object) -> Iterator[str]:
    if not isinstance(wanted, (list, tuple)):
        return
    missing = [path for path in wanted if path not in paths]
    extra = [path for path in paths if path not in wanted]
    if missing:
        yield issue("/commit/paths", f"must be exactly the paths of the task, got none for {shown_all(missing)}")
    if extra:
        yield issue("/commit/paths", f"must be exactly the paths of the task, got also {shown_all(extra)}")


def _paths(sound: Sound, _expected: Expected) -> Iterator[str]:
    plan, commit = sound.keys.get("plan") or {}, sound.keys.get("commit") or {}
    for name, paths in (
        ("/artifacts", sound.keys.get("artifacts", ())),
        ("/plan/paths", plan.get("paths", ())),
        ("/commit/paths", commit.get("paths", ())),
    ):
        for index, path in enumerate(paths):
            if not _inside(path):
                yield issue(f"{name}/{index}", f"must be a relative path without '..', got {shown(path)}")


def _inside(path: str) -> bool:
    absolute = PurePosixPath(path).is_absolute() or bool(PureWindowsPath(path).drive)
    return not absolute and "\0" not in path and ".." not in PurePosixPath(path).parts


def _placeholders(sound: Sound, expected: Expected) -> Iterator[str]:
    tokens = placeholders(expected.role)
    for path, text in _strings(sound.keys, ()):
        token = next((token for token in tokens if token in text), None) if "<" in text else None
        if token:
            yield issue(pointer(path), f"must hold a real value in place of a placeholder, got {shown(token)}")


def _strings(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every string value with its path; keys are no values."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, (*path, index))


_RULES: tuple[Rule, ...] = (
    _identity,
    _error,
    _outcome,
    _reopen,
    _target,
    _verdict,
    _evidence,
    _verification,
    _plan,
    _research,
    _commit,
    _paths,
    _placeholders,
)
