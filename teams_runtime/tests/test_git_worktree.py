"""A request's worktree is made once, judged by what lies on the disk, and the user's checkout is never touched."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path

from teams_runtime.git.repository import Repository
from teams_runtime.git.worktree import Worktree, ensure_worktree
from teams_runtime.shared.errors import GitError, InputError
from teams_runtime.tests.git_fixture import GitCase, write_files

ALL = (".",)


class EnsureTest(GitCase):
    def refused(self, words: str, request_id: str = "r1") -> None:
        with self.assertRaisesRegex(GitError, words) as caught:
            self.worktree(request_id)
        self.assertNotIn("\n", str(caught.exception))

    def test_a_worktree_is_made_at_the_base_on_its_own_branch(self) -> None:
        """The files are there, on teams/<id>, without an upstream."""
        worktree = self.worktree()
        self.assertEqual("hello\n", (worktree.path / "README.md").read_text())
        self.assertEqual("teams/r1\n", self.git("branch", "--show-current", cwd=worktree.path))
        self.git("config", "--get-regexp", "^branch", code=1)

    def test_a_second_call_changes_nothing(self) -> None:
        """Work in the worktree survives, and the same value comes back."""
        first = self.worktree()
        write_files(first.path, {"src/a.py": "A = 2\n"})
        self.assertEqual(first, self.worktree())
        self.assertEqual("A = 2\n", (first.path / "src/a.py").read_text())

    def test_the_users_checkout_is_untouched(self) -> None:
        """Staged, dirty and untracked files, index, config, HEAD and other refs are the same before and after."""
        write_files(self.repo, {"src/a.py": "staged\n", "new": "new\n"})
        self.git("add", "src/a.py")
        write_files(self.repo, {"src/a.py": "dirty\n", "README.md": "dirty\n"})
        before = self.checkout_state()
        worktree = self.worktree()
        write_files(worktree.path, {"src/a.py": "team\n", "README.md": "team\n"})
        self.commit(worktree)
        self.assertEqual(before, self.checkout_state())

    def test_a_locked_index_of_the_user_is_no_obstacle(self) -> None:
        """Whatever the user's git is doing just now does not matter."""
        (self.repo / ".git/index.lock").write_bytes(b"")
        worktree = self.worktree()
        write_files(worktree.path, {"src/a.py": "A = 2\n"})
        self.assertEqual(["M src/a.py"], self.shown(self.commit(worktree)))

    def test_a_detached_head_and_a_moved_user_branch_are_fine(self) -> None:
        """The base is the commit that was recorded, not what is checked out later."""
        self.git("checkout", "-q", "--detach")
        base = self.open().head()
        write_files(self.repo, {"later": "x"})
        self.commit_all("later")
        worktree = ensure_worktree(self.open(), self.folder / "w", "r1", base)
        self.assertEqual(base.commit, worktree.base)
        self.assertFalse((worktree.path / "later").exists())

    def test_a_deleted_folder_is_made_again_from_its_branch(self) -> None:
        """What was committed is there again."""
        worktree = self.worktree()
        write_files(worktree.path, {"src/a.py": "A = 2\n"})
        self.commit(worktree)
        self.git("worktree", "list")
        subprocess.run(["rm", "-r", str(worktree.path)], check=True)
        self.assertEqual("A = 2\n", (self.worktree().path / "src/a.py").read_text())

    def test_a_pruned_worktree_is_made_again_while_its_branch_is_at_the_base(self) -> None:
        """The branch that is left holds nothing yet, so it can be taken."""
        subprocess.run(["rm", "-r", str(self.worktree().path)], check=True)
        self.git("worktree", "prune")
        self.assertTrue((self.worktree().path / "README.md").is_file())

    def test_a_deleted_but_locked_worktree_is_refused(self) -> None:
        """Somebody locked it for a reason: the line says how to unlock it."""
        worktree = self.worktree()
        self.git("worktree", "lock", "--reason", "on a stick", str(worktree.path))
        subprocess.run(["rm", "-r", str(worktree.path)], check=True)
        self.refused(r"locked \('on a stick'\); unlock it: git worktree unlock")

    def test_a_locked_worktree_that_is_there_is_used(self) -> None:
        """A lock only guards against pruning."""
        worktree = self.worktree()
        self.git("worktree", "lock", str(worktree.path))
        self.assertEqual(worktree, self.worktree())

    def test_a_half_made_worktree_is_made_anew(self) -> None:
        """A kill while git makes it leaves git's own lock, half the files and the branch."""
        worktree = self.worktree()
        (worktree.folder / "locked").write_text("initializing")
        (worktree.path / "README.md").unlink()
        self.assertEqual(worktree, self.worktree())
        self.assertTrue((worktree.path / "README.md").is_file())

    def test_a_branch_with_other_commits_is_refused(self) -> None:
        """A branch of that name from elsewhere is neither moved nor built upon."""
        self.git("switch", "-q", "-c", "teams/r1")
        write_files(self.repo, {"x": "x"})
        theirs = self.commit_all("theirs")
        self.git("switch", "-q", "main")
        self.refused(
            "branch 'teams/r1' is already there with other commits; rename it: git branch -m teams/r1 NEW_NAME"
        )
        self.assertEqual(theirs, self.git("rev-parse", "teams/r1").strip())

    def test_a_branch_that_is_checked_out_elsewhere_is_refused(self) -> None:
        """The user has it checked out."""
        self.git("switch", "-q", "-c", "teams/r1")
        self.refused("git worktree failed: .*already")

    def test_a_folder_in_the_way_is_refused(self) -> None:
        """Files that are not ours are never written over."""
        write_files(self.folder / "state/r1", {"mine": "x"})
        self.refused("this folder is in the way")

    def test_a_worktree_of_another_repository_is_refused(self) -> None:
        """A folder that looks right, but belongs to another repository."""
        other = self.make_repository("other")
        worktree = self.worktree()
        self.git("worktree", "move", str(worktree.path), str(self.folder / "away"))
        self.git("worktree", "add", "-q", str(worktree.path), cwd=other)
        self.refused("this folder is in the way")
        (worktree.folder / "gitdir").write_text(f"{worktree.path}/.git\n")
        self.refused("belongs to another repository")

    def test_a_worktree_on_another_branch_is_refused(self) -> None:
        """A role that switched branches is found out."""
        worktree = self.worktree()
        self.git("switch", "-q", "-c", "elsewhere", cwd=worktree.path)
        self.refused("must be on branch 'teams/r1', is on branch 'elsewhere'")
        self.git("checkout", "-q", "--detach", cwd=worktree.path)
        self.refused("is on no branch")

    def test_a_request_id_that_is_no_name_is_refused(self) -> None:
        """The id is checked before anything is made."""
        with self.assertRaises(InputError):
            self.worktree("../x")

    def test_two_processes_make_one_worktree(self) -> None:
        """Both are given the same one; there is no half-made state to be seen."""
        code = "import os, sys; from pathlib import Path; from teams_runtime.git.repository import Repository\n"
        code += "from teams_runtime.git.worktree import ensure_worktree\nr = Repository.open(Path(sys.argv[1]))\n"
        code += (
            "w = ensure_worktree(r, Path(sys.argv[2]), 'r1', r.head()); print(w.path, w.branch, w.base, w.tree(['.']))"
        )
        argv = [sys.executable, "-c", code, str(self.repo), str(self.folder / "state/r1")]
        environment = {**self.environment, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        running = [subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE) for _ in range(3)]
        said = {process.communicate()[0] for process in running}
        self.assertEqual([0, 0, 0], [process.returncode for process in running])
        self.assertEqual(1, len(said))

    def test_a_linked_worktree_can_be_the_repository(self) -> None:
        """The user may work in a worktree of their own."""
        self.git("worktree", "add", "-q", "-b", "side", str(self.folder / "side"))
        self.assertEqual("side", self.open(self.folder / "side").head().branch)
        self.assertTrue((self.worktree(repo=self.folder / "side").path / "README.md").is_file())


