"""The scripted provider does what its script says, inside the worktree only, and the same each time."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from teams_runtime.providers.base import TurnRequest, TurnResult
from teams_runtime.providers.scripted import Script, ScriptedProvider, load_script
from teams_runtime.shared.errors import ConfigError, FailureKind, ProviderError

ANSWER = {"status": "completed", "summary": "done"}


class ScriptCase(unittest.TestCase):
    """A test with a worktree, a folder outside of it, and a place for the script."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = Path(folder.name)
        self.outside = self.base / "outside"
        self.worktree = self.base / "worktree"
        for one in (self.outside, self.worktree, self.worktree / ".git", self.worktree / ".teams_runtime"):
            one.mkdir()
        self.file = self.base / "script.yaml"
        self.seen: list[str] = []

    def request(self, **changed: Any) -> TurnRequest:
        """A developer's first call at build."""
        given: dict[str, Any] = {
            "request_id": "fix-sum", "role": "developer", "step": "build", "visit": 1, "attempt": 0, "prompt": "p",
            "environment": {"PATH": os.environ["PATH"]},
            "worktree": self.worktree, "write_access": "worktree", "deadline_seconds": 60.0,
        }  # fmt: skip
        return TurnRequest(**given | changed)

    def provider(self, *turns: dict[str, Any]) -> ScriptedProvider:
        """A provider that has read these entries from a file."""
        self.file.write_text(json.dumps({"turns": list(turns)}), encoding="utf-8")
        return ScriptedProvider(load_script(self.file))

    def do(self, *actions: dict[str, Any], **changed: Any) -> TurnResult:
        """Do actions in the worktree."""
        provider = self.provider({"role": "developer", "actions": list(actions), "answer": ANSWER})
        return provider.run_turn(self.request(**changed), self.seen.append)

    def fails(self, *actions: dict[str, Any], **changed: Any) -> ProviderError:
        """The error of actions that cannot be done."""
        with self.assertRaises(ProviderError) as caught:
            self.do(*actions, **changed)
        return caught.exception

    def text(self, path: str) -> str:
        """A file of the worktree."""
        return (self.worktree / path).read_bytes().decode()

    def problems(self, text: str) -> tuple[str, ...]:
        """What is wrong with a script."""
        self.file.write_text(text, encoding="utf-8")
        with self.assertRaises(ConfigError) as caught:
            load_script(self.file)
        return caught.exception.problems


class EntryTest(ScriptCase):
    """Which entry is taken, and what it answers."""

    def test_the_first_entry_whose_keys_match_is_taken(self) -> None:
        """A key that is left out matches every call, but a missing attempt is 0."""
        provider = self.provider(
            {"role": "developer", "step": "revise", "text": "revise"},
            {"role": "developer", "visit": 2, "text": "second visit"},
            {"role": "developer", "attempt": 1, "text": "repair"},
            {"role": "developer", "text": "any"},
            {"role": "developer", "step": "build", "text": "never"},
        )
        cases: dict[str, dict[str, Any]] = {
            "revise": {"step": "revise", "visit": 2}, "second visit": {"visit": 2}, "repair": {"attempt": 1}, "any": {},
        }  # fmt: skip
        for expected, changed in cases.items():
            with self.subTest(expected):
                self.assertEqual(expected, provider.run_turn(self.request(**changed), self.seen.append).text)

    def test_a_call_without_an_entry_is_an_error(self) -> None:
        """It names the call; no answer is made up."""
        provider = self.provider({"role": "qa", "text": "x"}, {"role": "developer", "attempt": 1, "text": "x"})
        with self.assertRaises(ProviderError) as caught:
            provider.run_turn(self.request(), self.seen.append)
        self.assertEqual(FailureKind.NOT_FOUND, caught.exception.kind)
        self.assertIn("role developer, step build, visit 1, attempt 0", str(caught.exception))

    def test_an_answer_gets_what_it_leaves_out(self) -> None:
        """Request id and role, and the id wherever the mark stands; given values stay."""
        marked = {"role": "developer", "answer": {"summary": "${request_id} é", "list": [{"a": "${request_id}"}]}}
        told = json.loads(self.provider(marked).run_turn(self.request(), self.seen.append).text)
        self.assertEqual(
            {"request_id": "fix-sum", "role": "developer", "summary": "fix-sum é", "list": [{"a": "fix-sum"}]}, told
        )
        kept = {"role": "developer", "answer": {"request_id": "other", "role": "qa"}}
        told = json.loads(self.provider(kept).run_turn(self.request(), self.seen.append).text)
        self.assertEqual({"request_id": "other", "role": "qa"}, told)

    def test_a_text_is_given_as_it_stands(self) -> None:
        """Prose, broken JSON and white space included."""
        raw = ' So:\n{"a": 1,}\n\t\n'
        provider = self.provider({"role": "developer", "text": raw})
        self.assertEqual(raw, provider.run_turn(self.request(), self.seen.append).text)

    def test_a_turn_is_the_same_each_time(self) -> None:
        """No state is kept between calls, so a run that was killed can do a turn again."""
        provider = self.provider(
            {"role": "developer", "answer": ANSWER, "actions": [
                {"write": {"path": "a.txt", "text": "one two"}},
                {"replace": {"path": "a.txt", "old": "two", "new": "two and two"}},
                {"replace": {"path": "a.txt", "old": "one", "new": "1"}},
                {"write": {"path": "b.txt", "text": ""}},
                {"delete": {"path": "b.txt"}},
            ]}
        )  # fmt: skip
        results = {provider.run_turn(self.request(), self.seen.append) for _ in range(2)}
        self.assertEqual((1, "1 two and two", False),
                         (len(results), self.text("a.txt"), (self.worktree / "b.txt").exists()))  # fmt: skip


