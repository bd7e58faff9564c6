"""The page about roles says what the code does."""

from __future__ import annotations

import json
import re
import unittest
from pathlib import Path

from teams_runtime.shared.models import ROLES
from teams_runtime.tests.role_answers import issues
from teams_runtime.workflows.roles.contract import (
    MAX_ANSWER_CHARACTERS,
    ROLE_KINDS,
    STEP_ROLES,
    TARGET_STEPS,
    answer_schema,
)
from teams_runtime.workflows.roles.texts import MAX_CHARTER_CHARACTERS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "roles.md"
EXAMPLE_STEPS = {"architect": "review", **{role: step for step, role in STEP_ROLES.items() if role != "architect"}}
CONTEXT = {"paths": ["pkg/money.py", "tests/test_money.py"]}


@unittest.skipUnless(PAGE.is_file(), "the docs are not part of an installed package")
class RolesPage(unittest.TestCase):
    def setUp(self) -> None:
        self.page = PAGE.read_text(encoding="utf-8")
        self.examples = dict(re.findall(r"^### (\w+)\n.*?^```json\n(.*?)^```$", self.page, re.DOTALL | re.MULTILINE))

    def test_every_role_has_an_example_that_keeps_its_contract(self) -> None:
        self.assertEqual(list(ROLES), list(self.examples))
        for role, text in self.examples.items():
            with self.subTest(role):
                self.assertEqual([], issues(text, EXAMPLE_STEPS[role], context=CONTEXT))
                self.assertLessEqual(set(json.loads(text)), set(answer_schema(role, ROLE_KINDS[role])["properties"]))

    def test_the_issues_shown_are_the_parsers(self) -> None:
        reopen = json.loads(self.examples["architect"])
        reopen["transition"]["reopen_category"] = None
        failed = {"verification": {"exit_code": 1, "timed_out": False}}
        told = [*issues(reopen, "review"), *issues(self.examples["qa"], "qa", context=failed)]
        self.assertIn("```text\n" + "\n".join(told) + "\n```", self.page)

    def test_the_table_of_steps_is_the_workflows(self) -> None:
        for step, role in STEP_ROLES.items():
            targets = ", ".join(f"`{target}`" for target in TARGET_STEPS.get(step, ()))
            self.assertIn(
                f"| `{step}` | {role} | `{ROLE_KINDS[role]}` | {targets + ' ' if targets else ''}|", self.page
            )

    def test_the_limits_are_named(self) -> None:
        self.assertIn(f"at most {MAX_ANSWER_CHARACTERS:,} characters", self.page)
        self.assertIn(f"1 to {MAX_CHARTER_CHARACTERS:,} characters", self.page)
