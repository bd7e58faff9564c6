"""`teams-runtime config check` and `config schema`."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from teams_runtime.cli.config import missing, notes
from teams_runtime.cli.init import make_workspace
from teams_runtime.shared.config_schema import config_schema
from teams_runtime.shared.models import (
    ProvidersConfig,
    RepositoryConfig,
    RoleConfig,
    ScriptedProviderConfig,
    TeamRuntimeConfig,
)
from teams_runtime.tests.test_cli_main import teams_runtime


class CheckTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        self.file = self.folder / "team_runtime.yaml"

    def test_a_new_workspace_is_well_and_says_what_it_lacks(self) -> None:
        make_workspace(self.folder)
        result = teams_runtime("config", "check", folder=self.folder)
        self.assertEqual(0, result.returncode)
        self.assertRegex(
            result.stdout,
            r"\Ateam_runtime.yaml: is right, but a run would be refused\n"
            r"missing: providers.scripted.script names no file.*: research, ",
        )

    def test_every_problem_is_printed_and_the_code_is_2(self) -> None:
        self.file.write_text("sprint: 1\nroles: 2\n", encoding="utf-8")
        result = teams_runtime("config", "check", folder=self.folder)
        expected = (
            "team_runtime.yaml:1:9: sprint must be a mapping, got 1\n"
            "team_runtime.yaml:2:8: roles must be a mapping, got 2\n"
        )
        self.assertEqual((2, expected, ""), (result.returncode, result.stdout, result.stderr))

    def test_with_json_it_is_one_object(self) -> None:
        self.file.write_text("sprint: 1\n", encoding="utf-8")
        result = teams_runtime("config", "check", "--json", folder=self.folder)
        problems = ["team_runtime.yaml:1:9: sprint must be a mapping, got 1"]
        expected = {
            "ok": False,
            "ready": False,
            "file": str(self.file),
            "problems": problems,
            "missing": [],
            "notes": [],
        }
        self.assertEqual((2, expected), (result.returncode, json.loads(result.stdout)))

    def test_without_a_workspace_it_is_one_line_that_names_init(self) -> None:
        result = teams_runtime("config", "check", folder=self.folder)
        self.assertEqual((2, 1), (result.returncode, result.stderr.count("\n")))
        self.assertIn("`teams-runtime init` makes one", result.stderr)

    def test_what_a_run_would_be_refused_for_is_told(self) -> None:
        """The sentences are those of the refusal; when nothing is missing, a run can start."""
        config = TeamRuntimeConfig(
            roles={"qa": RoleConfig(charter="qa.md")},
            providers=ProvidersConfig(scripted=ScriptedProviderConfig(script="script.yaml")),
            repository=RepositoryConfig(path="gone", verification_command=("make", "test")),
        )
        told = list(missing(self.folder, config))
        for name, line in zip(("script.yaml", "qa.md", "gone"), told, strict=True):
            self.assertIn(name, line)
        (self.folder / "script.yaml").write_text("turns: []", encoding="utf-8")
        (self.folder / "qa.md").write_text("# QA", encoding="utf-8")
        subprocess.run(["git", "init", "-q", str(self.folder / "gone")], check=True)
        (no_commit,) = missing(self.folder, config)
        self.assertIn("no commit yet", no_commit)

    def test_no_test_command_is_a_note(self) -> None:
        """A run can do without, and had better not."""
        self.assertEqual(1, len(list(notes(TeamRuntimeConfig()))))


class SchemaTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()

    def test_it_goes_to_the_standard_output(self) -> None:
        for arguments in ((), ("--json",)):
            result = teams_runtime("config", "schema", *arguments)
            self.assertEqual(config_schema(), json.loads(result.stdout))

    def test_it_goes_to_a_file(self) -> None:
        result = teams_runtime("config", "schema", "--output", "s.json", "--json", folder=self.folder)
        self.assertEqual({"schema": "s.json"}, json.loads(result.stdout))
        self.assertEqual(config_schema(), json.loads((self.folder / "s.json").read_text(encoding="utf-8")))

    def test_a_file_that_cannot_be_written_is_one_line(self) -> None:
        result = teams_runtime("config", "schema", "--output", "no/s.json", folder=self.folder)
        self.assertEqual((2, ""), (result.returncode, result.stdout))
        self.assertRegex(result.stderr, r"\A--output must name a file that can be written, got .*\n\Z")