class ActionTest(ScriptCase):
    """What is done in the worktree."""

    def test_files_are_written_replaced_and_deleted(self) -> None:
        """Folders are made, line ends are kept, and the live view is told."""
        self.do({"write": {"path": "new folder/a.txt", "text": "x\r\ny\n"}})
        self.do({"replace": {"path": "new folder/a.txt", "old": "y\n", "new": "z"}})
        self.assertEqual("x\r\nz", self.text("new folder/a.txt"))
        self.do({"delete": {"path": "new folder/a.txt"}})
        result = self.do({"delete": {"path": "new folder/a.txt"}})
        left = list((self.worktree / "new folder").iterdir())
        self.assertEqual(((), 1, []), (result.denials, result.tool_calls, left))
        self.assertEqual(["edits new folder/a.txt"] * 4, self.seen)

    def test_a_replacement_that_was_made_before_is_not_made_again(self) -> None:
        """Also when one of the two texts holds the other, so that a turn that is done again adds nothing twice."""
        cases = (
            ("ab", "b", "bc", "abc"),
            ("abc", "bc", "b", "ab"),
            ("ab b!", "b!", "b", "ab b"),
            ("ab", "b", "c", "ac"),
        )
        for before, old, new, after in cases:
            (self.worktree / "a.txt").write_text(before, encoding="utf-8")
            for _ in range(3):
                with self.subTest(before=before, old=old, new=new):
                    self.do({"replace": {"path": "a.txt", "old": old, "new": new}})
                    self.assertEqual(after, self.text("a.txt"))

    def test_the_old_text_must_stand_once(self) -> None:
        """Otherwise nobody knows what was meant; the text itself is not repeated in the error."""
        for content, count in (("", 0), ("secret secret", 2)):
            with self.subTest(count):
                (self.worktree / "a.txt").write_text(content, encoding="utf-8")
                error = self.fails({"replace": {"path": "a.txt", "old": "secret", "new": "x"}})
                self.assertEqual(FailureKind.BAD_REQUEST, error.kind)
                self.assertRegex(str(error), rf"'a\.txt' must hold the text to replace once, holds it {count} times\Z")
                self.assertEqual(content, self.text("a.txt"))

    def test_what_cannot_be_edited_is_an_error(self) -> None:
        """A missing file, a folder, and bytes that are no text."""
        (self.worktree / "folder").mkdir()
        (self.worktree / "bytes").write_bytes(b"\xff")
        for path in ("missing", "folder", "bytes"):
            with self.subTest(path):
                error = self.fails({"replace": {"path": path, "old": "a", "new": "b"}})
                self.assertIn(f"{path!r} cannot be edited", str(error))

    def test_a_step_that_only_reads_is_denied_every_edit(self) -> None:
        """Nothing is written, and the result says so."""
        edits: list[dict[str, Any]] = [
            {"write": {"path": "a", "text": ""}}, {"replace": {"path": "a", "old": "a", "new": ""}},
            {"delete": {"path": "a"}},
        ]  # fmt: skip
        result = self.do(*edits, write_access="none")
        self.assertEqual(("edit of a refused: this step only reads",) * 3, result.denials)
        self.assertFalse((self.worktree / "a").exists())

    def test_no_path_leads_out_of_the_worktree(self) -> None:
        """Absolute, upwards, through links, into git or the runtime: denied, and nothing outside is touched."""
        (self.worktree / "link").symlink_to(self.outside)
        (self.worktree / "file link").symlink_to(self.outside / "f")
        (self.worktree / "git link").symlink_to(".git")
        (self.worktree / "loop").symlink_to("loop")
        (self.worktree / "inner").mkdir()
        paths = (str(self.outside / "f"), "../outside/f", "inner/../../outside/f", "link/f", "link/deep/f", "file link",
                 ".git/config", ".GIT/config", "inner/.git", ".teams_runtime/x", "git link/config", "loop/f", "loop",
                 ".", "..", "/")  # fmt: skip
        for path in paths:
            with self.subTest(path):
                result = self.do({"write": {"path": path, "text": "x"}})
                self.assertEqual(1, len(result.denials), path)
        touched = [*self.outside.iterdir(), *(self.worktree / ".git").iterdir(), *(self.worktree / "inner").iterdir()]
        self.assertEqual([], [*touched, *(self.worktree / ".teams_runtime").iterdir()])

    def test_a_link_that_stays_inside_may_be_passed(self) -> None:
        """Only where it leads counts; the link itself is not written through."""
        (self.worktree / "real").mkdir()
        (self.worktree / "alias").symlink_to("real")
        self.assertEqual((), self.do({"write": {"path": "alias/f", "text": "x"}}).denials)
        self.assertEqual("x", self.text("real/f"))

    def test_a_program_runs_in_the_worktree_with_a_bounded_environment(self) -> None:
        """A real process; how it ends is told and does not end the turn."""
        code = "import os, sys; open('env', 'w').write(repr(sorted(os.environ))); sys.exit(3)"
        result = self.do({"run": [sys.executable, "-c", code]})
        self.assertNotIn("API_KEY", self.text("env"))
        self.assertEqual(("done", f"{sys.executable} ended with 3"),
                         (json.loads(result.text)["summary"], self.seen[-1]))  # fmt: skip

    def test_a_program_that_is_not_there_is_an_error(self) -> None:
        """The script does not fit the machine."""
        error = self.fails({"run": ["no-such-program"]})
        self.assertEqual(FailureKind.BAD_REQUEST, error.kind)
        self.assertIn("no-such-program", str(error))

    def test_the_deadline_ends_a_program(self) -> None:
        """What the turn has left counts, not what the program would need."""
        error = self.fails({"run": [sys.executable, "-c", "import time; time.sleep(600)"]}, deadline_seconds=0.2)
        self.assertEqual((FailureKind.TIMEOUT, False), (error.kind, error.retryable))


