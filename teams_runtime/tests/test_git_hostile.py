"""A repository whose config, hooks and content are hostile runs nothing and reaches nothing outside."""

from __future__ import annotations

import os
import unittest
from pathlib import Path

from teams_runtime.git.command import Git
from teams_runtime.shared.errors import GitError
from teams_runtime.tests.git_fixture import GitCase, write_files

ALL = (".",)
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "reference-transaction"),
    *("post-index-change", "post-rewrite", "fsmonitor-watchman", "pre-auto-gc", "push-to-checkout", "update"),
)
PROGRAM_KEYS = (
    *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "core.gitProxy"),
    *("diff.external", "diff.evil.command", "diff.evil.textconv", "merge.evil.driver", "interactive.diffFilter"),
    *("gpg.program", "gpg.ssh.program", "gpg.x509.program", "gpg.ssh.defaultKeyCommand", "credential.helper"),
    *("pager.diff-tree", "pager.status", "sequence.editor", "core.alternateRefsCommand", "alias.commit-tree"),
    *("uploadpack.packObjectsHook", "trailer.x.command", "browser.x.cmd"),
)


class ProgramTest(GitCase):
    """No program that a repository names is run, from opening to the commit."""

    def whole_way(self) -> str:
        """Do everything that the runtime does to a repository."""
        worktree = self.worktree()
        write_files(worktree.path, {"src/a.py": "A = 2\n", "new.bin": "x", "README.md": "hi\n"})
        worktree.changes(ALL)
        commit = self.commit(worktree)
        self.worktree()
        return commit

    def assert_never_run(self, mark: Path) -> None:
        self.whole_way()
        self.assertFalse(mark.exists())

    def test_no_hook_runs(self) -> None:
        """Every hook that git knows, in the usual folder."""
        program, mark = self.canary("hook")
        for name in HOOKS:
            (self.repo / ".git/hooks" / name).symlink_to(program)
        self.assert_never_run(mark)

    def test_no_hook_of_a_named_folder_runs(self) -> None:
        """core.hooksPath, in the checkout or elsewhere."""
        program, mark = self.canary("hook")
        write_files(self.repo, {"hooks/x": ""})
        for name in HOOKS:
            (self.repo / "hooks" / name).symlink_to(program)
        for place in (str(self.repo / "hooks"), "hooks"):
            with self.subTest(place=place):
                self.git("config", "core.hooksPath", place)
                self.assert_never_run(mark)

    def test_no_configured_hook_is_enabled(self) -> None:
        """Newer gits take hooks from the config itself; they are switched off by name."""
        self.git("config", "hook.evil.x.command", "true")
        git = Git(self.repo, self.environment).without_local_programs()
        self.assertEqual("false", git.text("config", "hook.evil.x.enabled"))

    def test_the_safe_settings_win_over_the_config(self) -> None:
        """Also for what a git command starts in its turn."""
        settings = {"core.hooksPath": os.devnull, "core.fsmonitor": "false", "commit.gpgSign": "false"}
        for key, value in settings.items():
            with self.subTest(key=key):
                self.git("config", key, "true")
                self.assertEqual(value, Git(self.repo, self.environment).text("config", key))

    def test_no_configured_program_runs(self) -> None:
        """Monitors, pagers, editors, diffs, signers, askers, transports."""
        write_files(self.repo, {".gitattributes": "* diff=evil merge=evil\n"})
        self.commit_all("attributes")
        marks = []
        for key in PROGRAM_KEYS:
            program, mark = self.canary(key)
            self.git("config", key, str(program))
            marks.append(mark)
        for key, value in (("commit.gpgSign", "true"), ("tag.gpgSign", "true"), ("log.showSignature", "true")):
            self.git("config", key, value)
        for mark in marks:
            mark.unlink(missing_ok=True)  # the user's own git ran some while this was set up
        self.whole_way()
        self.assertEqual([], [mark.name for mark in marks if mark.exists()])

    def test_fsmonitor_does_not_run(self) -> None:
        """A plain `git status` would run it."""
        program, mark = self.canary("monitor")
        self.git("config", "core.fsmonitor", str(program))
        self.git("status")
        self.assertTrue(mark.exists())
        mark.unlink()
        self.assert_never_run(mark)

    def test_no_filter_of_the_repository_runs(self) -> None:
        """Clean, smudge and process of every driver in the repository's config, however its name is spelled."""
        program, mark = self.canary("filter")
        write_files(self.repo, {".gitattributes": "*.py filter=evil\n*.bin filter=e=v.i\n*.md filter=evil\n"})
        self.commit_all("attributes")
        for name in ("evil", "e=v.i"):
            for part in ("clean", "smudge", "process"):
                self.git("config", f"filter.{name}.{part}", f"'{program}'")
            self.git("config", f"filter.{name}.required", "true")
        self.assert_never_run(mark)

    def test_no_filter_of_a_worktrees_config_runs(self) -> None:
        """Nor one that a role put into the worktree's own config while it worked."""
        program, mark = self.canary("filter")
        worktree = self.worktree()
        self.git("config", "extensions.worktreeConfig", "true")
        self.git("config", "--worktree", "filter.evil.clean", f"'{program}'", cwd=worktree.path)
        write_files(worktree.path, {".gitattributes": "* filter=evil\n", "new": "x"})
        self.commit(worktree)
        self.assertFalse(mark.exists())

    def test_a_filter_that_the_user_set_up_for_all_repositories_runs(self) -> None:
        """That is how Git LFS works, and the user's own config is the user's own will."""
        program = self.folder / "upper"
        program.write_text("#!/bin/sh\ntr a-z A-Z\n")
        program.chmod(0o755)
        (self.home / ".gitconfig").write_text(f"[filter \"up\"]\n\tclean = '{program}'\n")
        write_files(self.repo, {".gitattributes": "*.up filter=up\n"})
        self.commit_all("attributes")
        worktree = self.worktree()
        write_files(worktree.path, {"x.up": "word\n"})
        self.assertEqual("WORD\n", self.git("show", f"{self.commit(worktree)}:x.up"))

    def test_git_lfs_is_told_to_download_nothing(self) -> None:
        """A filter of the user's sees the variable that Git LFS looks for."""
        said = self.folder / "said"
        smudge = f"echo $GIT_LFS_SKIP_SMUDGE > '{said}'; cat"
        (self.home / ".gitconfig").write_text(f'[filter "lfs"]\n\tsmudge = "{smudge}"\n')
        write_files(self.repo, {".gitattributes": "*.md filter=lfs\n"})
        self.commit_all("attributes")
        self.worktree()
        self.assertEqual("1\n", said.read_text())

    def test_nothing_is_fetched(self) -> None:
        """A missing object of a partial clone is an error, not a program or a connection."""
        program, mark = self.canary("ssh")
        config = {
            "core.sshCommand": str(program),
            "remote.origin.promisor": "true",
            "extensions.partialClone": "origin",
        }
        for url in (f"ext::{program}", "ssh://host/x", str(self.make_repository("other"))):
            with self.subTest(url=url):
                for key, value in {**config, "remote.origin.url": url, "protocol.ext.allow": "always"}.items():
                    self.git("config", key, value)
                blob = self.git("rev-parse", "HEAD:README.md").strip()
                (self.repo / ".git/objects" / blob[:2] / blob[2:]).unlink(missing_ok=True)
                with self.assertRaisesRegex(GitError, "git worktree failed") as caught:
                    self.worktree()
                self.assertNotIn("\n", str(caught.exception))
                self.assertFalse(mark.exists())

    def test_a_worktree_whose_git_file_was_redirected_still_commits_to_its_own_repository(self) -> None:
        """The file `.git` in the worktree is not asked where the repository is."""
        worktree = self.worktree()
        other = self.make_repository("other")
        (worktree.path / ".git").write_text(f"gitdir: {other}/.git\n")
        write_files(worktree.path, {"src/a.py": "A = 2\n"})
        commit = self.commit(worktree)
        self.assertEqual(commit, self.git("rev-parse", "teams/r1").strip())