class StateFolderTest(GitCase):
    def test_the_runtimes_folder_is_in_no_tree(self) -> None:
        """Nothing below .teams_runtime counts, even when its own .gitignore is gone."""
        worktree = self.worktree()
        before = worktree.tree(ALL)
        write_files(worktree.path, {".teams_runtime/requests/r1.json": "{}", "src/.teams_runtime/x": "x"})
        (worktree.path / ".teams_runtime/.gitignore").unlink()
        changes = worktree.changes(["src"])
        self.assertEqual((before, (), ()), (changes.tree, changes.paths, changes.outside))

    def test_the_runtimes_folder_ignores_itself(self) -> None:
        """The role's own git does not see it either."""
        worktree = self.worktree()
        self.assertEqual("*\n", (worktree.path / ".teams_runtime/.gitignore").read_text())
        self.assertEqual("", self.git("status", "--porcelain", cwd=worktree.path))

    def test_a_link_in_place_of_the_runtimes_folder_is_refused(self) -> None:
        """A repository cannot make the runtime write outside its worktree."""
        outside = self.folder / "outside"
        outside.mkdir()
        (self.repo / ".teams_runtime").symlink_to(outside)
        self.commit_all("link")
        with self.assertRaisesRegex(GitError, "must be a folder of the runtime's own"):
            self.worktree()
        self.assertEqual([], list(outside.iterdir()))

    def test_a_link_in_place_of_its_ignore_file_is_refused(self) -> None:
        """Likewise one level deeper."""
        target = self.folder / "target"
        target.write_text("precious")
        (self.repo / ".teams_runtime").mkdir()
        (self.repo / ".teams_runtime/.gitignore").symlink_to(target)
        self.commit_all("link")
        with self.assertRaisesRegex(GitError, "must be a plain file"):
            self.worktree()
        self.assertEqual("precious", target.read_text())


