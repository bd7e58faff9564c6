"""How strictly an answer is read: what is refused, with which issue at which place, and what is taken as it is."""

from __future__ import annotations

import json
import unittest
from typing import Any

from teams_runtime.shared.errors import ContractError
from teams_runtime.tests.role_answers import CONTEXTS, PARTS, REOPEN, answer, issues, parse, pointers
from teams_runtime.workflows.roles.contract import MAX_ANSWER_CHARACTERS, STEP_ROLES, PromptKind, placeholders
from teams_runtime.workflows.roles.issues import MAX_ISSUES
from teams_runtime.workflows.roles.parsing import parse_answer

GOOD = json.dumps(answer("build"))


def with_proposals(inner: str) -> str:
    """The text of a valid answer whose proposals are the given JSON text."""
    return GOOD[:-1] + f', "proposals": {inner}}}'


class Around(unittest.TestCase):
    def test_one_object_is_taken_bare_or_alone_in_one_fence(self) -> None:
        for text in (
            GOOD, f"\ufeff {GOOD}\r\n", f"```json\n{GOOD}\n```",
            f"\n```\n{GOOD}\n```\n", f"```JSON \r\n{GOOD}\r\n  ```",
            f"```json\n\ufeff{json.dumps(answer('build'), indent=2)}```",
        ):  # fmt: skip
            with self.subTest(text[:12]):
                self.assertEqual([], issues(text))

    def test_a_fence_inside_a_string_ends_nothing(self) -> None:
        text = json.dumps(answer("build", summary="see\n```json\n{}\n```"))
        self.assertEqual("see\n```json\n{}\n```", parse(f"```json\n{text}\n```", "build").summary)

    def test_anything_else_is_refused_with_the_reason(self) -> None:
        for text, reason in (
            ("", "got an empty text"),
            ("\ufeff \n", "got an empty text"),
            ("```json\n\n```", "got an empty text"),
            (f"Here it is: {GOOD}", "got text before it: 'Here it is: '"),
            (f"Here it is:\n```json\n{GOOD}\n```", r"got text before it: 'Here it is:\n```json\n'"),
            (f"{GOOD}\nDone.", "got text after it: 'Done.'"),
            (f"```json\n{GOOD}\n```\nDone.", "got text before it"),
            (f"{GOOD}\n{GOOD}", "got a second object after it"),
            (f'{{"status": "completed"}}\n\n{GOOD}', "got a second object after it"),
            (f"```json\n{{}}\n```\n```json\n{GOOD}\n```", "got text after it"),
            (GOOD[1:], 'got a fragment that starts with \'"request_id": '),
            (GOOD[:-1], "got no valid JSON: Expecting ',' delimiter, line 1 column"),
            (f"[{GOOD}]", "must be a JSON object, got a list"),
            ("null", "must be a JSON object, got null"),
            ('"completed"', "must be a JSON object, got 'completed'"),
            ("I cannot do that.", "got no valid JSON: Expecting value, line 1 column 1"),
            (GOOD.replace('"', "'"), "got no valid JSON: Expecting property name"),
            (GOOD.replace("Done.", "Do\nne."), "got no valid JSON: Invalid control character"),
        ):
            with self.subTest(reason=reason, text=text[:20]):
                self.assertEqual(1, len(issues(text)))
                self.assertTrue(issues(text)[0].startswith('"": must be '), issues(text))
                self.assertIn(reason, issues(text)[0])

    def test_an_inner_object_alone_misses_the_required_keys(self) -> None:
        found = pointers({"outcome": "complete"})
        self.assertEqual(["/request_id", "/role", "/status", "/summary", "/outcome"], found)


