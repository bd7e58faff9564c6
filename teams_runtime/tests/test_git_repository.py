"""A repository is found, or refused with one clear line."""

from __future__ import annotations

import os
import re
import unittest
from pathlib import Path

from teams_runtime.git.command import Git
from teams_runtime.git.repository import Base, Repository, author_identity, check_owned_paths, owns
from teams_runtime.shared.errors import GitError
from teams_runtime.tests.git_fixture import GitCase


class OpenTest(GitCase):
    def refused(self, path: Path) -> str:
        """Return the one line that opening is refused with."""
        with self.assertRaises(GitError) as caught:
            self.open(path)
        self.assertNotIn("\n", str(caught.exception))
        self.assertIn(str(path), str(caught.exception))
        return str(caught.exception)

    def test_head_is_the_commit_and_the_branch(self) -> None:
        """What is checked out now is a full id and a branch name."""
        self.assertEqual(Base(self.git("rev-parse", "HEAD").strip(), "main"), self.open().head())

    def test_a_branch_with_a_slash_is_named_whole(self) -> None:
        """Only the refs/heads part is left away."""
        self.git("switch", "-q", "-c", "feature/a-b")
        self.assertEqual("feature/a-b", self.open().head().branch)

    def test_a_detached_head_has_no_branch(self) -> None:
        """A detached HEAD is fine: there is a commit, and no branch."""
        self.git("checkout", "-q", "--detach")
        self.assertEqual(Base(self.git("rev-parse", "HEAD").strip(), None), self.open().head())

    def test_a_subfolder_leads_to_the_top(self) -> None:
        """Any folder of the checkout will do."""
        self.assertEqual(self.repo, self.open(self.repo / "src").root)

    def test_no_repository_is_refused(self) -> None:
        """A folder outside any repository, and one that is not there."""
        self.assertIn("not a git repository", self.refused(self.home))
        self.assertIn("no such folder", self.refused(self.folder / "gone"))
        self.assertIn("no such folder", self.refused(self.repo / "README.md"))

    def test_an_empty_repository_is_refused(self) -> None:
        """No commit yet: the line says what to do."""
        empty = self.folder / "empty"
        empty.mkdir()
        self.git("init", "-q", cwd=empty)
        self.assertIn("no commit yet; make a first one", self.refused(empty))

    def test_a_bare_repository_is_refused(self) -> None:
        """There are no files to work on; likewise inside .git."""
        bare = self.folder / "bare.git"
        self.git("clone", "-q", "--bare", str(self.repo), str(bare))
        self.assertIn("bare", self.refused(bare))
        self.assertIn("bare", self.refused(self.repo / ".git"))

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a folder to another user")
    def test_a_repository_of_another_user_is_refused(self) -> None:
        """Git's safe.directory refusal becomes one line with the remedy."""
        for path in (self.repo, self.repo / ".git"):
            os.chown(path, 12345, 12345)
        self.assertIn("belongs to another user", self.refused(self.repo))
        self.assertIn("safe.directory", self.refused(self.repo))

    def test_a_missing_git_is_one_line(self) -> None:
        """The remedy is told."""
        with self.assertRaisesRegex(GitError, r"no such program; install it.*git 2\.31 or newer is needed"):
            Repository.open(self.repo, {"PATH": str(self.home)})

    def test_an_old_git_is_refused(self) -> None:
        """A git that lacks what is needed says so at once."""
        fake = self.home / "git"
        fake.write_text("#!/bin/sh\necho git version 2.30.9\n")
        fake.chmod(0o755)
        with self.assertRaisesRegex(GitError, r"2\.31 or newer is needed, found 'git version 2\.30\.9'"):
            Repository.open(self.repo, {"PATH": str(self.home)})

    def test_the_callers_git_variables_do_not_leak(self) -> None:
        """GIT_DIR and its kind, as set inside a hook or an alias, change nothing."""
        other = self.make_repository("other", {"x": "x"})
        leak = {"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other), "GIT_INDEX_FILE": str(other / "i")}
        repository = Repository.open(self.repo, {**self.environment, **leak})
        self.assertEqual(self.repo, repository.root)

    def test_no_home_is_fine(self) -> None:
        """A service account without HOME can work."""
        repository = Repository.open(self.repo, {"PATH": os.environ["PATH"]})
        self.assertEqual("main", repository.head().branch)

    def test_a_command_that_takes_too_long_is_ended(self) -> None:
        """A git that hangs is one line."""
        program = self.home / "git"
        program.write_text("#!/bin/sh\nsleep 600\n")
        program.chmod(0o755)
        git = Git(self.repo, {"PATH": f"{self.home}:{os.environ['PATH']}"})
        with self.assertRaisesRegex(GitError, "git status did not end within 0.2 seconds"):
            git.run("status", deadline_seconds=0.2)


class PageTest(unittest.TestCase):
    def test_every_test_that_the_page_names_is_there(self) -> None:
        """The claims of docs/git.md keep their proof."""
        tests = Path(__file__).resolve().parent
        page = (tests.parents[1] / "docs/git.md").read_text(encoding="utf-8")
        code = "".join(path.read_text(encoding="utf-8") for path in tests.glob("test_*.py"))
        named = set(re.findall(r"`(test_[a-z0-9_]+)`", page))
        self.assertEqual([], sorted(name for name in named if f"def {name}(" not in code))
        self.assertGreater(len(named), 50)


class CallTest(GitCase):
    def test_a_path_is_never_a_pattern(self) -> None:
        """Stars and pathspec signs stand for themselves."""
        git = Git(self.repo, self.environment)
        for path in ("*", ":(glob)**", ":/", "src/?.py"):
            with self.subTest(path=path):
                self.assertEqual("", git.text("ls-files", "--", path))

    def test_messages_are_in_english(self) -> None:
        """They are read, and shown, whatever the user's language is."""
        git = Git(self.repo, {**self.environment, "LC_ALL": "de_DE.UTF-8", "LC_MESSAGES": "fr", "LANGUAGE": "de"})
        self.assertEqual("C", git.text("-c", "alias.say=!echo $LC_ALL$LANGUAGE", "say"))


class IdentityTest(GitCase):
    def test_the_author_is_whom_the_config_names(self) -> None:
        """Both parts set, in the repository or for the user."""
        self.git("config", "user.name", "Ada <L>\n Byron")
        (self.home / ".gitconfig").write_text("[user]\n\temail = ada@example.org\n")
        self.assertEqual({"name": "Ada L Byron", "email": "ada@example.org"}, author_identity(self.open()))

    def test_the_author_is_the_runtime_without_config(self) -> None:
        """A part alone is no identity."""
        own = {"name": "teams_runtime", "email": "teams-runtime@localhost"}
        self.assertEqual(own, author_identity(self.open()))
        self.git("config", "user.name", "Ada")
        self.assertEqual(own, author_identity(self.open()))


class OwnedPathsTest(unittest.TestCase):
    def test_owned_paths_are_literal_and_inside(self) -> None:
        """What leaves the repository, or is git's or ours, is refused; nothing is a pattern."""
        for path in ("", "/etc", "../x", "a/../b", ".git", "a/.GIT/b", ".teams_runtime", "x/.teams_runtime/y", "a\0b"):
            with self.subTest(path=path), self.assertRaisesRegex(GitError, "owned path"):
                check_owned_paths([path])
        for path, kept in (
            (".", "."),
            ("./a/", "a"),
            ("a b", "a b"),
            ("*[x]", "*[x]"),
            ("-d", "-d"),
            (":(top)a", ":(top)a"),
        ):
            with self.subTest(path=path):
                self.assertEqual((kept,), check_owned_paths([path]))

    def test_a_path_owns_what_lies_below_it(self) -> None:
        """By whole names, not by letters."""
        table = ((".", "a/b", True), ("a", "a", True), ("a", "a/b", True), ("a", "ab", False), ("a*", "ab", False))
        for owned, path, expected in table:
            with self.subTest(owned=owned, path=path):
                self.assertEqual(expected, owns([owned], path))


if __name__ == "__main__":
    unittest.main()
