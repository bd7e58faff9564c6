"""A client gets the variables that it may see, the program that is meant, and a home that does not grow."""

from __future__ import annotations

import os
import tempfile
import time
import unittest
from pathlib import Path

from teams_runtime.providers.client import SESSION_DAYS, client_environment, find_program, prepare_home
from teams_runtime.shared.errors import FailureKind, ProviderError


class EnvironmentTest(unittest.TestCase):
    def test_only_named_variables_of_the_caller_reach_a_client(self) -> None:
        caller = {"OPENAI_API_KEY": "k", "GITHUB_TOKEN": "t", "HTTPS_PROXY": "p", "LD_PRELOAD": "x"}
        self.assertEqual(
            {"HOME": "/h", "OPENAI_API_KEY": "k", "HTTPS_PROXY": "p"},
            client_environment({"HOME": "/h"}, caller, ["OPENAI_API_KEY"]),
        )


class ProgramTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()

    def program(self, name: str, mode: int = 0o700) -> Path:
        path = self.folder / name
        path.write_text("#!/bin/sh\n", encoding="utf-8")
        path.chmod(mode)
        return path

    def test_the_configured_program_wins_over_the_extra_and_that_over_path(self) -> None:
        on_path, bundled, named = self.program("codex"), self.program("bundled"), self.program("named")
        environment = {"PATH": str(self.folder)}
        self.assertEqual(named, find_program("codex", "named", bundled, environment))
        self.assertEqual(named, find_program("codex", str(named), bundled, environment))
        self.assertEqual(bundled, find_program("codex", None, bundled, environment))
        self.assertEqual(on_path, find_program("codex", None, None, environment))

    def test_a_missing_program_is_told_with_what_to_do(self) -> None:
        told = {
            "the extra": (None, "pip install 'teams-runtime[codex]'"),
            "the config": ("gone", "providers.codex.command"),
        }
        for case, (command, remedy) in told.items():
            with self.subTest(case), self.assertRaises(ProviderError) as caught:
                find_program("codex", command, self.folder / "gone", {"PATH": str(self.folder)})
            self.assertEqual(FailureKind.CLIENT_MISSING, caught.exception.kind)
            self.assertIn(remedy, caught.exception.remedy)

    def test_a_file_that_cannot_be_run_is_no_program(self) -> None:
        named = self.program("named", 0o600)
        with self.assertRaises(ProviderError):
            find_program("codex", str(named), None, {"PATH": ""})


class HomeTest(unittest.TestCase):
    def test_a_home_is_private_and_loses_only_old_conversations(self) -> None:
        home = Path(self.enterContext(tempfile.TemporaryDirectory())) / "clients" / "codex"
        prepare_home(home, "sessions/**/*.jsonl")
        self.assertEqual(0o700, home.stat().st_mode & 0o777)
        files = [home / name for name in ("sessions/a/old.jsonl", "sessions/a/new.jsonl", "auth.json")]
        long_ago = time.time() - (SESSION_DAYS + 1) * 86_400
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        for file in (files[0], files[2]):
            os.utime(file, (long_ago, long_ago))
        prepare_home(home, "sessions/**/*.jsonl")
        self.assertEqual([False, True, True], [file.exists() for file in files])


if __name__ == "__main__":
    unittest.main()
