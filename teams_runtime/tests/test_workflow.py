"""Every row of the tables, every limit, and every question; the loop's part is played, decide and fold are real."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

from teams_runtime.shared.models import BudgetsConfig, LimitsConfig, WorkflowConfig
from teams_runtime.store.fold import fold
from teams_runtime.tests.workflow_support import PLAN, Request, complete, reopen
from teams_runtime.workflows.orchestration.workflow import PROFILES, STEPS, Decision, Done, Step, Wait, decide
from teams_runtime.workflows.roles.contract import PromptKind


def limits(**values: int) -> WorkflowConfig:
    """A config with these limits."""
    return WorkflowConfig(limits=LimitsConfig(**values))


def budgets(**values: Any) -> WorkflowConfig:
    """A config with these budgets."""
    return WorkflowConfig(budgets=BudgetsConfig(**values))


def due(found: Decision) -> tuple[str, str]:
    """Step and cause of a decision that is a step."""
    assert isinstance(found, Step), found
    return found.step, found.cause


class WorkflowCase(unittest.TestCase):
    """Tests that ask what is due."""

    def waits(self, request: Request, reason: str) -> Wait:
        """The question that is due, which must be of that reason."""
        found = request.decide()
        assert isinstance(found, Wait), found
        self.assertEqual(reason, found.reason)
        return found


class TableTest(unittest.TestCase):
    """The tables themselves."""

    def test_only_build_and_revise_write(self) -> None:
        """Every other step reads."""
        self.assertEqual({"build", "revise"}, {step for step, spec in STEPS.items() if spec.writes})

    def test_each_step_has_its_role_and_the_roles_kind_of_prompt(self) -> None:
        """Research decides and the version controller commits with prompts of their own."""
        odd = {step: spec.kind for step, spec in STEPS.items() if spec.kind is not PromptKind.ROLE_TASK}
        self.assertEqual({"research": PromptKind.RESEARCH_DECISION, "version_control": PromptKind.VERSION_CONTROL}, odd)

    def test_every_row_leads_to_a_step_of_its_profile(self) -> None:
        """No table names a step that it does not tell the next of; only the commit is the end."""
        for name, profile in PROFILES.items():
            asked = {step for steps in profile.targets.values() for step in steps}
            reached = {profile.first, *profile.next.values(), *profile.reopen.values(), *asked}
            with self.subTest(name):
                self.assertEqual(set(profile.next) | {"commit"}, reached)

    def test_both_profiles_route_the_five_categories(self) -> None:
        """A reopen always has somewhere to go."""
        for name, profile in PROFILES.items():
            with self.subTest(name):
                self.assertEqual({"scope", "ux", "architecture", "implementation", "verification"}, set(profile.reopen))


class WayTest(WorkflowCase):
    """From step to step."""

    def test_a_request_without_trouble_takes_the_straight_way(self) -> None:
        """Each profile from its first step to the commit."""
        ways = {
            "full": ["research", "plan", "architect_guidance", "build", "review", "qa", "version_control"],
            "lean": ["plan", "build", "qa", "version_control"],
        }
        for profile, way in ways.items():
            with self.subTest(profile):
                request = Request(profile)
                self.assertEqual("completed", request.finish().status)
                self.assertEqual(way, request.steps)

    def test_causes_of_the_straight_way(self) -> None:
        """The first step starts, all others are next."""
        request = Request("lean")
        self.assertEqual([("plan", "start"), ("build", "next"), ("qa", "next"), ("version_control", "next")],
                         [due(request.work()) for _ in range(4)])  # fmt: skip

    def test_a_request_that_names_no_profile_takes_the_configured_one(self) -> None:
        """An unknown name counts as none."""
        for profile in ("", "huge"):
            request = Request(profile, WorkflowConfig(profile="lean"))
            self.assertEqual(("plan", "start"), due(request.decide()))

    def test_the_planner_and_the_designer_may_ask_for_advice(self) -> None:
        """Only at the steps, and for the steps, that the table names; elsewhere a target is passed over."""
        cases = {
            ("plan", "design_advice"): ("design_advice", "advice"),
            ("plan", "architecture_advice"): ("architecture_advice", "advice"),
            ("plan", "commit"): ("architect_guidance", "next"),
            ("build", "design_advice"): ("review", "next"),
            ("architect_guidance", "version_control"): ("build", "next"),
            ("research", "qa"): ("plan", "next"),
        }
        for (step, target), expected in cases.items():
            with self.subTest(step=step, target=target):
                request = Request()
                request.work_to(step)
                request.work(complete(target=target, plan=PLAN))
                self.assertEqual(expected, due(request.decide()))

    def test_the_lean_profile_has_no_advice(self) -> None:
        """The planner goes straight on."""
        request = Request("lean")
        request.work(complete(target="design_advice", plan=PLAN))
        self.assertEqual(("build", "next"), due(request.decide()))

    def test_advice_on_a_plan_leads_to_the_guidance(self) -> None:
        """The designer may pass on to the architect first."""
        request = Request()
        request.work_to("plan")
        request.work(complete(target="design_advice", plan=PLAN))
        request.work(complete(target="architecture_advice"))
        self.assertEqual(("architecture_advice", "advice"), due(request.work(complete())))
        self.assertEqual(("architect_guidance", "next"), due(request.decide()))

    def test_advice_before_there_is_a_plan_leads_back_to_the_planner(self) -> None:
        """Nothing is ever built without a plan."""
        request = Request()
        request.work_to("plan")
        request.work(complete(target="design_advice"))
        request.work(complete())
        self.assertEqual(("plan", "next"), due(request.decide()))

    def test_visits_are_counted_per_step(self) -> None:
        """The second review is visit 2."""
        request = Request()
        request.work_to("review")
        request.work(reopen("implementation", verdict="fail"))
        request.work()
        found = request.decide()
        assert isinstance(found, Step)
        self.assertEqual(("review", 2), (found.step, found.visit))

    def test_a_turn_that_was_begun_is_pending(self) -> None:
        """The same turn again, neither counted nor bounded anew."""
        request = Request(config=budgets(turns=1))
        first = request.decide()
        assert isinstance(first, Step)
        request.delegate(first)
        self.assertEqual(Step("research", "research", 1, "start", pending=True), request.decide())


class ReopenTest(WorkflowCase):
    """The ways back."""

    def test_reopens_follow_the_table(self) -> None:
        """Every step that may reopen, every category, both profiles."""
        late = {"full": ("build", "revise", "qa", "version_control"), "lean": ("build", "qa", "version_control")}
        places = [(profile, step) for profile, steps in late.items() for step in steps]
        for (profile, step), category in itertools.product(places, PROFILES["full"].reopen):
            with self.subTest(profile=profile, step=step, category=category):
                request = at_step(profile, step)
                request.work(reopen(category, verdict="fail"))
                expected = (PROFILES[profile].reopen[category], f"reopen:{category}")
                self.assertEqual(expected, due(request.decide()))

    def test_a_failed_review_is_revised(self) -> None:
        """Implementation and verification go to the developer as a revision; the rest are reopens."""
        for category, target in PROFILES["full"].reopen.items():
            with self.subTest(category):
                request = at_step("full", "review")
                request.work(reopen(category, verdict="fail"))
                cause = "revise" if target == "revise" else f"reopen:{category}"
                self.assertEqual((target, cause), due(request.decide()))

    def test_what_has_not_been_reached_cannot_be_gone_back_to(self) -> None:
        """Before anything is built, or planned, the work goes to the planner."""
        request = at_step("full", "architect_guidance")
        request.work(reopen("implementation"))
        self.assertEqual(("plan", "reopen:implementation"), due(request.decide()))
        request = at_step("full", "plan")
        request.work(complete(target="design_advice"))
        request.work(reopen("architecture"))
        self.assertEqual(("plan", "reopen:architecture"), due(request.decide()))

    def test_only_a_pass_passes(self) -> None:
        """A review or QA without a pass never goes on, whatever its outcome says."""
        for step in ("review", "qa"):
            for verdict in ("fail", None, "PASS"):
                with self.subTest(step=step, verdict=verdict):
                    request = at_step("full", step)
                    request.work(complete(verdict=verdict))
                    self.assertEqual("revise", due(request.decide())[0])

    def test_an_unknown_category_counts_as_implementation(self) -> None:
        """It is bounded like any other."""
        request = at_step("full", "qa")
        request.work(reopen(None, verdict="fail"))
        self.assertEqual(("revise", "reopen:implementation"), due(request.decide()))


class TreeTest(WorkflowCase):
    """QA's verdict holds for the tree that it judged."""

    def test_a_changed_tree_goes_back_to_qa(self) -> None:
        """Before the version controller, while it works, after it, and before the commit."""
        for moment in ("before", "pending", "after"):
            with self.subTest(moment):
                request = Request("lean")
                step = request.work_to("version_control")
                if moment == "pending":
                    request.delegate(step)
                if moment == "after":
                    request.work()
                request.tree = "changed"
                self.assertEqual(("qa", "stale"), due(request.decide()))
                request.work()
                self.assertEqual("version_control", request.work().step)
                self.assertEqual("commit", due(request.decide())[0])

    def test_without_a_tree_nothing_is_held_against_it(self) -> None:
        """A caller that only looks need not compute one."""
        request = Request("lean")
        request.work_to("version_control")
        self.assertEqual("version_control", due(decide(request.head, request.config))[0])

    def test_a_stale_verdict_counts_as_a_reopen(self) -> None:
        """A tree that never stands still ends in a question."""
        request = Request("lean", limits(reopens=1))
        request.work_to("version_control")
        request.tree = "t1"
        request.work()
        request.tree = "t2"
        self.waits(request, "limit:reopens")

    def test_a_prepared_commit_is_finished(self) -> None:
        """Its tree was judged; what happens to the worktree afterwards does not matter."""
        request = Request("lean")
        request.work_to("version_control")
        request.work()
        self.assertEqual(Step("commit", None, 1, "next"), request.decide())
        request.event("commit_prepared", branch="teams/x", base="b", tree=request.tree, paths=["a"], message="m")
        request.tree = "changed"
        self.assertEqual(Step("commit", None, 1, "next", pending=True), request.decide())
        request.work()
        self.assertEqual(Done("completed", "committed ffffffffffff on teams/x"), request.decide())