class Values(unittest.TestCase):
    def test_a_repeated_key_is_refused_where_it_stands(self) -> None:
        for inner, where in (
            ('{"a": 1, "a": 1}', "/proposals/a"),
            ('{"a": [0, {"b/c": 1, "b/c": 2}]}', "/proposals/a/1/b~1c"),
        ):
            self.assertEqual([f"{where}: must stand once, got the key twice"], issues(with_proposals(inner)))
        self.assertEqual(["/status"], pointers('{"status": "failed",' + GOOD[1:]))

    def test_numbers_without_a_json_value_are_refused_where_they_stand(self) -> None:
        for number, reason in (
            ("NaN", "must be a JSON value, got NaN"),
            ("-Infinity", "must be a JSON value, got -Infinity"),
            ("1e999", "must be a number that fits into 64 bits, got '1e999'"),
            ("9" * 4301, "must be a number of at most 4300 digits, got 4301"),
            ("-" + "9" * 5000, "must be a number of at most 4300 digits, got 5000"),
        ):
            with self.subTest(reason):
                self.assertEqual([f"/proposals/n: {reason}"], issues(with_proposals(f'{{"n": {number}}}')))

    def test_large_numbers_and_lone_surrogates_survive(self) -> None:
        text = with_proposals(f'{{"n": {"9" * 4300}, "\\ud800": "\\udfff"}}').replace("Done.", "Done \\ud83d.")
        result = parse(text, "build")
        self.assertEqual({"n": int("9" * 4300), "\ud800": "\udfff"}, result.payload["proposals"])
        self.assertEqual("Done \ud83d.", result.summary)

    def test_deep_nesting_is_refused_and_never_a_crash(self) -> None:
        for text in (
            "[" * 50_000,
            '{"a":' * 9_000,
            with_proposals('{"a":' + "[" * 49 + "]" * 49 + "}"),
            '{"a":["]",' * 51,
        ):
            with self.subTest(text[:8]):
                self.assertEqual(['"": must nest at most 50 objects and lists, got more'], issues(text))
        self.assertEqual([], issues(with_proposals('{"a":' + "[" * 48 + "]" * 48 + "}")))

    def test_brackets_in_strings_are_no_nesting(self) -> None:
        self.assertEqual([], issues(answer("build", summary='\\"' + "[{" * 200)))

    def test_an_answer_over_the_limit_is_refused_by_its_size_alone(self) -> None:
        filler = "x" * (MAX_ANSWER_CHARACTERS - len(GOOD))
        self.assertEqual([], issues(GOOD.replace("Done.", "Done." + filler)))
        found = issues(GOOD.replace("Done.", "Done.." + filler))
        self.assertEqual(['"": must be at most 60000 characters, got 60001; put bulk into a file'], found)


