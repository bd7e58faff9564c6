"""The head follows from the events alone, whatever the events hold."""

from __future__ import annotations

import copy
import json
import unittest
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teams_runtime.store.fold import fold, fold_one

Event = dict[str, Any]
SPENT = {"calls": 2, "tokens": 100, "cost_usd": None, "seconds": 1.5}
CREATED = {
    "scope": "fix sum()", "body": "off by one", "requester": "requester", "params": {"profile": "full"},
    "sprint_id": "sprint-1", "base": {"commit": "a" * 40, "branch": "main"},
}  # fmt: skip


def history(*steps: tuple[str, Mapping[str, Any]]) -> list[Event]:
    """The events of a request: `created` and then the given types and payloads."""
    events: list[Event] = []
    for seq, (kind, payload) in enumerate((("created", CREATED), *steps), 1):
        actor = payload.get("role", "orchestrator")
        stamp = f"2026-12-01T03:04:{seq:02}.000Z"
        events.append({
            "id": f"e{seq}", "seq": seq, "timestamp": stamp, "type": kind, "actor": actor, "summary": f"s{seq}",
            "payload": dict(payload),
        })  # fmt: skip
    return events


def delegated(step: str, target: str = "developer", cause: str = "next", **more: Any) -> tuple[str, dict[str, Any]]:
    """A delegation."""
    return "delegated", {"target": target, "step": step, "visit": 1, "cause": cause, **more}


def report(step: str, role: str = "developer", **more: Any) -> tuple[str, dict[str, Any]]:
    """A role's report."""
    base = {"role": role, "status": "completed", "step": step, "visit": 1, "tree": "t1", "spent": SPENT}
    return "role_report", base | {"transition": {"outcome": "complete"}} | more


def question(reason: str, choices: tuple[str, ...] = ("continue", "stop")) -> tuple[str, dict[str, Any]]:
    """A question to a person."""
    return "waiting", {"reason": reason, "question": "?", "choices": list(choices), "step": "build"}


def answer(seq: int, choice: str = "continue", role: str = "requester") -> tuple[str, dict[str, Any]]:
    """A person's answer to the question of event `seq`."""
    return "answered", {"role": role, "status": "answered", "choice": choice, "text": "", "question_seq": seq}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = ("step", "target", "cause", "role", "status", "spent", "context", "transition", "tree", "choice", "choices",
         "question_seq", "reason", "params", "base", "plan", "artifacts", "verdict", "sha", "paths")  # fmt: skip
WORDS = ("review", "qa", "build", "stale", "reopen:scope", "requester", "planner", "continue", "limit:reviews", "pass")
KINDS = ("created", "delegated", "role_report", "turn_failed", "waiting", "answered", "resumed", "cancelled",
         "commit_prepared", "commit_recorded", "completed", "failed", "other")  # fmt: skip
SPENDING = st.dictionaries(st.sampled_from(("calls", "tokens", "cost_usd", "seconds")), JSON, max_size=4)
PAYLOADS = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(WORDS) | SPENDING | JSON | st.just(["continue"]), max_size=8
)
EVENTS = st.lists(
    JSON
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(KINDS) | JSON,
            "payload": PAYLOADS | JSON,
            "seq": st.integers(1, 4) | JSON,
            "actor": st.sampled_from(("ada", "qa")) | JSON,
            "timestamp": st.text(max_size=3) | JSON,
            "summary": JSON,
        },
    ),
    max_size=8,
)


def text(value: object) -> str:
    """A value as JSON text, so that NaN equals NaN and 1 does not equal true."""
    return json.dumps(value, sort_keys=True)


