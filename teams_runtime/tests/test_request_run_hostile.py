"""What roles, commands and people do to a request behind the runtime's back: nothing is lost, nothing leaves."""

from __future__ import annotations

import json
import os
import shutil
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teams_runtime.shared.errors import InputError, WorkspaceError
from teams_runtime.store.records import Record
from teams_runtime.tests.team_fixture import BUILD, COMMIT, PLAN, QA, TEAM, TeamCase, answer
from teams_runtime.tests.test_cli_main import teams_runtime
from teams_runtime.workflows.orchestration.request_run import RunObserver
from teams_runtime.workflows.orchestration.runner import only_runner


class _Killed(BaseException):
    """Stands for the end of the process: nothing below the test catches it."""


class _KilledAtQa(RunObserver):
    """Ends the run when QA's turn begins: the build lies in the worktree, and only there."""

    def delegated(self, role: str, step: str, visit: int, cause: str) -> None:
        if step == "qa":
            raise _Killed


class HostileCase(TeamCase):
    def setUp(self) -> None:
        super().setUp()
        self.outside = self.root.parent / "outside"
        self.outside.mkdir()

    def commanded(self, script: str, **sections: Any) -> Record:
        """Run a request whose verification command is a shell script."""
        self.write_config(repository={"verification_command": ["sh", "-c", script]}, **sections)
        return self.run_request()[1]

    def question(self, record: Record) -> str:
        """The reason and text of what the request waits with."""
        self.assertEqual("waiting", record.head["status"])
        return f"{record.head['question']['reason']}: {record.head['question']['text']}"


class LostWorktreeTest(HostileCase):
    """A worktree that is gone when the run goes on."""

    def interrupted(self) -> str:
        service = self.service()
        request_id = service.submit("Mend total", profile="lean").request_id
        with self.assertRaises(_Killed):
            service.advance(request_id, _KilledAtQa())
        shutil.rmtree(self.paths.worktree(request_id))
        return request_id

    def test_the_work_comes_back(self) -> None:
        """The folder was deleted, or git was told to forget it: the commit still holds what was built."""
        for forget in (False, True):
            with self.subTest(forget=forget):
                request_id = self.interrupted()
                if forget:
                    self.git("worktree", "prune")
                record = self.service().advance(request_id, RunObserver())
                self.assertIn("sum(values)", self.git("show", f"{record.head['commit']['sha']}:total.py"))

    def test_work_that_is_nowhere_any_more_is_a_question(self) -> None:
        """Never `completed: no file was changed`."""
        request_id = self.interrupted()
        self.git("worktree", "prune")
        self.git("gc", "--quiet", "--prune=now")
        record = self.service().advance(request_id, RunObserver())
        self.assertIn("git: ", self.question(record))
        self.assertIn("no longer in the repository", self.question(record))

    def test_a_worktree_that_stayed_is_left_as_it_is(self) -> None:
        """What a person or an interrupted turn has changed there since the last report is not thrown away."""
        service = self.service()
        request_id = service.submit("Mend total", profile="lean").request_id
        with self.assertRaises(_Killed):
            service.advance(request_id, _KilledAtQa())
        (self.paths.worktree(request_id) / "total.py").write_text("def total(values):\n    return sum(list(values))\n")
        record = self.service().advance(request_id, RunObserver())
        self.assertIn("list(values)", self.git("show", f"{record.head['commit']['sha']}:total.py"))

    def test_work_outside_the_owned_paths_alone_is_a_question(self) -> None:
        """The owned paths were narrowed meanwhile: the request is not called done without its work."""
        self.write_config(repository={"owned_paths": ["docs"]})
        _, record = self.run_request()
        self.assertIn("outside of repository.owned_paths: 'total.py'", self.question(record))


class PlantedTest(HostileCase):
    """What a role or the verification command plants for the runtime to fall over, or to write through."""

    def test_the_record_copy_is_not_written_through_a_link(self) -> None:
        """A link in place of the copy's folder, or of the folder above it, is a question; nothing lies behind it."""
        for name in (".teams_runtime", ".teams_runtime/requests"):
            with self.subTest(name):
                record = self.commanded(
                    f"rm -rf {name}; ln -s '{self.outside}' {name}",
                    prompt_context={"recent_events": 1, "max_events": 1},
                )
                self.assertIn("must be a folder of the runtime's own", self.question(record))
                self.assertEqual([], list(self.outside.iterdir()))

    def test_a_copy_that_is_a_link_is_replaced_not_followed(self) -> None:
        """The link's target stays as it is."""
        victim = self.outside / "victim"
        victim.write_text("mine")
        link = f'for f in .teams_runtime/requests/*.json; do ln -sf "{victim}" "$f"; done'
        self.commanded(link, prompt_context={"recent_events": 1, "max_events": 1})
        self.assertEqual("mine", victim.read_text())

    def test_whatever_is_in_the_way_is_a_question(self) -> None:
        """Each of these once ended in a traceback."""
        own = '"$(git rev-parse --git-dir)"/teams_runtime'
        for script in (
            "rm -rf .teams_runtime; echo > .teams_runtime",
            "rm .teams_runtime/.gitignore; mkdir .teams_runtime/.gitignore",
            f"rm -rf {own}; touch {own}",
            'rm -rf "$(git rev-parse --git-dir)"',
        ):
            with self.subTest(script):
                self.assertIn("git: ", self.question(self.commanded(script)))

    def test_a_pipe_in_place_of_a_file_is_not_waited_for(self) -> None:
        """The command's pipe is taken away again, and the request goes on."""
        record = self.commanded("rm total.py; mkfifo total.py")
        self.assertEqual("completed", record.head["status"])

    def test_a_broken_private_index_mends_itself(self) -> None:
        index = '"$(git rev-parse --git-dir)"/teams_runtime/index'
        record = self.commanded(f"rm -rf {index}; mkdir -p {index}/x")
        self.assertEqual("completed", record.head["status"])


