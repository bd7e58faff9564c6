"""A commit is what was prepared, made once, whatever crashes between."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import unittest
from dataclasses import replace
from pathlib import Path

from teams_runtime.git.commit import PreparedCommit, make_commit, prepare_commit
from teams_runtime.git.repository import Base
from teams_runtime.git.worktree import Worktree, ensure_worktree
from teams_runtime.shared.errors import GitError
from teams_runtime.tests.git_fixture import AUTHOR, DATE, GitCase, write_files

ALL = (".",)


class CommitCase(GitCase):
    def setUp(self) -> None:
        super().setUp()
        self.tree = self.worktree()
        write_files(self.tree.path, {"src/a.py": "A = 2\n"})

    def make(self, prepared: PreparedCommit, worktree: Worktree | None = None) -> str:
        return make_commit(worktree or self.tree, prepared, allow_hooks=False, allow_signing=False)

    def count(self) -> int:
        """Return how many commits the team's branch has more than main."""
        return int(self.git("rev-list", "--count", "main..teams/r1"))


class PrepareTest(CommitCase):
    def test_preparing_writes_no_commit_and_moves_nothing(self) -> None:
        """The branch is where it was; the value says everything that the commit will be."""
        prepared = self.prepare(self.tree)
        self.assertEqual(0, self.count())
        self.assertEqual((("src/a.py",), self.tree.tree(ALL)), (prepared.paths, prepared.tree))

    def test_a_prepared_commit_survives_json(self) -> None:
        """Written into a record and read again it is the same."""
        prepared = self.prepare(self.tree)
        self.assertEqual(prepared, PreparedCommit.from_payload(json.loads(json.dumps(prepared.payload()))))

    def test_the_paths_must_be_the_changed_ones(self) -> None:
        """One too few, one too many."""
        write_files(self.tree.path, {"new": "x"})
        for paths in (["new"], ["new", "src/a.py", "README.md"], []):
            with self.subTest(paths=paths), self.assertRaisesRegex(GitError, "must be the changed ones; "):
                prepare_commit(self.tree, ALL, paths, "Change", AUTHOR, DATE)

    def test_nothing_to_commit_is_refused(self) -> None:
        """No owned path differs: there is no empty commit."""
        with self.assertRaisesRegex(GitError, "nothing to commit"):
            prepare_commit(self.tree, ["docs"], [], "Change", AUTHOR, DATE)

    def test_a_message_that_cannot_be_one_is_refused(self) -> None:
        """Empty, blank, NUL, half a surrogate pair; and a date that is none."""
        for message in ("", " \n ", "a\0b", "a\ud800"):
            with self.subTest(message=message), self.assertRaisesRegex(GitError, "a commit message must"):
                self.prepare(self.tree, message=message)
        with self.assertRaisesRegex(GitError, "RFC 3339"):
            prepare_commit(self.tree, ALL, ["src/a.py"], "Change", AUTHOR, "yesterday")