class LimitTest(WorkflowCase):
    """Each limit, its question, and what a person's answer gives."""

    def test_the_last_failed_review_waits_at_once(self) -> None:
        """A revision that nobody may review would be in vain."""
        request = at_step("full", "review", limits(reviews=1))
        request.work(reopen("implementation", verdict="fail"))
        asked = self.waits(request, "limit:reviews")
        for words in ("used 1 reviews", "workflow.limits.reviews is 1", "`continue` allows one review more", "`stop`"):
            self.assertIn(words, asked.question)
        self.assertEqual(("continue", "stop"), asked.choices)

    def test_continue_allows_one_review_more(self) -> None:
        """One revision and one review, then the question comes again and says what was granted."""
        request = at_step("full", "review", limits(reviews=1))
        request.work(reopen("implementation", verdict="fail"))
        request.ask(self.waits(request, "limit:reviews"))
        request.answer()
        self.assertEqual(("revise", "revise"), due(request.work()))
        self.assertEqual("review", request.work(reopen("implementation", verdict="fail")).step)
        self.assertIn("is 1, 1 more were allowed", self.waits(request, "limit:reviews").question)

    def test_work_sent_back_by_others_needs_a_review_too(self) -> None:
        """QA's reopen after the last review waits before the revision."""
        request = at_step("full", "qa", limits(reviews=1))
        request.work(reopen("verification", verdict="fail"))
        self.waits(request, "limit:reviews")

    def test_reopens_are_limited(self) -> None:
        """Whoever sends the work back."""
        request = at_step("lean", "qa", limits(reopens=1))
        request.work(reopen("implementation", verdict="fail"))
        request.work_to("qa", 2)
        request.work(reopen("scope", verdict="fail"))
        request.ask(self.waits(request, "limit:reopens"))
        request.answer()
        self.assertEqual(("plan", "reopen:scope"), due(request.decide()))

    def test_advice_is_limited(self) -> None:
        """The third advice step waits, before or after there is a plan."""
        request = at_step("full", "plan")
        for step in ("plan", "design_advice") * 2:
            self.assertEqual(step, request.work(complete(target="design_advice" if step == "plan" else None)).step)
        request.work(complete(target="architecture_advice"))
        self.waits(request, "limit:advice")

    def test_every_budget_waits_and_is_granted_again(self) -> None:
        """What is spent counts, known amounts only; `continue` allows the whole amount once more."""
        spent: dict[str, Any] = {"calls": 3, "tokens": 500, "cost_usd": 0.25, "seconds": 120.0}
        cases: dict[str, Any] = {"turns": 1, "calls": 3, "tokens": 500, "cost_usd": 0.25, "minutes": 2.0}
        for budget, value in cases.items():
            with self.subTest(budget):
                request = Request("lean", budgets(**{budget: value}))
                request.work(complete(plan=PLAN, spent=spent))
                asked = self.waits(request, f"budget:{budget}")
                self.assertIn(f"workflow.budgets.{budget} is {value:g}.", asked.question)
                request.ask(asked)
                request.answer()
                self.assertEqual("build", request.work(complete(spent=spent)).step)
                self.waits(request, f"budget:{budget}")

    def test_unknown_amounts_and_null_budgets_bound_nothing(self) -> None:
        """Providers that tell no tokens spend none."""
        request = Request("lean", budgets(tokens=1, turns=None, calls=None, minutes=None))
        self.assertEqual("completed", request.finish().status)

    def test_stop_cancels(self) -> None:
        """Any question can be answered with it."""
        request = at_step("full", "review", limits(reviews=1))
        request.work(reopen("implementation", verdict="fail"))
        request.ask(self.waits(request, "limit:reviews"))
        request.answer("stop")
        self.assertEqual(Done("cancelled", "a person answered stop"), request.decide())

    def test_a_role_cannot_raise_a_limit(self) -> None:
        """An event that a role could cause, or one that only looks like an answer, grants nothing."""
        request = at_step("full", "review", limits(reviews=1))
        forged = {"role": "requester", "status": "answered", "choice": "continue", "question_seq": request.seq + 1}
        request.work(reopen("implementation", verdict="fail", granted={"reviews": 9}, workflow={"granted": 9}))
        request.ask(self.waits(request, "limit:reviews"))
        for actor in ("architect", "orchestrator"):
            request.event("answered", actor, **forged | {"question_seq": request.head["question"]["seq"]})
        request.event("role_report", "architect", **forged)
        self.assertEqual(("waiting", {}), (request.head["status"], request.head["workflow"]["granted"]))


