"""`teams-runtime init`."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from teams_runtime.cli.init import make_workspace, scaffold_config
from teams_runtime.cli.workspace import open_workspace
from teams_runtime.shared.config_schema import config_schema
from teams_runtime.shared.errors import WorkspaceError
from teams_runtime.shared.models import TeamRuntimeConfig
from teams_runtime.tests.test_cli_main import teams_runtime


class InitTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()

    def test_the_command_makes_a_workspace(self) -> None:
        result = teams_runtime("init", folder=self.folder)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        self.assertEqual(scaffold_config(), (self.folder / "team_runtime.yaml").read_text(encoding="utf-8"))

    def test_with_json_it_says_what_it_made(self) -> None:
        result = teams_runtime("init", "new/one", "--json", folder=self.folder)
        root = self.folder / "new" / "one"
        expected = {
            "workspace": str(root),
            "config": str(root / "team_runtime.yaml"),
            "state": str(root / ".teams_runtime"),
        }
        self.assertEqual(expected, json.loads(result.stdout))

    def test_what_it_makes_can_be_opened_from_below(self) -> None:
        make_workspace(self.folder)
        below = self.folder / "a" / "b"
        below.mkdir(parents=True)
        paths, config = open_workspace(below)
        self.assertEqual((self.folder, TeamRuntimeConfig()), (paths.root, config))

    def test_the_state_folder_is_private_and_holds_the_schema(self) -> None:
        state = make_workspace(self.folder).state
        self.assertEqual(0o700, state.stat().st_mode & 0o777)
        self.assertEqual(config_schema(), json.loads((state / "team_runtime.schema.json").read_text(encoding="utf-8")))

    def test_git_does_not_see_the_state_folder(self) -> None:
        make_workspace(self.folder)
        subprocess.run(["git", "init", "-q"], cwd=self.folder, check=True)
        status = subprocess.run(
            ["git", "status", "--porcelain", "-uall"], cwd=self.folder, check=True, capture_output=True, text=True
        )
        self.assertEqual("?? team_runtime.yaml\n", status.stdout)

    def test_an_existing_config_file_is_never_touched(self) -> None:
        file = self.folder / "team_runtime.yaml"
        file.write_text("mine", encoding="utf-8")
        result = teams_runtime("init", folder=self.folder)
        self.assertEqual((2, "mine"), (result.returncode, file.read_text(encoding="utf-8")))
        self.assertEqual([file], list(self.folder.iterdir()))
        self.assertEqual(f"{file}: must not exist yet, got one already; nothing was changed\n", result.stderr)

    def test_a_dangling_link_in_place_of_the_config_file_is_not_followed(self) -> None:
        (self.folder / "team_runtime.yaml").symlink_to(self.folder / "elsewhere")
        with self.assertRaises(WorkspaceError):
            make_workspace(self.folder)
        self.assertEqual(["team_runtime.yaml"], [path.name for path in self.folder.iterdir()])

    def test_nothing_is_written_through_a_link(self) -> None:
        """A link in place of the state folder is refused; one in place of a file in it is replaced."""
        outside = Path(self.enterContext(tempfile.TemporaryDirectory()))
        state = self.folder / ".teams_runtime"
        state.symlink_to(outside)
        with self.assertRaisesRegex(WorkspaceError, "symbolic link"):
            make_workspace(self.folder)
        state.unlink()
        state.mkdir()
        (state / ".gitignore").symlink_to(outside / "victim")
        make_workspace(self.folder)
        self.assertEqual([], list(outside.iterdir()))

    def test_a_file_in_the_way_is_one_clear_line(self) -> None:
        (self.folder / "file").write_text("", encoding="utf-8")
        (self.folder / "other").mkdir()
        (self.folder / "other" / ".teams_runtime").write_text("", encoding="utf-8")
        for name in ("file", "file/below", "other"):
            with self.subTest(name), self.assertRaises(WorkspaceError):
                make_workspace(self.folder / name)
        self.assertFalse((self.folder / "other" / "team_runtime.yaml").exists())

    def test_a_second_try_after_a_broken_off_one_succeeds(self) -> None:
        (self.folder / ".teams_runtime").mkdir(mode=0o755)
        self.assertEqual(0o700, make_workspace(self.folder).state.stat().st_mode & 0o777)