class FoldPropertyTest(unittest.TestCase):
    """Rules that hold for every list of JSON values."""

    @settings(max_examples=150, deadline=None)
    @given(EVENTS)
    def test_any_list_of_json_values_folds_and_is_not_changed(self, events: list[Any]) -> None:
        """Nothing an event can hold raises, and the head is JSON of always the same keys."""
        before = text(events)
        head = fold(events)
        self.assertEqual(before, text(events))
        self.assertEqual(list(fold([])), list(json.loads(json.dumps(head))))

    @settings(max_examples=80, deadline=None)
    @given(EVENTS, EVENTS)
    def test_a_fold_can_be_continued_from_the_stored_head(self, first: list[Any], then: list[Any]) -> None:
        """`fold(a + b)` is `fold(a)`, written and read again, with the events of `b` taken one by one."""
        stored = json.loads(json.dumps(fold(first)))
        kept, head = text(stored), stored
        for event in then:
            head = fold_one(head, event)
        self.assertEqual(text(fold([*first, *then])), text(head))
        self.assertEqual(kept, text(stored))

    def test_keys_of_a_head_that_the_fold_does_not_know_are_kept(self) -> None:
        """A store adds `schema` and `request_id`; a newer version may have added more."""
        head = fold_one({**fold(history()), "request_id": "r", "colour": 1}, history()[0])
        self.assertEqual(("r", 1), (head["request_id"], head["colour"]))