class FileTest(ScriptCase):
    """Reading a script file."""

    def test_every_problem_is_told_with_its_place(self) -> None:
        """File, line and column, in file order."""
        text = (
            "turns:\n  - role: boss\n    text: x\n  - role: qa\n    anwser: {}\n"
            "  - role: qa\n    visit: 0\n    text: x\n"
            "  - role: qa\n    text: x\n    actions:\n      - {run: [], delete: {path: a}}\n"
        )
        places = [problem.removeprefix(str(self.file)).removeprefix("script.yaml") for problem in self.problems(text)]
        expected = (
            r":2:11: turns\[0\]\.role must be one of 'research', ",
            r":5:5: .*anwser.*did you mean answer\?",
            r":7:12: turns\[2\]\.visit must be .*got 0",
            r":12:9: .* exactly one of write, replace, delete, run",
        )
        found = [place for place in places if "answer, text" not in place]
        self.assertEqual(len(expected), len(found), places)
        for pattern, place in zip(expected, found, strict=True):
            self.assertRegex(place, pattern)

    def test_answer_and_text_exclude_each_other(self) -> None:
        """One of both is needed."""
        for parts in ("", "\n    text: x\n    answer: {}"):
            with self.subTest(parts):
                self.assertIn("exactly one of answer, text", self.problems(f"turns:\n  - role: qa{parts}\n")[0])

    def test_files_that_are_no_script_are_refused(self) -> None:
        """In one line that names the file."""
        cases = {"broken": "turns: [", "twice": "turns: []\nturns: []\n", "list": "[]", "number": "turns: 1"}
        for name, text in cases.items():
            with self.subTest(name):
                self.assertIn("script.yaml:", self.problems(text)[0])
        self.file.unlink()
        with self.assertRaises(ConfigError) as caught:
            load_script(self.file)
        self.assertIn("script.yaml", str(caught.exception))

    def test_json_is_read_too(self) -> None:
        """With the same rules."""
        self.file.write_text('{"turns": [{"role": "qa", "text": "x"}]}', encoding="utf-8")
        self.assertEqual(Script.model_validate({"turns": [{"role": "qa", "text": "x"}]}), load_script(self.file))


class OddPlaceTest(ScriptCase):
    """Places that are no ordinary file."""

    def test_a_pipe_is_refused_and_not_waited_for(self) -> None:
        """Each kind of edit: a pipe that nobody writes to would be waited for without end."""
        os.mkfifo(self.worktree / "pipe")
        edits = {"write": {"text": "x"}, "replace": {"old": "a", "new": "b"}, "delete": {}}
        for kind, rest in edits.items():
            with self.subTest(kind):
                error = self.fails({kind: {"path": "pipe"} | rest})
                self.assertEqual(FailureKind.BAD_REQUEST, error.kind)
                self.assertIn("no regular file", str(error))

    def test_a_file_that_is_too_large_is_not_read(self) -> None:
        with (self.worktree / "large").open("wb") as stream:
            stream.truncate(1 << 40)
        self.assertIn("more than", str(self.fails({"replace": {"path": "large", "old": "a", "new": "b"}})))

    def test_a_name_that_is_too_long_fails_the_action(self) -> None:
        self.assertIn("File name too long", str(self.fails({"write": {"path": "x" * 300, "text": "x"}})))

    def test_a_script_that_is_json_may_spell_emoji_as_json_does(self) -> None:
        """`json.dumps` writes a character beyond the first plane as two escapes."""
        self.do({"write": {"path": "\U0001f642.txt", "text": "\U0001f642"}})
        self.assertIn("\\ud83d", self.file.read_text(encoding="utf-8"))
        self.assertEqual("\U0001f642", self.text("\U0001f642.txt"))


if __name__ == "__main__":
    unittest.main()
