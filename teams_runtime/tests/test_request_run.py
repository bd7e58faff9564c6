"""The request loop: a team works a real repository, and a run that was cut off goes on where the record ends."""

from __future__ import annotations

import json
import threading
import unittest
from collections.abc import Mapping
from typing import Any

from teams_runtime.git.commit import PreparedCommit, make_commit
from teams_runtime.git.repository import Base
from teams_runtime.git.worktree import Worktree, ensure_worktree
from teams_runtime.shared.errors import InputError
from teams_runtime.store.records import Record
from teams_runtime.tests.team_fixture import BUILD, COMMIT, PLAN, QA, RESEARCH, TEAM, TeamCase, answer, find, reopen
from teams_runtime.workflows.orchestration.request_run import RunObserver
from teams_runtime.workflows.orchestration.team_service import TeamService


class _Killed(BaseException):
    """Stands for the end of the process: nothing below the test catches it."""


class _KilledAfter(RunObserver):
    """Ends the run right after a given event, as a killed process would."""

    def __init__(self, kind: str, number: int = 1) -> None:
        self._kind, self._left = kind, number

    def appended(self, event: Mapping[str, Any]) -> None:
        self._left -= event["type"] == self._kind
        if event["type"] == self._kind and self._left == 0:
            raise _Killed


