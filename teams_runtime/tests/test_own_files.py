"""The runtime's own folders and files: private, whole, and never behind a link that somebody planted."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path

from teams_runtime.shared.errors import WorkspaceError
from teams_runtime.shared.own_files import (
    check_own_folders,
    make_own_folder,
    read_plain_file,
    write_new_file,
    write_own_file,
)
from teams_runtime.shared.paths import WorkspacePaths


class OwnFilesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        self.outside = self.folder / "outside"
        self.outside.mkdir()
        self.top = self.folder / "top"
        self.top.mkdir()

    def test_every_level_is_private_under_any_umask(self) -> None:
        for umask in (0, 0o777):
            with self.subTest(oct(umask)):
                before = os.umask(umask)
                try:
                    made = make_own_folder(self.top, f"a{umask}", "b")
                    write_own_file(made / "f", lambda stream: stream.write(b"x"))
                finally:
                    os.umask(before)
                modes = [path.stat().st_mode & 0o777 for path in (made.parent, made, made / "f")]
                self.assertEqual([0o700, 0o700, 0o600], modes)

    def test_a_planted_link_or_file_is_refused_and_nothing_is_made_behind_it(self) -> None:
        (self.top / "link").symlink_to(self.outside)
        (self.top / "file").write_text("")
        for name in ("link", "file"):
            with self.subTest(name), self.assertRaisesRegex(WorkspaceError, "must be a folder of the runtime's own"):
                make_own_folder(self.top, name, "inner")
        self.assertEqual([], list(self.outside.iterdir()))

    def test_a_file_takes_the_place_of_a_link_and_is_not_written_through_it(self) -> None:
        (self.top / "f").symlink_to(self.outside / "victim")
        write_own_file(self.top / "f", lambda stream: stream.write(b"x"))
        self.assertEqual(([], b"x"), (list(self.outside.iterdir()), (self.top / "f").read_bytes()))

    def test_what_cannot_be_written_leaves_nothing_behind(self) -> None:
        """A folder in the place of the file; a writer that fails."""

        def fail(_: object) -> None:
            raise OSError(28, "No space left on device")

        (self.top / "d").mkdir()
        for name, fill in (("d", lambda stream: stream.write(b"x")), ("f", fail)):
            with self.subTest(name), self.assertRaises(WorkspaceError):
                write_own_file(self.top / name, fill)
        self.assertEqual([self.top / "d"], list(self.top.iterdir()))

    def test_a_new_file_replaces_nothing(self) -> None:
        (self.top / "f").symlink_to(self.outside / "victim")
        with self.assertRaises(FileExistsError):
            write_new_file(self.top / "f", b"x")
        self.assertEqual([], list(self.outside.iterdir()))

    def test_nothing_is_waited_for_and_nothing_endless_is_read(self) -> None:
        os.mkfifo(self.top / "pipe")
        (self.top / "long").write_bytes(b"x" * 11)
        table = {"pipe": "no regular file", "long": "more than 10 bytes", "none": "No such file"}
        for name, reason in table.items():
            with self.subTest(name), self.assertRaisesRegex(OSError, reason):
                read_plain_file(self.top / name, 10)

    def test_every_folder_of_the_state_is_looked_at(self) -> None:
        """A link in place of any of them could lead writes out of the workspace."""
        paths = WorkspacePaths(self.top)
        for folder in paths.own_folders:
            with self.subTest(folder.name):
                folder.parent.mkdir(exist_ok=True)
                folder.symlink_to(self.outside)
                with self.assertRaisesRegex(WorkspaceError, "symbolic link"):
                    check_own_folders(paths)
                folder.unlink()


if __name__ == "__main__":
    unittest.main()