class TelemetryTest(HostileCase):
    def test_an_answer_is_not_lost_for_want_of_its_manifest(self) -> None:
        """The team's own program breaks the telemetry folder in the middle of a run."""
        broken = {"run": ["sh", "-c", "rm -rf ../../telemetry; touch ../../telemetry"]}
        self.write_script(PLAN, BUILD | {"actions": [*BUILD["actions"], broken]}, QA, COMMIT)
        with self.assertLogs("teams_runtime", "WARNING"):
            _, record = self.run_request()
        self.assertEqual("completed", record.head["status"])


class StateFolderTest(HostileCase):
    def test_a_linked_state_is_refused_before_anything_is_written(self) -> None:
        """As a whole, or one folder of it: a repository could bring such a link along."""
        for folder in self.paths.own_folders:
            with self.subTest(folder.name):
                folder.parent.mkdir(exist_ok=True)
                folder.symlink_to(self.outside)
                for arguments in (("run", "x"), ("list",)):
                    done = teams_runtime(*arguments, folder=self.root)
                    self.assertEqual((2, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
                folder.unlink()
        self.assertEqual([], list(self.outside.iterdir()))

    def test_every_folder_that_a_run_makes_is_private(self) -> None:
        """Whatever the umask says; below a worktree it is the repository's own modes that count."""
        before = os.umask(0)
        try:
            _, record = self.run_request()
        finally:
            os.umask(before)
        self.assertEqual("completed", record.head["status"])
        worktree = self.paths.worktree(record.request_id)
        found = [path for path in self.paths.state.rglob("*") if worktree not in (path, *path.parents)]
        wide = [str(path) for path in found if path.stat().st_mode & 0o077]
        self.assertEqual([], wide)


class ResumeTest(HostileCase):
    """Records that nothing may go on from."""

    def changed(self, change: Mapping[str, Any]) -> str:
        """A waiting request whose record file was changed by hand."""
        self.write_script(answer("planner", status="blocked", error="wait"))
        _, record = self.run_request()
        data = json.loads(record.path.read_bytes()) | change
        record.path.write_text(json.dumps(data), encoding="utf-8")
        return record.request_id

    def test_a_record_that_does_not_say_what_happened_is_refused(self) -> None:
        """Each of these gave the run another history, or a traceback."""
        question = {"seq": 4, "reason": "blocked", "text": "?", "choices": [5], "step": "plan"}
        changes: tuple[dict[str, Any], ...] = (
            {"status": -1}, {"status": "running"}, {"question": question}, {"schema": 2}, {"events": []},
        )  # fmt: skip
        for change in changes:
            with self.subTest(change):
                request_id = self.changed(change)
                with self.assertRaises(InputError):
                    self.service().advance(request_id, RunObserver())
                with self.assertRaises(InputError):
                    self.service().answer(request_id, "continue")

    def test_odd_heads_are_shown(self) -> None:
        """A record of another program may hold anything anywhere."""
        heads: tuple[dict[str, Any], ...] = (
            {"question": {"choices": 5}, "commit": {"sha": [1]}},
            {"workflow": {"step": ["x"], "visits": {"qa": "x", "build": {}}, "visit": {}}, "current_role": "qa"},
        )
        for number, head in enumerate(heads):
            self.paths.requests.mkdir(parents=True, exist_ok=True)
            self.paths.record(f"odd{number}").write_text(json.dumps(head | {"events": [{"type": 1}]}))
            for arguments in (("show",), ("prompt",), ("prompt", "--role", "qa", "--why")):
                with self.subTest(arguments, head=number):
                    done = teams_runtime(arguments[0], f"odd{number}", *arguments[1:], folder=self.root)
                    self.assertEqual((0, ""), (done.returncode, done.stderr.partition("This was never sent")[0]))

    def test_a_request_at_work_is_not_removed(self) -> None:
        """`prune --yes` is refused while somebody works on it."""
        _, record = self.run_request()
        with only_runner(self.paths, record.request_id):
            done = teams_runtime("prune", record.request_id, "--yes", folder=self.root)
        self.assertEqual((2, True), (done.returncode, record.path.exists()))
        self.assertIn("another process is working on this request", done.stderr)

    def test_a_lock_that_cannot_be_taken_is_one_sentence(self) -> None:
        _, record = self.run_request()
        place: Path = self.paths.locks / f"{record.request_id}.run.lock"
        place.unlink(missing_ok=True)
        place.mkdir()
        with self.assertRaisesRegex(WorkspaceError, "cannot be locked"):
            self.service().advance(record.request_id, RunObserver())


class CharterTest(HostileCase):
    def test_a_pipe_or_an_endless_charter_is_refused(self) -> None:
        """Nothing is waited for, and nothing endless is read."""
        self.write_config(roles={"qa": {"charter": "qa.md"}})
        self.write_script(*TEAM)
        place = self.root / "qa.md"
        for kind in ("pipe", "/dev/zero", str(place)):
            if kind == "pipe":
                os.mkfifo(place)
            else:
                place.symlink_to(kind)
            done = teams_runtime("run", "Mend total", folder=self.root)
            self.assertEqual((2, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
            place.unlink()


if __name__ == "__main__":
    unittest.main()