class WholeRunTest(TeamCase):
    """What a run does from the request to the commit."""

    def test_the_lean_team_ends_with_a_commit_that_mends_the_defect(self) -> None:
        """The branch holds one commit more than the base, and its tree passes the repository's own tests."""
        _, record = self.run_request()
        self.assertEqual("completed", record.head["status"])
        self.assertEqual("1\n", self.git("rev-list", "--count", f"main..{record.head['commit']['branch']}"))
        self.assertIn("sum(values)", self.git("show", f"{record.head['commit']['sha']}:total.py"))

    def test_the_full_team_takes_every_step(self) -> None:
        """The full profile hands the request on in the order of its table."""
        _, record = self.run_request(profile="full")
        steps = [payload["step"] for payload in find(record, "delegated")]
        expected = ["research", "plan", "architect_guidance", "build", "review", "qa", "version_control"]
        self.assertEqual(expected, steps)

    def test_a_search_that_cannot_be_made_is_passed_on_as_a_gap(self) -> None:
        """The request goes on, and the report that the planner is shown says that the gap is open."""
        needed = RESEARCH["answer"]["research"] | {
            "needed": True,
            "reason_code": "needed_external_grounding",
            "subject": "rounding",
            "query": "How do banks round?",
            "knowledge_gap": "the law",
        }
        self.write_script(answer("research", research=needed), *TEAM)
        _, record = self.run_request(profile="full")
        report = find(record, "role_report")[0]
        self.assertFalse(report["deep_research"]["done"])
        self.assertEqual("completed", record.head["status"])

    def test_a_report_of_a_turn_that_writes_says_what_git_shows(self) -> None:
        """Whatever the role says it did; a turn that only reads says nothing of it."""
        self.write_script(PLAN, BUILD, QA, COMMIT)
        _, record = self.run_request()
        reports = {payload["role"]: payload for payload in find(record, "role_report")}
        self.assertEqual({"files": 1, "paths": ["total.py"]}, reports["developer"]["changed"])
        self.assertNotIn("changed", reports["qa"])

    def test_a_role_that_says_it_is_done_and_changed_nothing_is_seen(self) -> None:
        """The claim stands in the record beside what git shows, so that the next role can judge."""
        self.write_script(PLAN, answer("developer"), QA, COMMIT)
        _, record = self.run_request()
        (report,) = (one for one in find(record, "role_report") if one["role"] == "developer")
        self.assertEqual(("completed", 0), (report["status"], report["changed"]["files"]))

    def test_denials_of_one_turn_are_bounded_and_told_once_each(self) -> None:
        """A model can try the same without end; an event stays small."""
        tries = [{"write": {"path": f"../{number:03d}{'x' * 400}", "text": ""}} for number in (*range(80), 0, 0)]
        self.write_script(PLAN, answer("developer", actions=tries), QA, COMMIT)
        _, record = self.run_request()
        (report,) = (one for one in find(record, "role_report") if one["role"] == "developer")
        self.assertEqual((51, "and 30 more"), (len(report["denials"]), report["denials"][-1]))
        self.assertLessEqual(max(map(len, report["denials"])), 301)

    def test_the_users_checkout_is_not_touched(self) -> None:
        """Head, branch, index and files are what they were, a staged and a dirty file included."""
        (self.root / "test_total.py").write_text("# mine\n", encoding="utf-8")
        (self.root / "staged.txt").write_text("mine\n", encoding="utf-8")
        self.git("add", "staged.txt")
        before = self.git("status", "--porcelain=v2", "--branch"), self.git("ls-files", "--stage")
        self.run_request()
        self.assertEqual(before, (self.git("status", "--porcelain=v2", "--branch"), self.git("ls-files", "--stage")))
        self.assertIn("values[1:]", (self.root / "total.py").read_text(encoding="utf-8"))

    def test_qa_is_shown_what_the_runtime_saw(self) -> None:
        """QA's delegation holds the exit code, and the whole output lies in the artifact it names."""
        _, record = self.run_request()
        context = find(record, "delegated", lambda payload: payload["step"] == "qa")[0]["context"]
        self.assertEqual(0, context["verification"]["exit_code"])
        kept = self.root / context["verification"]["artifact"]["path"]
        self.assertIn(b"OK", kept.read_bytes())
        self.assertEqual(record.head["commit"]["tree"], context["tree"])

    def test_nothing_changed_completes_without_a_commit_and_without_a_call(self) -> None:
        """The version controller is not asked when there is nothing to commit."""
        self.write_script(PLAN, answer("developer"), QA, COMMIT)
        self.write_config(repository={"verification_command": []})
        service, record = self.run_request()
        self.assertEqual(("completed", None), (record.head["status"], record.head["commit"]))
        self.assertNotIn(
            "version_controller", [manifest.role for manifest in service.manifests.read(record.request_id)]
        )

    def test_a_failed_verification_cannot_pass(self) -> None:
        """QA's pass over a failing test command breaks the contract, and the request waits for a person."""
        self.write_script(PLAN, answer("developer"), *[QA | {"attempt": attempt} for attempt in range(3)], COMMIT)
        _, record = self.run_request()
        self.assertEqual("contract", record.head["question"]["reason"])
        self.assertIn("verdict", " ".join(find(record, "turn_failed")[0]["issues"]))

    def test_qa_can_send_the_work_back(self) -> None:
        """A failing verdict leads to another build, and the second QA judges another tree."""
        fails = answer("qa", visit=1, verdict="fail", transition=reopen("implementation"), evidence_matrix=[
            {"criterion": "test_total passes", "evidence": "exit code 1", "result": "fail"}])  # fmt: skip
        self.write_script(PLAN, answer("developer", visit=1), BUILD, fails, QA, COMMIT)
        _, record = self.run_request()
        trees = [payload["context"]["tree"] for payload in find(record, "delegated") if payload["step"] == "qa"]
        self.assertEqual("completed", record.head["status"])
        self.assertEqual(2, len(set(trees)))

    def test_what_the_verification_command_leaves_behind_is_not_committed(self) -> None:
        """Files that the test command makes are taken away again."""
        command = ["sh", "-c", "echo x > left-behind.txt"]
        self.write_config(repository={"verification_command": command})
        _, record = self.run_request()
        self.assertEqual(["total.py"], record.head["commit"]["paths"])

    def test_a_role_that_only_reads_cannot_change_the_tree(self) -> None:
        """The scripted provider refuses its edits; a program that writes all the same is undone, and both are told."""
        sneaky = QA | {
            "actions": [
                {"write": {"path": "evil.txt", "text": "x"}},
                {"run": ["sh", "-c", "echo x > sneaky.txt"]},
            ]
        }
        self.write_script(PLAN, BUILD, sneaky, COMMIT)
        _, record = self.run_request()
        denials = find(record, "role_report", lambda payload: payload["role"] == "qa")[0]["denials"]
        self.assertEqual(["total.py"], record.head["commit"]["paths"])
        for name in ("evil.txt", "sneaky.txt"):
            self.assertIn(name, " ".join(denials))

    def test_a_change_outside_the_owned_paths_is_told_and_not_committed(self) -> None:
        """Only declared paths go into the commit."""
        build = BUILD | {"actions": [*BUILD["actions"], {"write": {"path": "other.txt", "text": "x"}}]}
        self.write_script(PLAN, build, QA, COMMIT)
        self.write_config(repository={"owned_paths": ["total.py"]})
        _, record = self.run_request()
        self.assertEqual(["total.py"], record.head["commit"]["paths"])
        context = find(record, "delegated", lambda payload: payload["step"] == "version_control")[0]["context"]
        self.assertEqual(["other.txt"], context["outside"])

    def test_a_link_out_of_the_tree_makes_the_request_wait(self) -> None:
        """What git must not take is a question for a person, not a crash."""
        self.write_script(PLAN, BUILD | {"actions": [{"run": ["ln", "-s", "/etc/passwd", "link"]}]}, QA, COMMIT)
        _, record = self.run_request()
        self.assertEqual(("waiting", "git"), (record.head["status"], record.head["question"]["reason"]))

    def test_a_provider_that_has_no_answer_makes_the_request_wait(self) -> None:
        """A forgotten answer is a failure with its kind, never a made-up answer."""
        self.write_script(PLAN)
        _, record = self.run_request()
        self.assertEqual(("waiting", "provider:not_found"), (record.head["status"], record.head["question"]["reason"]))