class MakeTest(CommitCase):
    def test_the_commit_is_what_was_prepared(self) -> None:
        """Parent, tree, message, author, committer and both dates."""
        message = "Fix it\n\n# not a comment\nünï 🎉 'quoted' --amend"
        prepared = self.prepare(self.tree, message=message)
        commit = self.make(prepared)
        shown = self.git("show", "-s", "--format=%H%n%P%n%T%n%an <%ae> %aI%n%cn <%ce> %cI%n%B", "teams/r1")
        who = "Ada <ada@example.org> 2026-12-01T03:04:05+00:00"
        self.assertEqual("\n".join([commit, self.tree.base, prepared.tree, who, who, message, "\n"]), shown)

    def test_only_owned_paths_are_committed(self) -> None:
        """Other changes stay where they are, uncommitted."""
        write_files(self.tree.path, {"README.md": "mine\n", "new": "x"})
        prepared = prepare_commit(self.tree, ["src"], ["src/a.py"], "Change", AUTHOR, DATE)
        self.assertEqual(["M src/a.py"], self.shown(self.make(prepared)))
        self.assertEqual(" M README.md\n?? new\n", self.git("status", "--porcelain", cwd=self.tree.path))

    def test_what_was_prepared_is_committed_not_what_came_later(self) -> None:
        """A change between preparing and making stays uncommitted."""
        prepared = self.prepare(self.tree)
        write_files(self.tree.path, {"src/a.py": "A = 3\n"})
        commit = self.make(prepared)
        self.assertEqual("A = 2\n", self.git("show", f"{commit}:src/a.py"))
        self.assertEqual(" M src/a.py\n", self.git("status", "--porcelain", cwd=self.tree.path))

    def test_the_worktree_is_clean_afterwards(self) -> None:
        """Its index says what HEAD says, even when a role had staged something."""
        write_files(self.tree.path, {"new": "x"})
        self.git("add", "new", cwd=self.tree.path)
        self.commit(self.tree)
        self.assertEqual("", self.git("status", "--porcelain", cwd=self.tree.path))

    def test_odd_names_are_committed(self) -> None:
        """Names that look like options, patterns or several lines."""
        names = ("a b", "ünï", "-rf", "line\nbreak", "*", "[ab]", ":(top)x")
        write_files(self.tree.path, dict.fromkeys(names, "x"))
        self.assertEqual({f"A {name}" for name in names} | {"M src/a.py"}, set(self.shown(self.commit(self.tree))))

    def test_a_branch_that_moved_is_refused(self) -> None:
        """Somebody committed meanwhile: their commit stays, ours is not made."""
        prepared = self.prepare(self.tree)
        self.git("commit", "-q", "--allow-empty", "-m", "theirs", cwd=self.tree.path)
        theirs = self.git("rev-parse", "teams/r1")
        with self.assertRaisesRegex(GitError, "somebody else moved it"):
            self.make(prepared)
        self.assertEqual(theirs, self.git("rev-parse", "teams/r1"))

    def test_a_branch_that_is_gone_is_refused(self) -> None:
        """The line says where it must be."""
        prepared = self.prepare(self.tree)
        self.git("update-ref", "-d", "refs/heads/teams/r1")
        with self.assertRaisesRegex(GitError, f"is gone; make it again at {self.tree.base}"):
            self.make(prepared)

    def test_a_prepared_commit_of_another_request_is_refused(self) -> None:
        """Branch and base must be this worktree's."""
        prepared = self.prepare(self.tree)
        for wrong in (replace(prepared, branch="main"), replace(prepared, base="0" * 40)):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(GitError, "not of this worktree"):
                self.make(wrong)

    def test_a_worktree_that_left_its_branch_is_refused(self) -> None:
        """Else its index would be set to something it is not at."""
        prepared = self.prepare(self.tree)
        self.git("checkout", "-q", "--detach", cwd=self.tree.path)
        with self.assertRaisesRegex(GitError, "must be on branch"):
            self.make(prepared)

    def test_a_tree_that_is_gone_is_refused(self) -> None:
        """Nothing is made of an id that leads nowhere."""
        with self.assertRaisesRegex(GitError, "git commit-tree failed"):
            self.make(replace(self.prepare(self.tree), tree="1" * 40))
        self.assertEqual(0, self.count())