class TreeTest(GitCase):
    def changed(self, worktree: Worktree, owned: tuple[str, ...] = ALL) -> tuple[str, ...]:
        return worktree.changes(owned).paths

    def test_no_change_is_the_tree_of_the_base(self) -> None:
        """Nothing owned or outside, no stat."""
        changes = self.worktree().changes(ALL)
        self.assertEqual(self.git("rev-parse", "HEAD^{tree}").strip(), changes.tree)
        self.assertEqual(((), (), ""), (changes.paths, changes.outside, changes.stat))

    def test_every_kind_of_change_is_seen(self) -> None:
        """New, changed, deleted, renamed, made executable, made a link, file and folder exchanged."""
        worktree = self.worktree()
        path = worktree.path
        write_files(path, {"new/deep/x": "", "src/a.py": "A = 2\n"})
        (path / "README.md").rename(path / "READ ME.md")
        (path / "src/b.py").chmod(0o755)
        (path / "docs/guide.md").unlink()
        (path / "docs").rmdir()
        (path / "docs").symlink_to("src")
        (path / "empty").mkdir()
        expected = ("READ ME.md", "README.md", "docs", "docs/guide.md", "new/deep/x", "src/a.py", "src/b.py")
        changes = worktree.changes(ALL)
        self.assertEqual(expected, changes.paths)
        self.assertIn("7 files changed", changes.stat)
        listing = self.git("ls-tree", "-r", changes.tree)
        self.assertIn("100755", listing.split("src/b.py")[0].splitlines()[-1])

    def test_a_file_becomes_a_folder(self) -> None:
        """The file goes, what is in the folder comes."""
        worktree = self.worktree()
        (worktree.path / "README.md").unlink()
        write_files(worktree.path, {"README.md/x": "x"})
        self.assertEqual(("README.md", "README.md/x"), self.changed(worktree))

    def test_a_path_below_a_file_that_is_not_owned_is_refused(self) -> None:
        """The file would have to go, and it is not ours to remove."""
        worktree = self.worktree()
        (worktree.path / "README.md").unlink()
        write_files(worktree.path, {"README.md/x": "x"})
        with self.assertRaisesRegex(GitError, "git update-index failed: .*README.md"):
            worktree.tree(["README.md/x"])

    def test_only_owned_paths_are_in_the_tree(self) -> None:
        """What else changed is told, and left out."""
        worktree = self.worktree()
        write_files(worktree.path, {"src/a.py": "A = 2\n", "srcs": "x", "new": "x"})
        (worktree.path / "README.md").unlink()
        changes = worktree.changes(["src", "missing"])
        self.assertEqual((("src/a.py",), ("README.md", "new", "srcs")), (changes.paths, changes.outside))
        self.assertEqual(changes.tree, worktree.tree(["src"]))

    def test_ignored_files_are_left_alone_unless_tracked(self) -> None:
        """An ignored new file is no change, even when it is owned by name; a tracked one is."""
        write_files(self.repo, {".gitignore": "*.log\nbuild\n", "kept.log": "1\n"})
        self.git("add", "-f", "kept.log")
        self.commit_all("ignore")
        worktree = self.worktree()
        write_files(worktree.path, {"new.log": "x", "build/out": "x", "kept.log": "2\n"})
        self.assertEqual(("kept.log",), self.changed(worktree, ("build", "kept.log", "new.log")))

    def test_odd_names_are_literal(self) -> None:
        """Spaces, unicode, dashes, newlines, glob and pathspec signs, bytes that are not UTF-8."""
        names = (
            "a b",
            "ünï→🎉",
            "-rf",
            "--all",
            "line\nbreak",
            "tab\there",
            "*",
            "[ab]",
            "?",
            ":(top)x",
            "!x",
            '"q"',
            "\udcff",
        )
        worktree = self.worktree()
        write_files(worktree.path, dict.fromkeys((*names, "plain", "a"), "x"))
        self.assertEqual(tuple(sorted(names)), self.changed(worktree, names))
        changes = worktree.changes(names)
        self.assertEqual({"a", "plain"}, set(changes.outside))
        self.assertIn("ünï→🎉", changes.stat)

    def test_the_same_content_is_the_same_tree(self) -> None:
        """Whatever was tried in between; the stamp of a file does not matter."""
        worktree = self.worktree()
        before = worktree.tree(ALL)
        write_files(worktree.path, {"src/a.py": "A = 2\n", "x": "x"})
        self.assertNotEqual(before, worktree.tree(ALL))
        write_files(worktree.path, {"src/a.py": "A = 1\n"})
        (worktree.path / "x").unlink()
        self.assertEqual(before, worktree.tree(ALL))

    def test_a_change_of_the_same_size_at_the_same_time_is_seen(self) -> None:
        """Right after a tree was taken, with the file's time put back."""
        worktree = self.worktree()
        path = worktree.path / "src/a.py"
        stat = path.stat()
        seen = {worktree.tree(ALL)}
        for digit in "23456":
            path.write_text(f"A = {digit}\n")
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            seen.add(worktree.tree(ALL))
        self.assertEqual(6, len(seen))

    def test_what_a_role_does_with_git_hides_nothing(self) -> None:
        """Staging, bits in the index, excludes by skip-worktree, a commit: the disk against the base is what counts."""
        worktree = self.worktree()
        write_files(worktree.path, {"src/a.py": "A = 2\n", "src/b.py": "B = 2\n", "new": "x"})
        tree = worktree.tree(ALL)
        self.git("update-index", "--assume-unchanged", "src/a.py", cwd=worktree.path)
        self.git("update-index", "--skip-worktree", "src/b.py", cwd=worktree.path)
        self.assertEqual(tree, worktree.tree(ALL))
        self.git("rm", "-q", "--cached", "README.md", cwd=worktree.path)
        self.git("commit", "-q", "-m", "mine", cwd=worktree.path)
        self.assertEqual(tree, worktree.tree(ALL))

    def test_taking_the_tree_changes_nothing_of_the_worktree(self) -> None:
        """Its index, HEAD and files stay as they are."""
        worktree = self.worktree()
        write_files(worktree.path, {"src/a.py": "A = 2\n", "new": "x"})
        self.git("add", "new", cwd=worktree.path)
        kept = [worktree.folder / "index", worktree.folder / "HEAD", worktree.path / "src/a.py"]
        before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in kept]
        worktree.changes(ALL)
        self.assertEqual(before, [(path.read_bytes(), path.stat().st_mtime_ns) for path in kept])

    def test_a_broken_or_locked_private_index_mends_itself(self) -> None:
        """A kill in the middle leaves nothing that has to be tidied by hand."""
        worktree = self.worktree()
        write_files(worktree.path, {"src/a.py": "A = 2\n"})
        tree = worktree.tree(ALL)
        (worktree.folder / "teams_runtime/index").write_bytes(b"rubbish")
        (worktree.folder / "teams_runtime/index.lock").write_bytes(b"")
        self.assertEqual(tree, worktree.tree(ALL))

    def test_a_sparse_checkout_of_the_user_deletes_nothing(self) -> None:
        """The team's worktree is whole, whatever the user has left out of theirs."""
        self.git("sparse-checkout", "set", "src")
        worktree = self.worktree()
        self.assertTrue((worktree.path / "docs/guide.md").is_file())
        self.assertEqual((), self.changed(worktree))