class Shape(unittest.TestCase):
    def test_wrong_types_and_missing_keys_are_told_all_at_once(self) -> None:
        value = {
            "request_id": 7, "role": "developer", "status": "done", "insights": ["a", 1, " "], "artifacts": None,
            "proposals": [], "error": {}, "transition": {"outcome": True, "reason": 3},
        }  # fmt: skip
        self.assertEqual(
            [
                "/request_id: must be a string, got 7",
                "/status: must be one of 'completed', 'blocked' or 'failed', got 'done'",
                "/summary: must be there, got nothing",
                "/insights/1: must be a string, got 1",
                "/insights/2: must not be blank, got ' '",
                "/artifacts: must be a list, got null",
                "/proposals: must be an object, got a list",
                "/error: must be a string, got an object",
                "/transition/outcome: must be one of 'complete' or 'reopen', got true",
                "/transition/reason: must be a string, got 3",
            ],
            issues(value),
        )

    def test_a_wrong_key_hides_no_broken_rule_of_another_key(self) -> None:
        found = pointers(answer("qa", insights=3, evidence_matrix=[], error="x", request_id="req-2"), "qa")
        self.assertEqual(["/insights", "/request_id", "/error", "/evidence_matrix"], found)

    def test_an_unknown_key_is_named_with_the_allowed_and_the_nearest(self) -> None:
        found = issues(answer("plan", sumary="x", plan={**PARTS["plan"]["plan"], "paths_": []}), "plan")
        self.assertEqual(2, len(found))
        self.assertEqual(
            "/plan/paths_: must not be there: an unknown key; did you mean 'paths'? "
            "allowed are goal, steps, acceptance, paths",
            found[0],
        )
        self.assertRegex(found[1], r"^/sumary: .*did you mean 'summary'\? allowed are request_id, .*transition, plan$")
        steps = [{"title": "t", "detail": "", "why": 1}]
        nested = issues(answer("plan", plan={**PARTS["plan"]["plan"], "steps": steps}), "plan")
        self.assertEqual(["/plan/steps/0/why: must not be there: an unknown key; allowed are title, detail"], nested)

    def test_another_roles_part_is_an_unknown_key(self) -> None:
        self.assertEqual(["/verdict"], pointers(answer("build", verdict=None)))
        self.assertEqual(["/commit"], pointers(answer("qa", commit=PARTS["version_control"]["commit"]), "qa"))

    def test_parts_that_must_hold_something_do(self) -> None:
        for step, part, key, value, where in (
            ("plan", "plan", "goal", " ", "/plan/goal"),
            ("plan", "plan", "steps", [], "/plan/steps"),
            ("plan", "plan", "acceptance", [], "/plan/acceptance"),
            ("version_control", "commit", "message", "\n", "/commit/message"),
            ("research", "research", "needed", "yes", "/research/needed"),
            ("research", "research", "reason_code", "other", "/research/reason_code"),
        ):
            with self.subTest(where):
                self.assertEqual([where], pointers(answer(step, **{part: {**PARTS[step][part], key: value}}), step))

    def test_issues_are_single_bounded_lines_and_not_endless(self) -> None:
        long = "k\n/~" + "x" * 500
        found = issues({**answer("build", status="\x00\u2028\ud800" + "y" * 500), long: 1, "insights": [0] * 5000})
        self.assertEqual(MAX_ISSUES + 1, len(found))
        self.assertRegex(found[-1], r'^"": \d+ more issues of this kind$')
        self.assertTrue(all(len(line) < 400 and line.isprintable() for line in found), found)
        self.assertIn(r"/status: must be one of 'completed', 'blocked' or 'failed', got '\x00\u2028�yyy", found[0])


class Identity(unittest.TestCase):
    def test_the_answer_is_for_this_request_and_from_this_role(self) -> None:
        self.assertEqual(
            ["/request_id: must be 'req-1', got 'REQ-1'", "/role: must be 'developer', got 'qa'"],
            issues(answer("build", request_id="REQ-1", role="qa")),
        )

    def test_a_step_or_purpose_that_is_not_the_roles_is_a_mistake_of_the_caller(self) -> None:
        for role, step, purpose in (
            ("qa", "build", PromptKind.ROLE_TASK),
            ("developer", "build", PromptKind.VERSION_CONTROL),
            ("developer", "commit", PromptKind.ROLE_TASK),
        ):
            with self.subTest(role, step=step, purpose=purpose), self.assertRaises(ValueError):
                parse_answer(GOOD, role=role, step=step, purpose=purpose, request_id="req-1", context=None)

    def test_a_repair_is_held_against_the_same_contract(self) -> None:
        for step in STEP_ROLES:
            with self.subTest(step):
                self.assertEqual([], issues(answer(step), step, purpose=PromptKind.CONTRACT_REPAIR))


class Placeholders(unittest.TestCase):
    def test_every_placeholder_is_refused_alone_and_within_a_text(self) -> None:
        for step, role in STEP_ROLES.items():
            for token in placeholders(role):
                with self.subTest(step, token=token):
                    self.assertIn("/summary", pointers(answer(step, summary=token), step))
                    deep = answer(step, proposals={"a": [{"b": f"I say {token}."}]})
                    self.assertEqual(["/proposals/a/0/b"], pointers(deep, step))

    def test_other_angle_brackets_are_text(self) -> None:
        text = "<div> a<b> List<int> <path> <one sentence> <why this outcome"
        self.assertEqual([], issues(answer("build", summary=text, proposals={"<why this outcome>": text})))