class StopTest(WorkflowCase):
    """Turns that do not lead on, and ends."""

    def test_a_blocked_role_asks_a_person_and_gets_the_step_again(self) -> None:
        """The question holds its own words; the second turn's cause is the answer."""
        request = at_step("full", "build")
        request.work(complete(status="blocked", error="which database?"))
        asked = self.waits(request, "blocked")
        self.assertIn("developer cannot go on with build alone: which database?", asked.question)
        request.ask(asked)
        request.answer()
        self.assertEqual(Step("build", "developer", 2, "answer"), request.decide())

    def test_a_retry_is_one_turn(self) -> None:
        """Blocked again asks again."""
        request = at_step("full", "build")
        for _ in range(2):
            request.work(complete(status="blocked", error="no"))
            request.ask(self.waits(request, "blocked"))
            request.answer()
        self.assertEqual(("build", "answer"), due(request.decide()))

    def test_long_words_of_a_role_are_cut(self) -> None:
        """A question stays readable."""
        request = at_step("full", "build")
        request.work(complete(status="blocked", error="x" * 50_000))
        self.assertLess(len(self.waits(request, "blocked").question), 1300)

    def test_a_role_that_gives_up_fails_the_request(self) -> None:
        """Its reason is the end's."""
        request = at_step("lean", "build")
        request.work(complete(status="failed", error="no compiler"))
        self.assertEqual(Done("failed", "developer gave up at build: no compiler"), request.decide())

    def test_a_failed_turn_waits_with_its_kind(self) -> None:
        """Contract and provider failures are told apart; `continue` tries again."""
        for kind, reason, words in (
            ("contract", "contract", "breaks its contract"),
            ("quota", "provider:quota", "r\n"),
        ):
            with self.subTest(kind):
                request = at_step("full", "build")
                step = request.decide()
                assert isinstance(step, Step)
                request.delegate(step)
                request.fail(step, kind)
                asked = self.waits(request, reason)
                self.assertIn(words, asked.question)
                request.ask(asked)
                request.answer()
                self.assertEqual(("build", "answer"), due(request.decide()))

    def test_a_budget_question_in_between_does_not_lose_the_retry(self) -> None:
        """After both answers the step runs again."""
        request = at_step("full", "build", budgets(turns=4))
        request.work(complete(status="blocked", error="no"))
        for reason in ("blocked", "budget:turns"):
            request.ask(self.waits(request, reason))
            request.answer()
        self.assertEqual(("build", "answer"), due(request.decide()))

    def test_a_retried_review_is_counted_once(self) -> None:
        """A provider that failed has not reviewed anything."""
        request = at_step("full", "review", limits(reviews=1))
        request.work(complete(status="blocked", error="no"))
        request.ask(self.waits(request, "blocked"))
        request.answer()
        self.assertEqual(("review", "answer"), due(request.work()))
        self.assertEqual(("qa", "next"), due(request.decide()))

    def test_a_git_question_leaves_the_step_where_it_was(self) -> None:
        """A turn that was begun stays begun."""
        request = at_step("full", "build")
        step = request.decide()
        assert isinstance(step, Step)
        request.delegate(step)
        request.ask(Wait("git", "?", ("continue", "stop")))
        request.answer()
        self.assertEqual(Step("build", "developer", 1, "next", pending=True), request.decide())

    def test_an_open_question_stands(self) -> None:
        """Deciding again gives the same question."""
        request = Request(config=budgets(turns=1))
        request.work()
        asked = self.waits(request, "budget:turns")
        request.ask(asked)
        self.assertEqual(asked, request.decide())

    def test_an_end_stands(self) -> None:
        """With the reason that it was given."""
        for status in ("completed", "failed", "cancelled"):
            with self.subTest(status):
                request = Request()
                request.event(status, reason="because")
                self.assertEqual(Done(status, "because"), request.decide())

    def test_a_step_that_the_profile_lacks_waits(self) -> None:
        """A record of another version is not guessed at."""
        head = fold([{"type": "delegated", "payload": {"step": "dance", "target": "dancer"}}])
        found = decide(head, WorkflowConfig())
        assert isinstance(found, Wait)
        self.assertEqual(("workflow", ("stop",)), (found.reason, found.choices))


def at_step(profile: str, step: str, config: WorkflowConfig | None = None) -> Request:
    """A request at which that step is due; `revise` after one failed review."""
    request = Request(profile, config)
    if step == "revise":
        request.work_to("review")
        request.work(reopen("implementation", verdict="fail"))
    request.work_to(step)
    return request


if __name__ == "__main__":
    unittest.main()