class Sha256Test(GitCase):
    object_format = "sha256"

    def test_a_sha256_repository_works(self) -> None:
        """Ids are 64 digits; a deletion, a change and a commit."""
        worktree = self.worktree()
        write_files(worktree.path, {"src/a.py": "A = 2\n"})
        (worktree.path / "README.md").unlink()
        commit = self.commit(worktree)
        self.assertEqual(64, len(commit))
        self.assertEqual(["D README.md", "M src/a.py"], self.shown(commit))


class NoHomeTest(GitCase):
    def test_the_whole_way_without_home_and_with_leaking_variables(self) -> None:
        """Neither a missing HOME nor the caller's GIT_* variables matter to worktree and commit."""
        leak = {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/i", "GIT_WORK_TREE": "/", "GIT_AUTHOR_NAME": "Eve"}
        self.git("config", "user.useConfigOnly", "true")
        repository = Repository.open(self.repo, {"PATH": os.environ["PATH"], **leak})
        worktree = ensure_worktree(repository, self.folder / "w", "r1", repository.head())
        write_files(worktree.path, {"src/a.py": "A = 2\n"})
        commit = self.commit(worktree)
        self.assertEqual("Ada\n", self.git("show", "-s", "--format=%an", commit))
        self.assertEqual(["Ada", "teams_runtime"], self.git("reflog", "--format=%gn", "teams/r1").split())


if __name__ == "__main__":
    unittest.main()