class Status(unittest.TestCase):
    def test_an_error_belongs_to_blocked_and_failed_and_to_no_other(self) -> None:
        self.assertEqual(
            ["/error: must be null when the status is 'completed', got 'x'"], issues(answer("build", error="x"))
        )
        for status in ("blocked", "failed"):
            with self.subTest(status):
                self.assertEqual(["/error"], pointers(answer("build", status=status)))
                self.assertEqual(["/error"], pointers(answer("build", status=status, error=" ")))
                self.assertEqual([], issues(answer("build", status=status, error="which database?")))

    def test_a_stopped_answer_needs_no_part_and_gives_no_verdict(self) -> None:
        for step in ("plan", "qa", "research", "version_control"):
            bare = {
                key: value for key, value in answer(step, status="blocked", error="?").items() if key not in PARTS[step]
            }
            with self.subTest(step):
                self.assertEqual([], issues({**bare, "transition": None}, step))
        self.assertEqual(["/verdict"], pointers(answer("qa", status="blocked", error="?"), "qa"))
        self.assertEqual(
            ["/transition/outcome"], pointers(answer("build", status="failed", error="?", transition=REOPEN))
        )


class Transitions(unittest.TestCase):
    def test_left_out_it_means_complete(self) -> None:
        value = answer("build")
        del value["transition"]
        self.assertEqual("complete", parse(json.dumps(value), "build").outcome)

    def test_a_reopen_needs_category_reason_and_items(self) -> None:
        self.assertEqual([], issues(answer("build", transition=REOPEN)))
        for key, value in (("reopen_category", None), ("reason", " "), ("unresolved_items", [])):
            with self.subTest(key):
                self.assertEqual([f"/transition/{key}"], pointers(answer("build", transition={**REOPEN, key: value})))
        self.assertEqual(3, len(issues(answer("build", transition={"outcome": "reopen"}))))

    def test_a_category_without_a_reopen_is_refused(self) -> None:
        value = answer("build", transition={"outcome": "complete", "reopen_category": "scope"})
        self.assertEqual(["/transition/reopen_category: must be null without a reopen, got 'scope'"], issues(value))

    def test_the_first_steps_send_nothing_back(self) -> None:
        for step in ("research", "plan"):
            self.assertEqual(["/transition/outcome"], pointers(answer(step, transition=REOPEN), step))

    def test_a_step_may_be_asked_for_only_where_the_workflow_has_it(self) -> None:
        allowed = {
            ("plan", "design_advice"), ("plan", "architecture_advice"), ("design_advice", "architecture_advice"),
        }  # fmt: skip
        for step in STEP_ROLES:
            for target in ("design_advice", "architecture_advice"):
                value = answer(step, transition={"outcome": "complete", "target_step": target})
                with self.subTest(step, target=target):
                    expected = [] if (step, target) in allowed else ["/transition/target_step"]
                    self.assertEqual(expected, pointers(value, step))
                    self.assertEqual(["/transition/target_step"], pointers(value, step, profile="lean"))

    def test_a_step_is_asked_for_only_by_a_completed_answer_that_sends_nothing_back(self) -> None:
        asked = {"target_step": "architecture_advice"}
        reopened = answer("design_advice", transition={**REOPEN, **asked})
        self.assertEqual(["/transition/target_step"], pointers(reopened, "design_advice"))
        stopped = answer("plan", status="blocked", error="?", transition={"outcome": "complete", **asked})
        self.assertEqual(["/transition/target_step"], pointers(stopped, "plan"))

    def test_a_plan_is_needed_unless_advice_is_asked_for(self) -> None:
        self.assertEqual(["/plan"], pointers(answer("plan", plan=None), "plan"))
        transition = {"outcome": "complete", "target_step": "design_advice"}
        self.assertEqual([], issues(answer("plan", plan=None, transition=transition), "plan"))