class CrashTest(CommitCase):
    """A crash at any place between prepared and recorded ends with the same one commit."""

    def crash(self, prepared: PreparedCommit, at: str) -> None:
        """Make the commit in a process that kills itself just before git runs the command `at` (`end`: at the end)."""
        fake = self.folder / "fake"
        fake.mkdir(exist_ok=True)
        real = shutil.which("git")
        program = fake / "git"
        program.write_text(f'#!/bin/sh\n[ "$2" = {at} ] && kill -KILL $PPID && exec sleep 1\nexec {real} "$@"\n')
        program.chmod(0o755)
        code = "import json, os, sys, signal\nfrom pathlib import Path\n"
        code += "from teams_runtime.git.commit import PreparedCommit, make_commit\n"
        code += "from teams_runtime.git.repository import Base, Repository\n"
        code += "from teams_runtime.git.worktree import ensure_worktree\np = json.loads(sys.argv[3])\n"
        code += "r = Repository.open(Path(sys.argv[1]))\n"
        code += "w = ensure_worktree(r, Path(sys.argv[2]), 'r1', Base(p['base'], None))\n"
        code += "make_commit(w, PreparedCommit.from_payload(p), allow_hooks=False, allow_signing=False)\n"
        code += "os.kill(os.getpid(), signal.SIGKILL)"
        argv = [sys.executable, "-c", code, str(self.repo), str(self.tree.path), json.dumps(prepared.payload())]
        root = str(Path(__file__).resolve().parents[2])
        environment = {**self.environment, "PYTHONPATH": root, "PATH": f"{fake}:{os.environ['PATH']}"}
        ended = subprocess.run(argv, env=environment, capture_output=True, check=False)
        self.assertEqual(-signal.SIGKILL, ended.returncode, ended.stderr)

    def test_a_kill_anywhere_ends_in_the_same_one_commit(self) -> None:
        """Killed before the object, before the branch moves, before it is verified, before the index, at the end."""
        prepared = self.prepare(self.tree)
        expected = ""
        for at, made in (("commit-tree", 0), ("update-ref", 0), ("cat-file", 1), ("read-tree", 1), ("end", 1)):
            with self.subTest(at=at):
                self.git("update-ref", "refs/heads/teams/r1", self.tree.base)
                self.crash(prepared, at)
                self.assertEqual(made, self.count())
                commit = self.make(prepared, self.worktree())
                self.assertEqual((1, expected or commit), (self.count(), commit))
                expected = commit
                self.assertEqual("", self.git("status", "--porcelain", cwd=self.tree.path))

    def test_a_second_call_finds_the_commit(self) -> None:
        """Even when the files have changed again since."""
        prepared = self.prepare(self.tree)
        commit = self.make(prepared)
        write_files(self.tree.path, {"src/a.py": "A = 9\n"})
        self.assertEqual((commit, 1), (self.make(prepared), self.count()))

    def test_a_locked_index_is_one_line_and_the_next_try_finishes(self) -> None:
        """The commit is there already; it is not made again."""
        prepared = self.prepare(self.tree)
        lock = self.tree.folder / "index.lock"
        lock.write_bytes(b"")
        with self.assertRaisesRegex(GitError, "index.lock': File exists") as caught:
            self.make(prepared)
        self.assertNotIn("\n", str(caught.exception))
        lock.unlink()
        self.make(prepared)
        self.assertEqual(1, self.count())


class HooksTest(CommitCase):
    """Allowed hooks may refuse; they can change nothing."""

    def hook(self, name: str, body: str, folder: str = ".git/hooks") -> None:
        path = self.repo / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def test_allowed_hooks_see_the_prepared_tree_and_message(self) -> None:
        """pre-commit sees the index to be committed, commit-msg the message."""
        self.hook("pre-commit", f"git diff --cached --name-only > '{self.folder}/pre'; pwd >> '{self.folder}/pre'")
        self.hook("commit-msg", f"cat \"$1\" > '{self.folder}/msg'")
        self.commit(self.tree, hooks=True)
        self.assertEqual(f"src/a.py\n{self.tree.path}\n", (self.folder / "pre").read_text())
        self.assertEqual("Change it\n", (self.folder / "msg").read_text())

    def test_the_repositorys_own_hooks_path_is_used(self) -> None:
        """Where the config says that hooks lie."""
        self.git("config", "core.hooksPath", str(self.repo / "my hooks"))
        self.hook("pre-commit", "echo too long >&2; exit 1", folder="my hooks")
        with self.assertRaisesRegex(GitError, "git hook failed: too long"):
            self.commit(self.tree, hooks=True)

    def test_a_hook_that_refuses_or_changes_something_stops_the_commit(self) -> None:
        """The branch stays; a formatter that edits or stages, a hook that rewrites the message."""
        cases = (
            ("pre-commit", "exit 3", "git hook failed"),
            ("pre-commit", "echo x >> src/a.py", "pre-commit hook changed files"),
            ("pre-commit", "echo x > n; git add n; rm n", "pre-commit hook changed files"),
            ("commit-msg", 'echo trailer >> "$1"', "commit-msg hook changed the message"),
            ("commit-msg", "echo no >&2; exit 1", "git hook failed: no"),
        )
        for name, body, words in cases:
            with self.subTest(body=body):
                write_files(self.tree.path, {"src/a.py": "A = 2\n"})
                self.hook(name, body)
                with self.assertRaisesRegex(GitError, words):
                    self.commit(self.tree, hooks=True)
                (self.repo / ".git/hooks" / name).unlink()
        self.assertEqual(0, self.count())

    def test_a_branch_that_moves_at_the_last_moment_is_not_moved_again(self) -> None:
        """Between the look at the branch and its move: git compares once more."""
        self.hook("pre-commit", "git update-ref refs/heads/teams/r1 $(git commit-tree 'HEAD^{tree}' -p HEAD -m theirs)")
        with self.assertRaisesRegex(GitError, "git update-ref failed"):
            self.commit(self.tree, hooks=True)
        self.assertEqual("theirs\n", self.git("show", "-s", "--format=%s", "teams/r1"))

    def test_hooks_need_a_git_that_can_run_them(self) -> None:
        """An older git says so, and nothing is committed."""
        old = replace(self.tree, repository=replace(self.tree.repository, version=(2, 35)))
        with self.assertRaisesRegex(GitError, r"needs git 2\.36 or newer"):
            self.commit(old, hooks=True)


