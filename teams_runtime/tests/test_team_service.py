"""The service composes the parts from one config, and refuses what it cannot work with before anything is written."""

from __future__ import annotations

import shutil
import unittest
from typing import Any

from teams_runtime.runtime.research_runtime import ResearchRuntime
from teams_runtime.runtime.version_control_runtime import VersionControlRuntime
from teams_runtime.shared.errors import ConfigError, GitError, InputError
from teams_runtime.tests.team_fixture import TeamCase
from teams_runtime.workflows.orchestration.team_service import MAX_REQUEST_CHARACTERS


class ComposeTest(TeamCase):
    """What the service builds."""

    def test_research_and_version_control_have_runtimes_of_their_own(self) -> None:
        """Their prompts are of a kind of their own."""
        runtimes = self.service().runtimes
        self.assertIs(ResearchRuntime, type(runtimes["research"]))
        self.assertIs(VersionControlRuntime, type(runtimes["version_controller"]))

    def test_a_charter_of_the_workspace_replaces_the_built_in_one(self) -> None:
        """The config names the file, and the role is told its text."""
        (self.root / "qa.md").write_text("# QA of our house\n\nBe strict.", encoding="utf-8")
        self.write_config(roles={"qa": {"charter": "qa.md"}})
        texts = self.service().runtimes["qa"].parts.texts
        self.assertIn("Be strict.", texts.charter("qa"))
        self.assertNotIn("Be strict.", texts.charter("developer"))


class RefusedTest(TeamCase):
    """Each refusal is one line and leaves no record behind."""

    def test_what_cannot_be_built_is_a_config_error(self) -> None:
        """No script, a script that is not there, a charter that is not there."""
        cases: dict[str, dict[str, Any]] = {
            "no script": {"providers": {}},
            "no such script": {"providers": {"scripted": {"script": "missing.yaml"}}},
            "no such charter": {"roles": {"qa": {"charter": "missing.md"}}},
        }
        for name, sections in cases.items():
            with self.subTest(name):
                self.write_config(**sections)
                with self.assertRaises(ConfigError) as caught:
                    self.service()
                self.assertNotIn("\n", str(caught.exception))
                self.assertFalse(self.paths.requests.exists())

    def test_a_folder_that_is_no_repository_is_a_git_error(self) -> None:
        """Nothing is filed without a repository to work on."""
        shutil.rmtree(self.root / ".git")
        with self.assertRaises(GitError):
            self.service()

    def test_a_scope_must_say_something_and_not_too_much(self) -> None:
        """The limit is named, and a request at the limit is taken."""
        service = self.service()
        for scope in ("", " \n", "x" * (MAX_REQUEST_CHARACTERS + 1)):
            with self.subTest(characters=len(scope)), self.assertRaises(InputError):
                service.submit(scope)
        record = service.submit("x" * 100, body="y" * (MAX_REQUEST_CHARACTERS - 100))
        self.assertEqual(MAX_REQUEST_CHARACTERS - 100, len(record.head["body"]))

    def test_any_text_can_be_a_scope(self) -> None:
        """Quotes, newlines, emoji and control characters come back as they were given."""
        for scope in ("say \"hi\"\nand 'go'", "🙂 \u0000 \x1b[31m", "\ud800", "../../etc"):
            with self.subTest(scope=ascii(scope)):
                self.assertEqual(scope, self.service().submit(scope).head["scope"])


if __name__ == "__main__":
    unittest.main()