class CompactedRunTest(TeamCase):
    """A run whose history is longer than a prompt may show."""

    def setUp(self) -> None:
        super().setUp()
        self.write_config(prompt_context={"recent_events": 2, "max_events": 4})
        self.service_, self.record = self.run_request(profile="full")

    def test_a_read_only_copy_of_the_record_lies_where_the_notice_says(self) -> None:
        """The copy in the worktree is the record up to the stated event, and git does not see it."""
        worktree = self.paths.worktree(self.record.request_id)
        copy = worktree / f".teams_runtime/requests/{self.record.request_id}.json"
        events = json.loads(copy.read_bytes())["events"]
        self.assertEqual(self.record.events[: len(events)], events)
        self.assertEqual(0o400, copy.stat().st_mode & 0o777)
        self.assertNotIn(".teams_runtime", self.git("ls-tree", "-r", "--name-only", self.record.head["commit"]["sha"]))

    def test_every_compacted_prompt_stays_within_the_bound(self) -> None:
        """No prompt shows more events than allowed, and the sizes say what the projection saved."""
        manifests = self.service_.manifests.read(self.record.request_id)
        self.assertGreater(max(manifest.total_events for manifest in manifests), 4)
        self.assertLessEqual(max(manifest.included_events for manifest in manifests), 4)
        last = manifests[-1]
        self.assertLess(last.characters, last.characters_full)

    def test_each_compacted_prompt_has_one_log_line_without_content(self) -> None:
        """The log line names request, purpose and counts."""
        with self.assertLogs("teams_runtime", "INFO") as logs:
            _, record = self.run_request(profile="full")
        lines = [line for line in logs.output if "purpose=version_control" in line]
        self.assertEqual(1, len(lines))
        self.assertIn(record.request_id, lines[0])