class FoldTest(unittest.TestCase):
    """What each type of event does."""

    def test_created_fills_what_never_changes_once(self) -> None:
        """Scope, body, requester, params, sprint and base come from the first `created` only."""
        head = fold(history(("created", CREATED | {"scope": "another"})))
        self.assertEqual({key: CREATED[key] for key in ("scope", "body", "requester", "params", "sprint_id")},
                         {key: head[key] for key in ("scope", "body", "requester", "params", "sprint_id")})  # fmt: skip
        self.assertEqual(("2026-12-01T03:04:01.000Z", "2026-12-01T03:04:02.000Z", "queued"),
                         (head["created_at"], head["updated_at"], head["status"]))  # fmt: skip
        self.assertEqual(("full", CREATED["base"]), (head["workflow"]["profile"], head["workflow"]["base"]))

    def test_a_delegation_opens_a_turn(self) -> None:
        """It counts turn and visit itself, and names the role whose turn it is."""
        head = fold(history(delegated("build", visit=7), delegated("build", context={"tree": "t"})))
        workflow = head["workflow"]
        self.assertEqual(("running", "developer"), (head["status"], head["current_role"]))
        keys = ("open", "step", "visit", "turns", "visits", "context")
        expected = (True, "build", 2, 2, {"build": 2}, {"tree": "t"})
        self.assertEqual(expected, tuple(workflow[key] for key in keys))

    def test_causes_and_steps_count_against_the_limits(self) -> None:
        """A delegation that a person asked for again is counted once; a revise is bounded by its review."""
        cases = {
            ("review", "next"): (1, 0, 0),
            ("review", "answer"): (0, 0, 0),
            ("design_advice", "advice"): (0, 0, 1),
            ("architecture_advice", "advice"): (0, 0, 1),
            ("design_advice", "reopen:ux"): (0, 1, 1),
            ("revise", "revise"): (0, 0, 0),
            ("qa", "stale"): (0, 1, 0),
            ("plan", "reopen:scope"): (0, 1, 0),
        }
        for (step, cause), expected in cases.items():
            with self.subTest(step=step, cause=cause):
                workflow = fold(history(delegated(step, cause=cause)))["workflow"]
                self.assertEqual(expected, tuple(workflow[key] for key in ("reviews", "reopens", "advice")))

    def test_a_report_closes_its_turn_and_is_the_result(self) -> None:
        """The newest report is the head's result, with the seq of its event; what it spent is added up."""
        head = fold(history(delegated("build"), report("build"), delegated("revise"), report("revise", extra=1)))
        self.assertEqual(({"seq": 5, "summary": "s5"} | report("revise", extra=1)[1], None),
                         (head["result"], head["current_role"]))  # fmt: skip
        self.assertEqual({"calls": 4, "tokens": 200, "cost_usd": None, "seconds": 3.0}, head["workflow"]["spent"])
        self.assertEqual((False, "revise", "complete"),
                         (head["workflow"]["open"], head["workflow"]["report"]["step"],
                          head["workflow"]["report"]["outcome"]))  # fmt: skip

    def test_a_report_of_another_step_leaves_the_turn_open(self) -> None:
        """A late report does not end the turn that is going on, and says nothing about it; it is paid for."""
        workflow = fold(history(delegated("build"), report("plan")))["workflow"]
        self.assertEqual((True, None, 2), (workflow["open"], workflow["report"], workflow["spent"]["calls"]))

    def test_the_judged_tree_is_the_one_that_was_verified(self) -> None:
        """QA's pass binds to the tree of its task, else to the one after its turn; a fail keeps the older one."""
        shown = delegated("qa", "qa", context={"tree": "seen"})
        self.assertEqual("seen", fold(history(shown, report("qa", "qa", verdict="pass")))["workflow"]["qa_tree"])
        blind = history(delegated("qa", "qa"), report("qa", "qa", verdict="pass"))
        self.assertEqual("t1", fold(blind)["workflow"]["qa_tree"])
        failing = history(delegated("qa", "qa"), report("qa", "qa", verdict="fail"))
        self.assertIsNone(fold(failing)["workflow"]["qa_tree"])

    def test_the_newest_planner_report_says_whether_there_is_a_plan(self) -> None:
        """A planner who asks for advice first has none yet."""
        for plan, expected in (({"goal": "g"}, True), (None, False)):
            with self.subTest(plan=plan):
                events = history(delegated("plan", "planner"), report("plan", "planner", plan=plan))
                self.assertEqual(expected, fold(events)["workflow"]["planned"])

    def test_a_failed_turn_is_closed_and_spent(self) -> None:
        """Its kind and remedy stay until the step is delegated again."""
        failed = (
            "turn_failed",
            {"target": "developer", "step": "build", "kind": "quota", "remedy": "r", "spent": SPENT},
        )
        workflow = fold(history(delegated("build"), failed))["workflow"]
        self.assertEqual({"step": "build", "kind": "quota", "remedy": "r"}, workflow["failure"])
        self.assertEqual((False, 2), (workflow["open"], workflow["spent"]["calls"]))
        again = fold(history(delegated("build"), failed, delegated("build", cause="answer")))
        self.assertIsNone(again["workflow"]["failure"])

    def test_only_counts_and_amounts_are_spent(self) -> None:
        """A bool, a negative, NaN, infinity, a text and a number beyond all measure spend nothing."""
        for odd in (True, -1, float("nan"), float("inf"), "9", 10**400, None):
            with self.subTest(odd=odd):
                spent = dict.fromkeys(("calls", "tokens", "cost_usd", "seconds"), odd)
                found = fold(history(delegated("build"), report("build", spent=spent)))["workflow"]["spent"]
                self.assertEqual({"calls": 0, "tokens": None, "cost_usd": None, "seconds": 0.0}, found)

    def test_an_answer_grants_what_the_question_asked_for(self) -> None:
        """A limit or budget is granted, a stopped step is tried again, a git question gives neither."""
        cases: dict[str, tuple[dict[str, int], bool]] = {
            "limit:reviews": ({"reviews": 1}, False),
            "budget:turns": ({"turns": 1}, False),
            "limit:turns": ({}, True),
            "blocked": ({}, True),
            "provider:quota": ({}, True),
            "git": ({}, False),
        }
        for reason, expected in cases.items():
            with self.subTest(reason=reason):
                head = fold(history(question(reason), answer(2)))
                self.assertEqual(expected, (head["workflow"]["granted"], head["workflow"]["retry"]))
                self.assertEqual(("running", None), (head["status"], head["question"]))

    def test_a_stop_is_kept_and_grants_nothing(self) -> None:
        """The workflow then ends the request."""
        head = fold(history(question("limit:reviews"), answer(2, "stop")))
        self.assertEqual(({}, True), (head["workflow"]["granted"], head["workflow"]["stop"]))

    def test_only_a_persons_answer_to_the_open_question_counts(self) -> None:
        """An outdated seq, an unknown choice, a role's name or actor, or no question at all: nothing changes."""
        asked = question("limit:reviews")
        by_role = history(asked, answer(2))
        by_role[-1]["actor"] = " QA "
        unsigned = history(asked, answer(2))
        unsigned[-1]["payload"]["role"] = "developer"
        cases = {
            "outdated": history(asked, answer(1)),
            "unknown choice": history(asked, answer(2, "more")),
            "role in payload": history(asked, answer(2, role="qa")),
            "role as actor": by_role,
            "a person without the role of one": unsigned,
            "bool for a number": history(asked, answer(seq=True)),
        }
        for name, events in cases.items():
            with self.subTest(name):
                head = fold(events)
                self.assertEqual(("waiting", {}), (head["status"], head["workflow"]["granted"]))
        self.assertEqual({}, fold(history(answer(2)))["workflow"]["granted"])

    def test_an_answer_counts_once(self) -> None:
        """The second one finds no question."""
        head = fold(history(question("limit:reviews"), answer(2), answer(2)))
        self.assertEqual({"reviews": 1}, head["workflow"]["granted"])

    def test_what_has_ended_stays_ended(self) -> None:
        """No later event but `resumed` changes an end, and a completed request is not even resumed."""
        late = (delegated("build"), question("blocked"), ("failed", {"reason": "x"}))
        for status in ("completed", "cancelled"):
            with self.subTest(status):
                self.assertEqual(status, fold(history((status, {}), *late))["status"])
        self.assertEqual("completed", fold(history(("completed", {}), ("resumed", {})))["status"])
        self.assertEqual("running", fold(history(("cancelled", {}), ("resumed", {})))["status"])

    def test_a_resumed_failure_is_tried_again(self) -> None:
        """Otherwise the same report would end it again."""
        head = fold(history(report("build", status="failed"), ("failed", {"reason": "r"}), ("resumed", {})))
        self.assertEqual(("running", True), (head["status"], head["workflow"]["retry"]))

    def test_a_turn_that_was_cancelled_is_open_again_when_resumed(self) -> None:
        """The role whose turn it is, is named again."""
        events = history(delegated("build"), ("cancelled", {}), ("resumed", {}))
        self.assertIsNone(fold(events[:-1])["current_role"])
        self.assertEqual("developer", fold(events)["current_role"])

    def test_a_commit_is_prepared_and_then_recorded(self) -> None:
        """The prepared payload with a sha that is null until the commit is there."""
        payload = {"branch": "teams/x", "base": "b", "tree": "t", "paths": ["a"], "message": "m",
                   "author": {"name": "n", "email": "e"}, "date": "d"}  # fmt: skip
        prepared = ("commit_prepared", payload)
        self.assertEqual(payload | {"sha": None}, fold(history(prepared))["commit"])
        self.assertEqual("f" * 40, fold(history(prepared, ("commit_recorded", {"sha": "f" * 40})))["commit"]["sha"])

    def test_artifacts_are_listed_once_each_in_order(self) -> None:
        """A path that comes again keeps its place and takes the newer digest; plain names are no references."""

        def ref(path: str, digest: str) -> dict[str, Any]:
            return {"path": path, "sha256": digest, "bytes": 1}

        checked = {"verification": {"artifact": ref("log", "1")}}
        head = fold(history(delegated("qa", context=checked), report("qa", artifacts=[ref("b", "2"), "name"]),
                            delegated("qa", context={"verification": {"artifact": ref("log", "3")}})))  # fmt: skip
        self.assertEqual([ref("log", "3"), ref("b", "2")], head["artifacts"])

    def test_an_unknown_type_changes_only_the_time(self) -> None:
        """Newer versions may write types that this one does not know."""
        before = fold(history())
        after = fold(history(("note", {"status": "failed", "role": "qa"})))
        self.assertEqual(before | {"updated_at": "2026-12-01T03:04:02.000Z"}, after)

    def test_one_more_event_leaves_the_old_head_as_it_was(self) -> None:
        """Every type makes new values where it changes any."""
        artifact = {"path": "p", "sha256": "", "bytes": 1}
        events = history(delegated("build"), report("build"), question("limit:reviews"), answer(4),
                         delegated("qa", context={"verification": {"artifact": artifact}}),
                         ("commit_prepared", {}), ("commit_recorded", {"sha": "s"}), ("completed", {}))  # fmt: skip
        head = fold([])
        for event in events:
            before = copy.deepcopy(head)
            after = fold_one(head, event)
            self.assertEqual(before, head)
            head = after


if __name__ == "__main__":
    unittest.main()