class Verdicts(unittest.TestCase):
    def test_it_goes_with_the_outcome(self) -> None:
        complete = {"outcome": "complete"}
        for step in ("review", "qa"):
            for verdict, transition, expected in (
                ("pass", complete, []), ("fail", REOPEN, []),
                ("pass", REOPEN, ["/verdict"]), ("fail", complete, ["/verdict"]), ("fail", None, ["/verdict"]),
                (None, complete, ["/verdict"]),
            ):  # fmt: skip
                with self.subTest(step, verdict=verdict, transition=transition):
                    value = answer(step, verdict=verdict, transition=transition)
                    self.assertEqual(expected, pointers(value, step))

    def test_the_architect_gives_one_at_the_review_and_nowhere_else(self) -> None:
        for step in ("architecture_advice", "architect_guidance"):
            self.assertEqual([], issues(answer(step, verdict=None), step))
            found = issues(answer(step, verdict="pass"), step)
            self.assertEqual([f"/verdict: must be null at the step {step}, got 'pass'"], found)

    def test_a_pass_holds_no_failed_criterion(self) -> None:
        rows = [*PARTS["qa"]["evidence_matrix"], {"criterion": "c", "evidence": "e", "result": "fail"}]
        self.assertEqual(["/evidence_matrix/1/result"], pointers(answer("qa", evidence_matrix=rows), "qa"))
        value = answer("qa", evidence_matrix=rows, verdict="fail", transition=REOPEN)
        self.assertEqual([], issues(value, "qa"))

    def test_a_completed_test_run_has_evidence(self) -> None:
        self.assertEqual(["/evidence_matrix"], pointers(answer("qa", evidence_matrix=[]), "qa"))

    def test_no_pass_while_the_verification_command_fails(self) -> None:
        for verification, expected in (
            ({"exit_code": 0, "timed_out": False}, None),
            (None, None),
            ({"exit_code": 1, "timed_out": False}, "it ended with exit code 1"),
            ({"exit_code": None, "timed_out": False}, "it ended with exit code null"),
            ({"exit_code": 0, "timed_out": True}, "it ran out of time"),
        ):
            context = {**CONTEXTS["qa"], "verification": verification}
            with self.subTest(verification):
                found = issues(answer("qa"), "qa", context=context)
                wanted = f"/verdict: must be 'fail' when the verification command failed ({expected}), got 'pass'"
                self.assertEqual([wanted] if expected else [], found)
                self.assertEqual([], issues(answer("qa", verdict="fail", transition=REOPEN), "qa", context=context))


class Paths(unittest.TestCase):
    def test_paths_stay_inside_the_worktree(self) -> None:
        for path in ("/etc/passwd", "../x", "a/../../x", "a/..", "..", "C:\\x", "a\0b"):
            with self.subTest(path):
                self.assertEqual(["/artifacts/1"], pointers(answer("build", artifacts=["ok", path])))
                plan = {**PARTS["plan"]["plan"], "paths": [path]}
                self.assertEqual(["/plan/paths/0"], pointers(answer("plan", plan=plan), "plan"))

    def test_odd_names_inside_are_fine(self) -> None:
        self.assertEqual([], issues(answer("build", artifacts=["a b", "-x", "..a", "ü/…", "a/./b", ".", "a\\b"])))