class InterruptedRunTest(TeamCase):
    """A run that was killed goes on where its record ends."""

    def killed_after(self, kind: str, number: int = 1) -> tuple[TeamService, str]:
        """Work a request until an event, then end as a killed process would."""
        service = self.service()
        request_id = service.submit("Mend total", profile="lean").request_id
        with self.assertRaises(_Killed):
            service.advance(request_id, _KilledAfter(kind, number))
        return service, request_id

    def resumed(self, request_id: str) -> Record:
        return self.service().advance(request_id, RunObserver())

    def test_every_event_is_a_point_where_a_run_can_stop_and_go_on(self) -> None:
        """Wherever the run was cut off, the record ends with every event once, and one commit."""
        _, whole = self.run_request()
        kinds = self.types(whole)
        for position, kind in enumerate(kinds[1:-1], 1):
            with self.subTest(after=f"{position + 1}. {kind}"):
                _, request_id = self.killed_after(kind, kinds[1 : position + 1].count(kind))
                record = self.resumed(request_id)
                self.assertEqual(kinds, self.types(record))
                self.assertEqual("1\n", self.git("rev-list", "--count", f"main..teams/{request_id}"))

    def test_a_commit_made_but_not_recorded_is_recorded_and_not_repeated(self) -> None:
        """The crash between the commit and its event leaves one commit, recorded once."""
        service, request_id = self.killed_after("commit_prepared")
        record = service.store.load(request_id)
        prepared = PreparedCommit.from_payload(record.head["commit"])
        made = make_commit(self.worktree(service, record), prepared, allow_hooks=False, allow_signing=False)
        record = self.resumed(request_id)
        self.assertEqual(made, record.head["commit"]["sha"])
        self.assertEqual(1, self.types(record).count("commit_recorded"))
        self.assertEqual("1\n", self.git("rev-list", "--count", f"main..teams/{request_id}"))

    def test_a_change_after_qa_makes_its_verdict_stale(self) -> None:
        """QA judges again before the commit when the tree is not the one it passed."""
        _, request_id = self.killed_after("role_report", 3)
        extra = self.paths.worktree(request_id) / "total.py"
        extra.write_text("def total(values):\n    return sum(list(values))\n", encoding="utf-8")
        record = self.resumed(request_id)
        causes = [payload["cause"] for payload in find(record, "delegated") if payload["step"] == "qa"]
        self.assertEqual(["next", "stale"], causes)
        self.assertIn("list(values)", self.git("show", f"{record.head['commit']['sha']}:total.py"))

    def test_a_finished_request_stays_as_it_is(self) -> None:
        """Working on a completed request appends nothing."""
        service, record = self.run_request()
        self.assertEqual(record.seq, service.advance(record.request_id, RunObserver()).seq)

    def test_two_runners_cannot_work_the_same_request(self) -> None:
        """The second one is told, and the first goes on undisturbed."""
        inside = threading.Event()
        refused: list[str] = []

        class Second(RunObserver):
            def delegated(self, role: str, step: str, visit: int, cause: str) -> None:
                if not inside.is_set():
                    inside.set()
                    try:
                        outer.service().advance(request_id, RunObserver())
                    except InputError as error:
                        refused.append(str(error))

        outer, service = self, self.service()
        request_id = service.submit("Mend total", profile="lean").request_id
        record = service.advance(request_id, Second())
        self.assertEqual(1, len(refused))
        self.assertEqual("completed", record.head["status"])

    def test_a_request_cancelled_meanwhile_is_left_cancelled(self) -> None:
        """A report that comes after the end of its request is not recorded."""

        class Cancel(RunObserver):
            def delegated(self, role: str, step: str, visit: int, cause: str) -> None:
                record = service.store.load(request_id)
                event = service.store.new_event("cancelled", actor="requester", summary="no more", payload={})
                service.store.append(request_id, event, expected_seq=record.seq)

        service = self.service()
        request_id = service.submit("Mend total", profile="lean").request_id
        record = service.advance(request_id, Cancel())
        self.assertEqual(["created", "delegated", "cancelled"], self.types(record))

    def worktree(self, service: TeamService, record: Record) -> Worktree:
        """Find the request's worktree, as the loop does."""
        base = record.head["workflow"]["base"]
        place = self.paths.worktree(record.request_id)
        return ensure_worktree(service.repository, place, record.request_id, Base(base["commit"], base["branch"]))


if __name__ == "__main__":
    unittest.main()