class SettingsTest(GitCase):
    """No setting hides a change or makes one up."""

    def test_line_ending_settings_change_nothing(self) -> None:
        """The tree is the same bytes under every setting, and an untouched worktree has no changes."""
        trees = set()
        for number, (autocrlf, eol) in enumerate((("true", "crlf"), ("input", "lf"), ("false", "native"))):
            with self.subTest(autocrlf=autocrlf):
                self.git("config", "core.autocrlf", autocrlf)
                self.git("config", "core.eol", eol)
                worktree = self.worktree(f"r{number}")
                self.assertEqual((), worktree.changes(ALL).paths)
                write_files(worktree.path, {"src/a.py": "A = 2\r\n", "src/b.py": "B = 2\n"})
                trees.add(worktree.tree(ALL))
        self.assertEqual(1, len(trees))
        self.assertEqual("A = 2\r\n", self.git("cat-file", "blob", f"{trees.pop()}:src/a.py"))

    def test_a_file_that_breaks_the_repositorys_own_rules_is_no_change_while_untouched(self) -> None:
        """CRLF in a file that the attributes call text would be rewritten by a plain `git add .`."""
        write_files(self.repo, {"dos.txt": "a\r\nb\r\n"})
        self.commit_all("dos")
        write_files(self.repo, {".gitattributes": "*.txt text\n"})
        self.git("add", ".gitattributes")
        self.git("commit", "-q", "-m", "rules")
        worktree = self.worktree()
        os.utime(worktree.path / "dos.txt", ns=(1, 1))
        self.assertEqual((), worktree.changes(ALL).paths)

    def test_settings_that_hide_changes_are_overruled(self) -> None:
        """Of stat checks, caches and indexes."""
        settings = {
            "core.ignoreStat": "true",
            "core.untrackedCache": "true",
            "core.splitIndex": "true",
            "core.sparseCheckout": "true",
            "status.showUntrackedFiles": "no",
            "diff.ignoreSubmodules": "all",
            "diff.noprefix": "true",
            "diff.renames": "copies",
            "i18n.commitEncoding": "latin1",
        }
        for key, value in settings.items():
            self.git("config", key, value)
        worktree = self.worktree()
        worktree.tree(ALL)
        write_files(worktree.path, {"src/a.py": "A = 2\n"})
        (worktree.path / "README.md").rename(worktree.path / "MOVED.md")
        commit = self.commit(worktree)
        self.assertEqual(["A MOVED.md", "D README.md", "M src/a.py"], self.shown(commit))
        self.assertNotIn("encoding", self.git("cat-file", "commit", commit))

    def test_settings_that_trust_a_files_time_are_overruled(self) -> None:
        """A change of the same size with an old time put back is seen."""
        for number, (key, value) in enumerate(
            (("core.trustctime", "true"), ("core.trustctime", "false"), ("core.checkStat", "minimal"))
        ):
            with self.subTest(key=key, value=value):
                self.git("config", key, value)
                worktree = self.worktree(f"r{number}")
                path = worktree.path / "src/a.py"
                os.utime(path, ns=(10**18, 10**18))
                before = worktree.tree(ALL)
                path.write_text("A = 2\n")
                os.utime(path, ns=(10**18, 10**18))
                self.assertNotEqual(before, worktree.tree(ALL))
                self.git("config", "--unset", key)

    def test_text_files_lie_on_the_disk_as_they_are_stored(self) -> None:
        """Whatever line end the machine prefers; and one that cannot be turned back is no obstacle."""
        write_files(self.repo, {".gitattributes": "*.txt text\n", "t.txt": "t\n"})
        self.commit_all("text")
        self.git("config", "core.eol", "crlf")
        self.git("config", "core.safecrlf", "true")
        worktree = self.worktree()
        self.assertEqual(b"t\n", (worktree.path / "t.txt").read_bytes())
        write_files(worktree.path, {"t.txt": "a\r\nb\n"})
        self.assertEqual("a\nb\n", self.git("show", f"{self.commit(worktree)}:t.txt"))

    def test_a_replaced_object_changes_no_base(self) -> None:
        """refs/replace cannot make another tree of the commit that was recorded."""
        base = self.git("rev-parse", "HEAD").strip()
        write_files(self.repo, {"evil": "x"})
        self.git("replace", base, self.commit_all("evil"))
        self.git("reset", "-q", "--hard", base)
        self.assertFalse((self.worktree().path / "evil").exists())


