"""What a step that only reads has changed is put back, and nothing else."""

from __future__ import annotations

import unittest

from teams_runtime.git.restore import restore_tree
from teams_runtime.tests.git_fixture import GitCase


class RestoreTreeTest(GitCase):
    """`restore_tree` on a real worktree."""

    def setUp(self) -> None:
        super().setUp()
        self.place = self.worktree()
        (self.place.path / "src/a.py").write_text("A = 2\n")
        self.judged = self.place.tree(["."])

    def restore(self, *owned: str) -> tuple[str, ...]:
        return restore_tree(self.place, self.judged, owned or (".",))

    def test_nothing_happens_when_nothing_changed(self) -> None:
        """A tree that is the judged one stays, the role's earlier edit included."""
        self.assertEqual((), self.restore())
        self.assertEqual("A = 2\n", (self.place.path / "src/a.py").read_text())

    def test_changed_new_and_deleted_files_are_put_back(self) -> None:
        """Every kind of change is undone and named, and the tree is the judged one again."""
        (self.place.path / "src/a.py").write_text("A = 3\n")
        (self.place.path / "README.md").unlink()
        (self.place.path / "new folder").mkdir()
        (self.place.path / "new folder" / "-x").write_text("new")
        self.assertEqual(("README.md", "new folder/-x", "src/a.py"), self.restore())
        self.assertEqual(self.judged, self.place.tree(["."]))
        self.assertFalse((self.place.path / "new folder").exists())

    def test_a_link_out_of_the_tree_is_removed(self) -> None:
        """What could not even be judged is put back too; the link's target is not touched."""
        outside = self.folder / "outside.txt"
        outside.write_text("mine")
        (self.place.path / "link").symlink_to(outside)
        self.assertEqual(("link",), self.restore())
        self.assertEqual("mine", outside.read_text())

    def test_a_folder_in_place_of_a_file_gives_way(self) -> None:
        """A kind that changed is undone."""
        (self.place.path / "README.md").unlink()
        (self.place.path / "README.md").mkdir()
        (self.place.path / "README.md" / "inner").write_text("x")
        self.restore()
        self.assertEqual("hello\n", (self.place.path / "README.md").read_text())

    def test_files_outside_the_owned_paths_and_ignored_files_stay(self) -> None:
        """Only what is judged is put back."""
        (self.place.path / ".gitignore").write_text("cache/\n")
        self.judged = self.place.tree(["src"])
        (self.place.path / "docs/guide.md").write_text("mine")
        (self.place.path / "cache").mkdir()
        (self.place.path / "cache" / "x").write_text("x")
        (self.place.path / "src/c.py").write_text("C = 1\n")
        self.assertEqual(("src/c.py",), self.restore("src"))
        self.assertEqual("mine", (self.place.path / "docs/guide.md").read_text())
        self.assertTrue((self.place.path / "cache" / "x").exists())


if __name__ == "__main__":
    unittest.main()