class SigningTest(CommitCase):
    """Allowed signing signs when the config asks for it, and a signed commit is found again."""

    def setUp(self) -> None:
        super().setUp()
        program = self.folder / "gpg"
        sign = "echo '-----BEGIN PGP SIGNATURE-----'; date +%s%N; echo '-----END PGP SIGNATURE-----'"
        program.write_text(f"#!/bin/sh\ncat > /dev/null\n{sign}\nprintf '\\n[GNUPG:] SIG_CREATED \\n' >&2\n")
        program.chmod(0o755)
        self.git("config", "gpg.program", str(program))

    def test_a_commit_is_signed_when_allowed_and_asked_for(self) -> None:
        """Both are needed."""
        for asked, allowed in ((True, True), (True, False), (False, True)):
            with self.subTest(asked=asked, allowed=allowed):
                self.git("config", "commit.gpgSign", str(asked).lower())
                self.git("update-ref", "refs/heads/teams/r1", self.tree.base)
                commit = self.commit(self.tree, signing=allowed)
                self.assertEqual(asked and allowed, "gpgsig" in self.git("cat-file", "commit", commit))

    def test_a_signed_commit_is_found_again(self) -> None:
        """Signatures differ from time to time; the commit is recognised without."""
        self.git("config", "commit.gpgSign", "true")
        prepared = self.prepare(self.tree)
        commits = {make_commit(self.tree, prepared, allow_hooks=False, allow_signing=True) for _ in range(2)}
        self.assertEqual((1, 1), (len(commits), self.count()))

    def test_a_failed_signature_is_one_line(self) -> None:
        """The branch stays."""
        self.git("config", "commit.gpgSign", "true")
        self.git("config", "gpg.program", "false")
        with self.assertRaisesRegex(GitError, "gpg failed to sign"):
            self.commit(self.tree, signing=True)
        self.assertEqual(0, self.count())


class RecordedTest(GitCase):
    """What a record, which anybody may have changed, gives as a commit or as a base."""

    def test_what_is_no_commit_is_refused(self) -> None:
        worktree = self.worktree()
        (worktree.path / "src/a.py").write_text("A = 2\n")
        good = self.prepare(worktree).payload()
        self.assertEqual(good, PreparedCommit.from_payload(good).payload())
        odd = {"branch": None, "base": "HEAD", "tree": "--output=x", "paths": None, "message": 5, "author": "me"}
        for key, value in odd.items():
            with self.subTest(key), self.assertRaisesRegex(GitError, f"recorded commit's.* {key}"):
                PreparedCommit.from_payload(good | {key: value})

    def test_a_base_that_is_no_id_is_never_given_to_git(self) -> None:
        for base in ("", "HEAD", "--index-output=x"):
            with self.subTest(base), self.assertRaisesRegex(GitError, "full id of a commit"):
                ensure_worktree(self.open(), self.folder / "state" / "r2", "r2", Base(base, None))


if __name__ == "__main__":
    unittest.main()