class LinkTest(GitCase):
    """Links lead inside, or are refused."""

    def test_links_out_of_the_tree_are_refused(self) -> None:
        """Absolute, relative, by way of another link, into git's own folder, and dangling."""
        (self.folder / "secret").write_text("secret")
        (self.repo / "way").symlink_to("..")
        self.commit_all("a link that was there before")
        worktree = self.worktree()
        link = worktree.path / "src/link"
        targets = (
            "/etc/passwd",
            "../../../secret",
            "../way/secret",
            "../way/way/nothing",
            "../.git",
            "../../nothing",
            str(worktree.path / "README.md"),
        )
        for target in targets:
            with self.subTest(target=target):
                link.symlink_to(target)
                with self.assertRaisesRegex(GitError, "src/link: the symbolic link must be relative and stay inside"):
                    worktree.tree(ALL)
                link.unlink()

    def test_links_inside_are_kept_as_links(self) -> None:
        """Up and down again, to a folder, dangling inside; and one out of the tree that the base has is no change."""
        (self.repo / "old").symlink_to("/etc/passwd")
        self.commit_all("old link")
        worktree = self.worktree()
        for name, target in (("l1", "src/a.py"), ("src/l2", "../docs"), ("l3", "nothing"), ("l4", "."), ("l5", "l5")):
            (worktree.path / name).symlink_to(target)
        commit = self.commit(worktree)
        self.assertEqual(["A l1", "A l3", "A l4", "A l5", "A src/l2"], self.shown(commit))
        self.assertTrue(self.git("ls-tree", commit, "l1").startswith("120000"))

    def test_links_outside_the_owned_paths_are_only_told(self) -> None:
        """They are in no tree, so nothing has to be refused."""
        worktree = self.worktree()
        (worktree.path / "link").symlink_to("/etc/passwd")
        self.assertEqual(("link",), worktree.changes(["src"]).outside)

    def test_a_linked_folder_is_not_followed(self) -> None:
        """A folder replaced by a link out of the tree brings nothing in."""
        worktree = self.worktree()
        outside = self.folder / "outside"
        write_files(outside, {"a.py": "secret", "b.py": "secret"})
        for name in ("a.py", "b.py"):
            (worktree.path / "src" / name).unlink()
        (worktree.path / "src").rmdir()
        (worktree.path / "src").symlink_to(outside)
        with self.assertRaisesRegex(GitError, "src: the symbolic link must"):
            worktree.tree(ALL)
        self.assertEqual(("src", "src/a.py", "src/b.py"), worktree.changes(["docs"]).outside)


