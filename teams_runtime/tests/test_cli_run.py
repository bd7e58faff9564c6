"""`teams-runtime run` and `resume`: the real command on a real repository, and what it refuses."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from teams_runtime.tests.team_fixture import PLAN, TEAM, TeamCase, answer
from teams_runtime.tests.test_cli_main import COMMAND, teams_runtime
from teams_runtime.workflows.orchestration.team_service import MAX_REQUEST_CHARACTERS


class RunTest(TeamCase):
    """What `run` does and prints."""

    def test_plain_lines_tell_the_story_and_end_with_the_commit(self) -> None:
        """On a pipe every step is a line; the last lines name the commit and where to look."""
        done = teams_runtime("run", "Mend total", "--profile", "lean", folder=self.root)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for told in ("plan: planner works (start)", "role_task prompt:", "commit  ", " show "):
            self.assertIn(told, done.stdout)

    def test_uncommitted_changes_are_not_seen_and_that_is_said(self) -> None:
        """The team works from the commit; whoever has just edited a file is told."""
        (self.root / "total.py").write_text("# mine\n", encoding="utf-8")
        done = teams_runtime("run", "Mend total", "--profile", "lean", folder=self.root)
        self.assertIn("note: 1 changed files of the checkout", done.stderr)

    def test_the_log_line_of_each_compacted_prompt_is_kept(self) -> None:
        """In the workspace, for its owner only, as often as the manifests tell of a compacted prompt."""
        self.write_config(prompt_context={"recent_events": 2, "max_events": 4})
        done = teams_runtime("run", "Mend total", "--profile", "lean", "--json", folder=self.root)
        request_id = json.loads(done.stdout)["request_id"]
        called = self.service().manifests.read(request_id)
        compacted = [str(one.kind) for one in called if one.included_events < one.total_events]
        lines = [line.split() for line in self.paths.log.read_text().splitlines() if "prompt_context compacted" in line]
        self.assertEqual([f"purpose={kind}" for kind in compacted], [line[5] for line in lines])
        self.assertEqual({f"request_id={request_id}"}, {line[4] for line in lines})
        self.assertEqual(0o600, self.paths.log.stat().st_mode & 0o777)

    def test_json_is_one_line_and_progress_goes_to_stderr(self) -> None:
        """A program reads standard output; people may watch standard error."""
        done = teams_runtime("run", "Mend total", "--profile", "lean", "--json", folder=self.root)
        outcome = json.loads(done.stdout)
        self.assertEqual(("completed", 40), (outcome["status"], len(outcome["commit"])))
        self.assertIn("qa works", done.stderr)

    def test_the_exit_code_says_how_the_request_was_left(self) -> None:
        """0 completed, 3 waiting, 4 failed."""
        failed = answer("planner", status="failed", error="it cannot be done")
        blocked = answer("planner", status="blocked", error="which total?")
        for code, turns in ((0, TEAM), (3, [blocked]), (4, [failed])):
            with self.subTest(code=code):
                self.write_script(*turns)
                done = teams_runtime("run", "Mend total", "--profile", "lean", folder=self.root)
                self.assertEqual(code, done.returncode, done.stdout + done.stderr)

    def test_scope_and_body_can_come_from_files_and_standard_input(self) -> None:
        """Any text is taken as it is: quotes, newlines, emoji."""
        text = "say \"hi\" and 'go'\n🙂\n"
        (self.root / "body.md").write_text(text, encoding="utf-8")
        self.write_script(answer("planner", status="blocked", error="wait"))
        done = subprocess.run(
            [*COMMAND, "run", "-", "--body-file", "body.md", "--profile", "lean", "--json"],
            cwd=self.root, input=text.encode(), capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        record = json.loads(self.paths.record(json.loads(done.stdout)["request_id"]).read_bytes())
        self.assertEqual((text, text), (record["scope"], record["body"]))

    def test_a_killed_run_goes_on_with_resume(self) -> None:
        """After SIGKILL in the middle of a turn the same request ends with one commit."""
        request_id, left = self.interrupted(signal.SIGKILL)
        self.assertIn("go on with", teams_runtime("show", request_id, folder=self.root).stdout)
        self.assertIn("interrupted", teams_runtime("list", folder=self.root).stdout)
        self.write_script(*TEAM)
        done = teams_runtime("resume", request_id[:20], "--json", folder=self.root)
        self.assertEqual("completed", json.loads(done.stdout)["status"], done.stderr)
        self.assertEqual("1\n", self.git("rev-list", "--count", f"main..teams/{request_id}"))
        self.assertFalse(psutil.pid_exists(left), "the program that the killed run left behind goes on")

    def test_a_terminated_run_leaves_no_program_and_says_how_to_go_on(self) -> None:
        """TERM ends a run as Ctrl-C does."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with self.subTest(number.name):
                request_id, left = self.interrupted(number)
                self.assertFalse(psutil.pid_exists(left))
                self.assertIn(f"resume {request_id}", self.said)

    def interrupted(self, number: signal.Signals) -> tuple[str, int]:
        """Start a run, send it a signal while its developer's program runs; return the request and that program."""
        program = "echo $$ > pid.tmp; mv pid.tmp started; exec sleep 60"
        self.write_script(PLAN, answer("developer") | {"actions": [{"run": ["sh", "-c", program]}]})
        before = set(self.paths.requests.glob("*.json"))
        command = [*COMMAND, "run", "Mend total", "--profile", "lean"]
        runner = subprocess.Popen(command, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started = self.wait_for_file("started")
        left = int(started.read_text())
        runner.send_signal(number)
        self.said = runner.communicate(timeout=60)[1]
        started.unlink()
        (record,) = set(self.paths.requests.glob("*.json")) - before
        return record.stem, left

    def test_an_answer_moves_a_waiting_request_on(self) -> None:
        """The printed command works on a fresh process, and the role is shown what the person said."""
        blocked = answer("planner", visit=1, status="blocked", error="which total?")
        self.write_script(blocked, *TEAM)
        waiting = teams_runtime("run", "Mend total", "--profile", "lean", folder=self.root)
        command = next(line for line in waiting.stdout.splitlines() if line.endswith(" continue"))
        done = teams_runtime(
            *command.partition(" -m teams_runtime ")[2].split(),
            "--text",
            "the one in total.py",
            "--json",
            folder=self.root,
        )
        outcome = json.loads(done.stdout)
        self.assertEqual("completed", outcome["status"])
        shown = teams_runtime("prompt", outcome["request_id"], "--role", "planner", "--at", "6", folder=self.root)
        self.assertIn("the one in total.py", shown.stdout)

    def test_stop_is_an_answer_too(self) -> None:
        """It ends the request as cancelled, with the exit code of that."""
        self.write_script(answer("planner", status="blocked", error="which total?"))
        waiting = teams_runtime("run", "Mend total", "--profile", "lean", "--json", folder=self.root)
        done = teams_runtime("answer", json.loads(waiting.stdout)["request_id"], "stop", folder=self.root)
        self.assertEqual(5, done.returncode, done.stdout + done.stderr)

    def test_an_answer_without_its_question_is_refused(self) -> None:
        """An unknown choice, and a second answer to the same question."""
        self.write_script(answer("planner", status="blocked", error="which total?"))
        waiting = teams_runtime("run", "Mend total", "--profile", "lean", "--json", folder=self.root)
        request_id = json.loads(waiting.stdout)["request_id"]
        done = teams_runtime("answer", request_id, "maybe", folder=self.root)
        self.assertEqual((2, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
        teams_runtime("answer", request_id, "stop", folder=self.root)
        done = teams_runtime("answer", request_id, "stop", folder=self.root)
        self.assertIn("no question", done.stderr)

    def wait_for_file(self, name: str) -> Path:
        """Wait until a worktree holds a file; give up after a bounded time."""
        limit = time.monotonic() + 30
        while time.monotonic() < limit:
            found = list(self.paths.state.glob(f"worktrees/*/{name}"))
            if found:
                return found[0]
            time.sleep(0.02)
        raise AssertionError(f"no worktree holds {name}")


class RefusedTest(TeamCase):
    """Bad input is one line on standard error, exit code 2, and no record."""

    def assert_refused(self, done: subprocess.CompletedProcess[str], *told: str) -> None:
        self.assertEqual((2, ""), (done.returncode, done.stdout))
        self.assertEqual(1, done.stderr.count("\n"), done.stderr)
        for text in told:
            self.assertIn(text, done.stderr)
        self.assertEqual([], list(self.paths.requests.glob("*")))

    def test_a_scope_that_is_empty_or_too_long(self) -> None:
        """The limit is named; a megabyte by standard input is refused as well."""
        self.assert_refused(teams_runtime("run", "", folder=self.root), "empty text")
        huge = subprocess.run(
            [*COMMAND, "run", "-"],
            cwd=self.root,
            input="x" * 1_000_000,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assert_refused(huge, str(MAX_REQUEST_CHARACTERS))

    def test_a_body_file_that_cannot_be_read(self) -> None:
        """Missing, a folder, binary: where, what must hold, what was there."""
        (self.root / "binary").write_bytes(b"\xff\xfe\x00")
        for name, told in (("missing.md", "No such file"), (".", "directory"), ("binary", "0xff")):
            with self.subTest(name):
                self.assert_refused(teams_runtime("run", "x", "--body-file", name, folder=self.root), name, told)

    def test_a_folder_without_workspace_or_repository(self) -> None:
        """Each names the remedy."""
        shutil.rmtree(self.root / ".git")
        self.assert_refused(teams_runtime("run", "x", folder=self.root), "repository")
        self.paths.config_file.unlink()
        self.assert_refused(teams_runtime("run", "x", folder=self.root), "teams-runtime init")

    def test_a_repository_without_a_commit(self) -> None:
        """A first commit is asked for."""
        shutil.rmtree(self.root / ".git")
        self.git("init", "-q")
        self.assert_refused(teams_runtime("run", "x", folder=self.root), "no commit")

    def test_an_unknown_request(self) -> None:
        """`resume` of what is not there, and of what can be no id."""
        for request_id in ("nothing", "../../etc/passwd", "-", "a/b", "x" * 300):
            with self.subTest(request_id[:20]):
                self.assert_refused(teams_runtime("resume", "--", request_id, folder=self.root))

    def test_a_broken_config(self) -> None:
        """Every problem is a line of its own, and nothing is filed."""
        self.paths.config_file.write_text("prompt_context: 3\nsprnt: {}\n", encoding="utf-8")
        done = teams_runtime("run", "x", folder=self.root)
        self.assertEqual((2, 2), (done.returncode, done.stderr.count("\n")), done.stderr)
        self.assertIn("team_runtime.yaml:1:17: prompt_context must be a mapping", done.stderr)


if __name__ == "__main__":
    unittest.main()
