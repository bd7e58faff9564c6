"""No sequence of role answers can run past the limits: adversarial roles against the real decide and fold."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from teams_runtime.shared.models import BudgetsConfig, LimitsConfig, WorkflowConfig
from teams_runtime.tests.workflow_support import PLAN, Request, complete, reopen
from teams_runtime.workflows.orchestration.workflow import PROFILES, Done, Step, Wait

ODD: tuple[Any, ...] = (None, "", "dance", 7)
VERDICTS = st.sampled_from(("pass", "fail", *ODD))
TARGETS = st.sampled_from((*PROFILES["full"].next, "commit", *ODD))
CATEGORIES = st.sampled_from((*PROFILES["full"].reopen, *ODD))
SPENDS = st.fixed_dictionaries(
    {
        "calls": st.integers(1, 3),
        "tokens": st.none() | st.integers(0, 10**4),
        "cost_usd": st.none() | st.floats(0, 10),
        "seconds": st.floats(0, 10**4),
    }
)


@dataclass(frozen=True)
class Move:
    """What one turn does: its answer, or a failure; whether the worktree changes; whether the run dies first."""

    answer: dict[str, Any] = field(default_factory=complete)
    failure: str | None = None
    changes: bool = False
    dies: bool = False


def _answer(status: str, transition: tuple[Any, ...], verdict: Any, plan: Any, spent: Any) -> dict[str, Any]:
    keys = ("outcome", "target_step", "reopen_category")
    return {"status": status, "transition": dict(zip(keys, transition, strict=True)), "verdict": verdict,
            "plan": plan, "spent": spent,
            "granted": {"reviews": 99}, "choice": "continue", "question_seq": 1}  # fmt: skip


STATUSES = st.sampled_from(("completed",) * 8 + ("blocked",))
OUTCOMES = st.sampled_from(("complete", "complete", "reopen", *ODD))
PLANS = st.sampled_from((None, PLAN))
ANSWERS = st.builds(_answer, STATUSES, st.tuples(OUTCOMES, TARGETS, CATEGORIES), VERDICTS, PLANS, SPENDS)
MOVES = st.builds(Move, ANSWERS, st.sampled_from((None,) * 9 + ("contract", "quota")), st.booleans(), st.booleans())
CONFIGS = st.builds(
    WorkflowConfig,
    limits=st.builds(LimitsConfig, reviews=st.integers(1, 4), reopens=st.integers(1, 4), advice=st.integers(1, 3)),
    budgets=st.builds(
        BudgetsConfig,
        turns=st.none() | st.integers(1, 40),
        calls=st.none() | st.integers(1, 100),
        tokens=st.none(),
        cost_usd=st.none() | st.floats(0.5, 50),
        minutes=st.none() | st.floats(1, 1000),
    ),
)
UNBUDGETED = WorkflowConfig(budgets=BudgetsConfig(turns=None, calls=None, minutes=None))


MOST = 1000
"""More events than any of these runs may have."""


class Run:
    """A run against roles that play the moves over and over, and a person who says `continue` at most so often."""

    def __init__(self, profile: str, config: WorkflowConfig, moves: list[Move], continues: int) -> None:
        self.request = Request(profile, config)
        self.moves: Iterator[Move] = itertools.cycle(moves)
        self.limits = config.limits
        self.left = continues
        self.granted: dict[str, int] = {}
        self.turns: list[tuple[str, str]] = []

    def once(self) -> Done | None:
        """Do what is due; return the end."""
        found = self.request.decide()
        if isinstance(found, Done):
            return found
        if isinstance(found, Wait):
            self.person(found)
        elif found.role is None:
            self.request.commit()
        else:
            self.turn(found, next(self.moves))
        return None

    def person(self, wait: Wait) -> None:
        """Answer a question."""
        self.request.ask(wait)
        goes_on = self.left > 0 and "continue" in wait.choices
        self.left -= goes_on
        if goes_on:
            name = wait.reason.partition(":")[2] if wait.reason.startswith(("limit:", "budget:")) else "retry"
            self.granted[name] = self.granted.get(name, 0) + 1
        self.request.answer("continue" if goes_on else "stop")

    def turn(self, step: Step, move: Move) -> None:
        """Play one turn."""
        if not step.pending:
            self.turns.append((step.step, step.cause))
            self.request.delegate(step)
        if move.changes:
            self.request.tree = f"t{self.request.seq}"
        if move.dies and not step.pending:
            return
        if move.failure:
            self.request.fail(step, move.failure)
        else:
            self.request.report(step, move.answer)

    def allowed(self, name: str, value: int) -> int:
        """A limit with what the person granted."""
        return value + self.granted.get(name, 0)

    def is_spent(self, name: str, used: float) -> bool:
        """Whether a budget, with what the person granted, has no room left."""
        budget = getattr(self.request.config.budgets, name)
        return budget is not None and used >= budget * (1 + self.granted.get(name, 0))

    def bound(self) -> int:
        """How many turns there can be: the straight way once and once per reopen, and what the loops add."""
        reopens, reviews, advice = (
            self.allowed(name, getattr(self.limits, name)) for name in ("reopens", "reviews", "advice")
        )
        return 7 * (1 + reopens) + 2 * reviews + 2 * advice + self.granted.get("retry", 0)


def play(profile: str, config: WorkflowConfig, moves: list[Move], continues: int) -> Run:
    """A run played to its end; one that has no end fails."""
    run = Run(profile, config, moves, continues)
    for _ in range(MOST):
        if run.once() is not None:
            return run
    raise AssertionError(f"no end after {len(run.turns)} turns")


ALWAYS = [[Move(reopen(category, verdict="fail", plan=PLAN))] for category in PROFILES["full"].reopen]


class LimitPropertyTest(unittest.TestCase):
    """Whatever the roles answer, and however often they die, fail or change files."""

    @settings(max_examples=120, deadline=None)
    @given(st.sampled_from(("full", "lean")), CONFIGS, st.lists(MOVES, min_size=1, max_size=12), st.integers(0, 6))
    @example("full", UNBUDGETED, ALWAYS[0], 3)
    @example("full", UNBUDGETED, ALWAYS[3], 3)
    @example("lean", UNBUDGETED, ALWAYS[4], 3)
    @example("full", UNBUDGETED, [Move(complete(target="design_advice"))], 3)
    @example("full", UNBUDGETED, [Move(complete(verdict="pass", plan=PLAN), changes=True)], 3)
    @example("full", UNBUDGETED, [Move(complete(verdict="pass"))], 0)
    @example("full", UNBUDGETED, [Move(failure="contract")], 3)
    @example("full", UNBUDGETED, [Move(complete(status="blocked"))], 3)
    def test_every_run_ends_within_its_limits(
        self, profile: str, config: WorkflowConfig, moves: list[Move], continues: int
    ) -> None:
        """Turns, reviews, reopens and advice stay within what config and persons allow, counted by the test itself."""
        run = play(profile, config, moves, continues)
        counted = [(step, cause) for step, cause in run.turns if cause != "answer"]
        reviews = sum(step == "review" for step, _ in counted)
        reopens = sum(cause == "stale" or cause.startswith("reopen") for _, cause in counted)
        advice = sum(step.endswith("_advice") for step, _ in counted)
        self.assertEqual([True] * 4, [
            reviews <= run.allowed("reviews", config.limits.reviews),
            reopens <= run.allowed("reopens", config.limits.reopens),
            advice <= run.allowed("advice", config.limits.advice),
            len(run.turns) <= run.bound(),
        ], (run.turns, run.granted))  # fmt: skip

    @settings(max_examples=60, deadline=None)
    @given(st.sampled_from(("full", "lean")), CONFIGS, st.lists(MOVES, min_size=1, max_size=12), st.integers(0, 6))
    def test_no_turn_begins_on_a_spent_budget(
        self, profile: str, config: WorkflowConfig, moves: list[Move], continues: int
    ) -> None:
        """Before each turn less than the budget, with what persons granted, has been used."""
        run = Run(profile, config, moves, continues)
        for _ in range(MOST):
            found, workflow = run.request.decide(), run.request.head["workflow"]
            spent = workflow["spent"]
            used = {"turns": len(run.turns), "calls": spent["calls"], "cost_usd": spent["cost_usd"] or 0}
            used["minutes"] = spent["seconds"] / 60
            if isinstance(found, Step) and found.role is not None and not found.pending:
                self.assertEqual([], [name for name in used if run.is_spent(name, used[name])], used)
            if run.once() is not None:
                return

    @settings(max_examples=50, deadline=None)
    @given(st.sampled_from(("full", "lean")), CONFIGS, st.lists(MOVES, min_size=1, max_size=12))
    def test_nothing_is_granted_without_a_person(self, profile: str, config: WorkflowConfig, moves: list[Move]) -> None:
        """A run whose person only says stop ends with no grant at all."""
        run = play(profile, config, moves, continues=0)
        self.assertEqual({}, run.request.head["workflow"]["granted"])

    @settings(max_examples=50, deadline=None)
    @given(st.sampled_from(("full", "lean")), CONFIGS, st.lists(MOVES, min_size=1, max_size=12), st.integers(0, 9))
    def test_only_a_judged_tree_is_committed(
        self, profile: str, config: WorkflowConfig, moves: list[Move], continues: int
    ) -> None:
        """Every commit is of the tree that the newest passing QA saw, whatever changed in between."""
        run = play(profile, config, moves, continues)
        head = run.request.head
        if head["status"] == "completed" or head["commit"] is not None:
            self.assertEqual(head["workflow"]["qa_tree"], head["commit"]["tree"])


if __name__ == "__main__":
    unittest.main()