class SubmoduleTest(GitCase):
    """A submodule that nobody touched is no obstacle; one that was touched is refused, never dropped silently."""

    def setUp(self) -> None:
        super().setUp()
        self.inner = self.make_repository("inner", {"x": "x"})
        self.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(self.inner), "sub")
        self.commit_all("submodule")
        self.tree = self.worktree()
        self.sub = self.tree.path / "sub"

    def test_submodules_are_not_checked_out(self) -> None:
        """Even where the config asks for it: that could run and fetch things."""
        self.git("config", "submodule.recurse", "true")
        self.assertEqual([], list((self.worktree("r2").path / "sub").iterdir()))

    def check_out(self) -> None:
        self.git("-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init", cwd=self.tree.path)

    def refused(self, words: str) -> None:
        with self.assertRaisesRegex(GitError, f"sub.*: .*{words}"):
            self.tree.tree(ALL)

    def test_an_untouched_submodule_is_fine(self) -> None:
        """Not checked out, as in a fresh worktree; and checked out at its commit."""
        write_files(self.tree.path, {"src/a.py": "A = 2\n"})
        self.assertEqual(("src/a.py",), self.tree.changes(ALL).paths)
        self.check_out()
        self.assertEqual(["M src/a.py"], self.shown(self.commit(self.tree)))

    def test_a_submodule_at_another_commit_is_refused(self) -> None:
        """The runtime commits files, not other repositories' commits."""
        self.check_out()
        self.git("commit", "-q", "--allow-empty", "-m", "x", cwd=self.sub)
        self.refused("was changed; put it back")
        self.assertEqual(("sub",), self.tree.changes(["src"]).outside)

    def test_changes_inside_a_submodule_are_refused(self) -> None:
        """Files put into an empty one, a changed and a new file in one that is checked out, a removed one."""
        write_files(self.sub, {"stray": "x"})
        self.refused("changes inside")
        (self.sub / "stray").unlink()
        self.check_out()
        write_files(self.sub, {"x": "changed"})
        self.refused("changes inside")
        write_files(self.sub, {"x": "x", "new": "x"})
        self.refused("changes inside")

    def test_a_removed_submodule_is_refused(self) -> None:
        """Its folder is gone."""
        self.sub.rmdir()
        self.refused("was changed; put it back")

    def test_a_submodules_own_config_runs_nothing(self) -> None:
        """It is asked for its status with everything off."""
        self.check_out()
        program, mark = self.canary("monitor")
        self.git("config", "core.fsmonitor", str(program), cwd=self.sub)
        self.git("config", "filter.evil.clean", f"'{program}'", cwd=self.sub)
        write_files(self.sub, {"x": "y", ".gitattributes": "* filter=evil\n"})
        self.refused("changes inside")
        self.assertFalse(mark.exists())

    def test_a_nested_repository_is_refused(self) -> None:
        """With and without a commit, new or in place of a file."""
        for name, commit in (("sub2", False), ("sub3", True)):
            with self.subTest(name=name):
                (self.tree.path / name).mkdir()
                self.git("init", "-q", cwd=self.tree.path / name)
                if commit:
                    self.git("commit", "-q", "--allow-empty", "-m", "x", cwd=self.tree.path / name)
                self.refused("a git repository inside the worktree")
                (self.tree.path / name).rename(self.folder / name)


if __name__ == "__main__":
    unittest.main()