class CommitPart(unittest.TestCase):
    def commit(self, **changes: Any) -> list[str]:
        value = answer("version_control", commit={**PARTS["version_control"]["commit"], **changes})
        return issues(value, "version_control")

    def test_its_paths_are_those_of_the_task(self) -> None:
        self.assertEqual([], self.commit(paths=["pkg/sum.py", "tests/test_sum.py", "pkg/sum.py"]))
        self.assertEqual(
            ["/commit/paths: must be exactly the paths of the task, got none for 'tests/test_sum.py'"],
            self.commit(paths=["pkg/sum.py"]),
        )
        extra = ["pkg/sum.py", "tests/test_sum.py", "a", "b", "c", "d"]
        self.assertEqual(
            ["/commit/paths: must be exactly the paths of the task, got also 'a', 'b', 'c' and 1 more"],
            self.commit(paths=extra),
        )

    def test_its_message_can_be_committed(self) -> None:
        for message, fault in (
            ("x" * 120 + "\n\n" + "y" * 9_878, None),
            ("x" * 121, "must start with a line of 1 to 120 characters, got 121"),
            ("\nx", "must start with a line of 1 to 120 characters, got 0"),
            ("x\n\n" + "y" * 9_998, "must be at most 10000 characters, got 10001"),
            ("x\0", "must hold no NUL character, got one"),
        ):
            with self.subTest(fault):
                self.assertEqual([f"/commit/message: {fault}"] if fault else [], self.commit(message=message))

    def test_it_is_needed_unless_the_work_is_sent_back(self) -> None:
        self.assertEqual(["/commit"], pointers(answer("version_control", commit=None), "version_control"))
        self.assertEqual([], issues(answer("version_control", commit=None, transition=REOPEN), "version_control"))


class ResearchPart(unittest.TestCase):
    def research(self, **changes: Any) -> list[str]:
        return pointers(answer("research", research={**PARTS["research"]["research"], **changes}), "research")

    def test_its_reason_agrees_with_the_decision(self) -> None:
        for needed, code, expected in (
            (True, "needed_external_grounding", []),
            (False, "not_needed_local_evidence", []),
            (False, "not_needed_no_subject", []),
            (True, "not_needed_no_subject", ["/research/reason_code"]),
            (False, "needed_external_grounding", ["/research/reason_code"]),
        ):
            with self.subTest(code, needed=needed):
                self.assertEqual(expected, self.research(needed=needed, reason_code=code))

    def test_a_search_needs_subject_query_and_gap(self) -> None:
        empty = {"subject": "", "query": " ", "knowledge_gap": ""}
        self.assertEqual(["/research/subject", "/research/query", "/research/knowledge_gap"], self.research(**empty))
        self.assertEqual([], self.research(**empty, needed=False, reason_code="not_needed_no_subject"))

    def test_a_completed_decision_is_needed(self) -> None:
        self.assertEqual(["/research"], pointers(answer("research", research=None), "research"))


class Result(unittest.TestCase):
    def test_the_payload_is_the_answer_without_id_and_summary_in_fixed_order(self) -> None:
        value = dict(reversed(answer("qa", insights=["b", "a"]).items()))
        result = parse(json.dumps(value), "qa")
        self.assertEqual(
            [
                "role",
                "status",
                "insights",
                "artifacts",
                "proposals",
                "error",
                "transition",
                "verdict",
                "evidence_matrix",
            ],
            list(result.payload),
        )
        self.assertEqual(
            (["b", "a"], PARTS["qa"]["evidence_matrix"]),
            (result.payload["insights"], result.payload["evidence_matrix"]),
        )

    def test_it_gives_what_the_workflow_asks_for(self) -> None:
        result = parse(json.dumps(answer("qa", verdict="fail", transition=REOPEN, artifacts=["log.txt"])), "qa")
        self.assertEqual(("qa", "completed", "Done."), (result.role, result.status, result.summary))
        self.assertEqual(("reopen", "implementation", "fail"), (result.outcome, result.reopen_category, result.verdict))
        self.assertEqual((None, ("log.txt",)), (result.target_step, result.artifacts))

    def test_what_is_left_out_has_its_default_and_a_stopped_answer_no_outcome(self) -> None:
        value = answer("review", status="blocked", error="which one?", verdict=None)
        del value["transition"]
        payload = parse(json.dumps(value), "review").payload
        self.assertNotIn("verdict", payload)
        self.assertEqual(([], [], {}), (payload["insights"], payload["artifacts"], payload["proposals"]))
        self.assertEqual([None, None, None, "", []], list(payload["transition"].values()))

    def test_every_issue_is_carried_by_the_error(self) -> None:
        with self.assertRaises(ContractError) as caught:
            parse("{}", "build")
        self.assertEqual(4, len(caught.exception.issues))
