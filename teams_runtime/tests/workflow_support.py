"""What the workflow's tests share: a request without disk, models or git, driven through the real decide and fold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teams_runtime.shared.models import WorkflowConfig
from teams_runtime.store.fold import fold_one
from teams_runtime.workflows.orchestration.workflow import Decision, Done, Step, Wait, decide

Answer = Mapping[str, Any]
SPENT = {"calls": 1, "tokens": None, "cost_usd": None, "seconds": 1.0}
PLAN = {"goal": "g", "steps": [], "acceptance": [], "paths": []}


def complete(**more: Any) -> dict[str, Any]:
    """An answer that goes on."""
    return {
        "status": "completed",
        "transition": {"outcome": "complete", "target_step": more.pop("target", None)},
    } | more


def reopen(category: str | None, **more: Any) -> dict[str, Any]:
    """An answer that sends the work back."""
    return {"status": "completed", "transition": {"outcome": "reopen", "reopen_category": category}} | more


def good_answer(step: str) -> dict[str, Any]:
    """What a content role answers at a step."""
    parts: dict[str, dict[str, Any]] = {
        "plan": {"plan": PLAN},
        "review": {"verdict": "pass"},
        "qa": {"verdict": "pass"},
    }
    return complete(**parts.get(step, {}))


class Request:
    """One request: its head, and the loop's part of appending events.

    Args:
        profile: `full` or `lean`.
        config: limits and budgets.
    """

    def __init__(self, profile: str = "full", config: WorkflowConfig | None = None) -> None:
        self.config = config or WorkflowConfig()
        self.seq = 0
        self.steps: list[str] = []
        self.head: dict[str, Any] = fold_one(None, None)
        self.tree = "t0"
        self.event("created", "requester", scope="s", requester="requester", params={"profile": profile})

    def event(self, kind: str, actor: str = "orchestrator", /, **payload: Any) -> None:
        """Append an event."""
        self.seq += 1
        stamp = f"2026-12-01T03:{self.seq // 60 % 60:02}:{self.seq % 60:02}.000Z"
        self.head = fold_one(
            self.head,
            {"id": f"e{self.seq}", "seq": self.seq, "timestamp": stamp, "type": kind, "actor": actor,
             "summary": kind, "payload": payload},
        )  # fmt: skip

    def decide(self) -> Decision:
        """Decide as the loop does: with the tree before anything that leads to the commit."""
        found = decide(self.head, self.config)
        near = isinstance(found, Step) and found.step in {"version_control", "commit"}
        return decide(self.head, self.config, tree=self.tree) if near else found

    def delegate(self, step: Step) -> None:
        """Begin a turn."""
        context = {"tree": self.tree} if step.step == "qa" else {}
        self.steps.append(step.step)
        self.event("delegated", target=step.role, step=step.step, visit=step.visit, cause=step.cause, context=context)

    def report(self, step: Step, answer: Answer) -> None:
        """End a turn with the role's answer."""
        parts = dict(answer) | {"role": step.role, "step": step.step, "visit": step.visit, "tree": self.tree}
        self.event("role_report", step.role or "", **({"spent": SPENT} | parts))

    def fail(self, step: Step, kind: str) -> None:
        """End a turn without an answer."""
        self.event(
            "turn_failed", target=step.role, step=step.step, visit=step.visit, kind=kind, remedy="r", spent=SPENT
        )

    def ask(self, wait: Wait) -> None:
        """Put a question."""
        self.event("waiting", reason=wait.reason, question=wait.question, choices=list(wait.choices))

    def answer(self, choice: str = "continue") -> None:
        """Answer the open question as a person."""
        seq = self.head["question"]["seq"]
        self.event("answered", "ada", role="requester", status="answered", choice=choice, text="", question_seq=seq)

    def commit(self) -> None:
        """Make the commit."""
        if self.head["commit"] is None:
            self.event("commit_prepared", branch="teams/x", base="b", tree=self.tree, paths=["a"], message="m")
        self.event("commit_recorded", sha="f" * 40)

    def work(self, answer: Answer | None = None) -> Step:
        """Do the step that is due, with the given answer or a good one; return it."""
        step = self.decide()
        assert isinstance(step, Step), step
        if step.role is None:
            self.commit()
        else:
            if not step.pending:
                self.delegate(step)
            self.report(step, answer or good_answer(step.step))
        return step

    def work_to(self, name: str, visit: int = 1) -> Step:
        """Work with good answers until the step is due; return it."""
        while True:
            step = self.decide()
            assert isinstance(step, Step), step
            if (step.step, step.visit) == (name, visit):
                return step
            self.work()

    def finish(self) -> Done:
        """Work with good answers to the end; return it."""
        while not isinstance(done := self.decide(), Done):
            self.work()
        return done
