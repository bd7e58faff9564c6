"""The loop that works one request: load, decide, do the step, append what happened; until it is done or waits.

Everything the loop knows lies in the record, so a run that was killed goes on where its record ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from teams_runtime.git.commit import PreparedCommit, make_commit, prepare_commit
from teams_runtime.git.repository import Base, Repository, author_identity
from teams_runtime.git.restore import restore_tree
from teams_runtime.git.worktree import Worktree, ensure_worktree
from teams_runtime.runtime.base_runtime import RoleRuntime, TurnFailure, TurnReport
from teams_runtime.runtime.calls import Workplace
from teams_runtime.runtime.turn_prompt import Turn
from teams_runtime.runtime.verification import verify_worktree
from teams_runtime.shared.errors import GitError, RecordConflictError
from teams_runtime.shared.models import TeamRuntimeConfig
from teams_runtime.shared.paths import WorkspacePaths
from teams_runtime.store.records import Record, RecordStore
from teams_runtime.telemetry.manifests import CallManifest
from teams_runtime.workflows.orchestration.workflow import STEPS, Done, Step, Wait, decide

logger = logging.getLogger(__name__)

ORCHESTRATOR = "orchestrator"
MOST_LISTED = 50
"""How many paths or denials one event names; the rest is counted."""
DENIAL_CHARACTERS = 300
GOING = ("queued", "running")
"""The statuses in which a request can be worked on."""


class RunObserver:
    """Told what a run does while it does it; this one says nothing.  For live views only: nothing depends on it."""

    def delegated(self, role: str, step: str, visit: int, cause: str) -> None:
        """Hear that a role begins to work on a step."""

    def progressed(self, line: str) -> None:
        """Hear one short line of what the role is seen to do."""

    def called(self, manifest: CallManifest) -> None:
        """Hear that one call has ended."""

    def appended(self, event: Mapping[str, Any]) -> None:
        """Hear of an event that now stands in the record."""


@dataclass(frozen=True, slots=True)
class RunParts:
    """What a run works with, composed once by the service."""

    paths: WorkspacePaths
    config: TeamRuntimeConfig
    store: RecordStore
    runtimes: Mapping[str, RoleRuntime]
    repository: Repository
    environment: Mapping[str, str]
    clock: Callable[[], datetime]


class RequestRun:
    """Works one request.

    Args:
        parts: what it works with.
        request_id: which request.
        observer: told what happens.
    """

    def __init__(self, parts: RunParts, request_id: str, observer: RunObserver) -> None:
        self._parts = parts
        self._id = request_id
        self._observer = observer

    def advance(self) -> Record:
        """Work until the request is completed, failed, cancelled or waits for a person; return its record."""
        record = self._parts.store.load(self._id)
        while record.head["status"] in GOING:
            try:
                record = self._once(record)
            except GitError as error:
                record = self._wait(record, Wait("git", f"{error}", ("continue", "stop")))
        return record

    def _once(self, record: Record) -> Record:
        decision = self._decide(record)
        if isinstance(decision, Wait):
            return self._wait(record, decision)
        if isinstance(decision, Done):
            commit = (record.head["commit"] or {}).get("sha") if decision.status == "completed" else None
            return self._done(record, decision, commit)
        if decision.role is None:
            return self._commit(record)
        return self._delegate(record, decision, decision.role)

    def _decide(self, record: Record) -> Step | Wait | Done:
        """Decide the next step; before a commit, with the worktree as it is now."""
        config = self._parts.config.workflow
        decision = decide(record.head, config)
        if isinstance(decision, Step) and decision.step in {"version_control", "commit"}:
            decision = decide(record.head, config, tree=self._tree(self._worktree(record)))
        return decision

    def _delegate(self, record: Record, step: Step, role: str) -> Record:
        worktree = self._worktree(record)
        if not step.pending:
            context = self._context(record, step, worktree)
            if step.step == "version_control" and not context["paths"]:
                _check_outside(worktree, context["outside"])
                return self._done(record, Done("completed", "no file was changed"), None)
            record = self._append(record, "delegated", _delegation(step, context))
        self._observer.delegated(role, step.step, step.visit, step.cause)
        return self._turn(record, step, role, worktree)

    def _turn(self, record: Record, step: Step, role: str, worktree: Worktree) -> Record:
        before = self._tree(worktree)
        writes = STEPS[step.step].writes
        workflow = record.head["workflow"]
        turn = Turn(record, role, step.step, step.visit, workflow["context"], workflow["profile"])
        place = Workplace(worktree.path, writes, self._parts.paths.artifacts(self._id))
        outcome = self._parts.runtimes[role].run_turn(
            turn, place, progress=self._observer.progressed, watch=self._observer.called
        )
        denials = outcome.denials + (() if writes else self._put_back(worktree, before))
        tree = self._tree(worktree)
        seen = self._seen(worktree.changed_paths(before, tree)) if writes else {}
        if denials:
            seen["denials"] = _bounded(denials)
        if isinstance(outcome, TurnFailure):
            return self._append(record, "turn_failed", _failure(step, role, outcome) | seen)
        return self._report(record, step, outcome, seen | {"tree": tree})

    def _seen(self, changed: Sequence[str]) -> dict[str, Any]:
        """What git shows of a turn that may write, whatever the role says of it."""
        named = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
        self._observer.progressed(f"git shows {len(changed)} changed files{': ' if named else ''}{named}")
        return {"changed": {"files": len(changed), "paths": list(changed[:MOST_LISTED])}}

    def _report(self, record: Record, step: Step, outcome: TurnReport, seen: Mapping[str, Any]) -> Record:
        result = outcome.result
        payload = dict(result.payload) | {"step": step.step, "visit": step.visit, "spent": outcome.spent.payload()}
        return self._append(record, "role_report", payload | dict(seen), actor=result.role, summary=result.summary)

    def _context(self, record: Record, step: Step, worktree: Worktree) -> dict[str, Any]:
        """What the delegation tells the role beyond the history: QA's evidence, the version controller's change."""
        if step.step == "qa":
            return self._verified(step, worktree)
        if step.step == "version_control":
            changes = worktree.changes(self._parts.config.repository.owned_paths)
            return {
                "base": record.head["workflow"]["base"]["commit"],
                "tree": changes.tree,
                "paths": list(changes.paths),
                "stat": changes.stat,
                "outside": list(changes.outside),
            }
        return {}

    def _verified(self, step: Step, worktree: Worktree) -> dict[str, Any]:
        """Run the verification command; what it leaves behind in the tree is taken away again."""
        tree, paths = self._tree(worktree), self._parts.paths
        if not self._parts.config.repository.verification_command:
            return {"tree": tree, "verification": None}
        self._observer.progressed("running the verification command")
        artifact = paths.artifacts(self._id) / f"verification-{step.visit}.txt"
        done = verify_worktree(
            self._parts.config.repository, worktree.path, artifact, paths.root, self._parts.environment
        )
        self._put_back(worktree, tree)
        return {"tree": tree, "verification": done.payload()}

    def _commit(self, record: Record) -> Record:
        """Make the commit, or find the one that was made before a crash; either way record it once."""
        worktree, config = self._worktree(record), self._parts.config
        if record.head["commit"] is None:
            worded = record.head["result"]["commit"]
            prepared = prepare_commit(
                worktree,
                config.repository.owned_paths,
                worded["paths"],
                worded["message"],
                author_identity(self._parts.repository),
                self._parts.clock().isoformat(timespec="seconds"),
            )
            if prepared.tree != record.head["workflow"]["qa_tree"]:
                return record  # changed since it was looked at a moment ago: decide again, on what lies there now
            record = self._append(record, "commit_prepared", prepared.payload())
        prepared = PreparedCommit.from_payload(record.head["commit"])
        allowed = config.version_control
        sha = make_commit(worktree, prepared, allow_hooks=allowed.allow_hooks, allow_signing=allowed.allow_signing)
        return self._append(record, "commit_recorded", {"sha": sha})

    def _wait(self, record: Record, wait: Wait) -> Record:
        step = record.head["workflow"].get("step")
        payload = {"reason": wait.reason, "question": wait.question, "choices": list(wait.choices), "step": step}
        return self._append(record, "waiting", payload)

    def _done(self, record: Record, done: Done, commit: str | None) -> Record:
        payload: dict[str, Any] = {"reason": done.reason}
        if done.status == "completed":
            payload = {"commit": commit} | payload
        return self._append(record, done.status, payload)

    def _worktree(self, record: Record) -> Worktree:
        """Return the worktree; one that was lost comes back with the content that the newest report left."""
        base = record.head["workflow"]["base"]
        place = self._parts.paths.worktree(self._id)
        worktree = ensure_worktree(self._parts.repository, place, self._id, Base(base["commit"] or "", base["branch"]))
        if not worktree.settled:
            self._bring_back(worktree, (record.head["workflow"]["report"] or {}).get("tree"))
            worktree.settle()
        return worktree

    def _bring_back(self, worktree: Worktree, tree: str | None) -> None:
        if tree is None:
            return
        if not self._parts.repository.has_tree(tree):
            raise GitError(
                f"{worktree.path}: the worktree was lost, and its content, tree {tree}, is no longer in the "
                "repository; put the tree back, or stop the request and file it anew"
            )
        changed = restore_tree(worktree, tree, self._parts.config.repository.owned_paths)
        logger.info("%s: the worktree was made again with %d changed files", self._id, len(changed))

    def _tree(self, worktree: Worktree) -> str:
        return worktree.tree(self._parts.config.repository.owned_paths)

    def _put_back(self, worktree: Worktree, tree: str) -> tuple[str, ...]:
        """Undo what a role, or a command, that may only read has changed; say which files."""
        changed = restore_tree(worktree, tree, self._parts.config.repository.owned_paths)
        if not changed:
            return ()
        logger.info("%s: %d files changed by a step that only reads were put back", self._id, len(changed))
        named = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        return (f"this step only reads; put back: {named}",)

    def _append(
        self,
        record: Record,
        kind: str,
        payload: Mapping[str, Any],
        *,
        actor: str = ORCHESTRATOR,
        summary: str | None = None,
    ) -> Record:
        """Append one event; when the record moved on meanwhile, append after what was added, unless that ended it."""
        store = self._parts.store
        text = _summary(kind, payload) if summary is None else summary
        event = store.new_event(kind, actor=actor, summary=text, payload=dict(payload))
        while True:
            try:
                record = store.append(self._id, event, expected_seq=record.seq)
            except RecordConflictError:
                record = store.load(self._id)
                if record.head["status"] not in GOING:
                    return record
            else:
                self._observer.appended(record.events[-1])
                return record


def _bounded(denials: Sequence[str]) -> list[str]:
    """Return denials as an event carries them: not too many, none too long; a model can try the same without end."""
    told = [
        line if len(line) <= DENIAL_CHARACTERS else f"{line[:DENIAL_CHARACTERS]}…" for line in dict.fromkeys(denials)
    ]
    left = len(told) - MOST_LISTED
    return [*told[:MOST_LISTED], f"and {left} more"] if left > 0 else told


def _check_outside(worktree: Worktree, outside: Sequence[str]) -> None:
    """Refuse to call a request done whose work lies where nothing is committed from."""
    if outside:
        named = ", ".join(map(repr, outside[:5])) + (f" and {len(outside) - 5} more" if len(outside) > 5 else "")
        raise GitError(
            f"{worktree.path}: every changed file lies outside of repository.owned_paths: {named}; widen the owned "
            "paths, or put the files back"
        )


def _delegation(step: Step, context: Mapping[str, Any]) -> dict[str, Any]:
    payload = {"target": step.role, "step": step.step, "visit": step.visit, "cause": step.cause}
    return payload | {"context": dict(context)} if context else payload


def _failure(step: Step, role: str, outcome: TurnFailure) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "target": role,
        "step": step.step,
        "visit": step.visit,
        "kind": str(outcome.kind),
        "remedy": outcome.remedy,
        "spent": outcome.spent.payload(),
    }
    return payload | {"issues": list(outcome.issues)} if outcome.issues else payload


def _summary(kind: str, payload: Mapping[str, Any]) -> str:
    """One line for a person who reads the record; nothing in the runtime reads it back."""
    match kind:
        case "delegated":
            return f"{payload['step']} goes to {payload['target']} ({payload['cause']})"
        case "turn_failed":
            return f"{payload['target']} could not finish {payload['step']}: {payload['kind']}"
        case "waiting":
            return f"waiting for a person: {payload['reason']}"
        case "commit_prepared":
            return f"about to commit {', '.join(payload['paths'][:3])} on {payload['branch']}"
        case "commit_recorded":
            return f"committed {payload['sha'][:12]}"
        case _:
            return f"{kind}: {payload['reason']}"
