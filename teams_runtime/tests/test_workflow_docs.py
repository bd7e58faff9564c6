"""The pages about the workflow and the providers say what the code does."""

from __future__ import annotations

import itertools
import re
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path

from teams_runtime.providers.base import TurnRequest
from teams_runtime.providers.scripted import Action, ScriptedProvider, ScriptTurn, load_script
from teams_runtime.store.fold import BUDGETS, LIMITS
from teams_runtime.workflows.orchestration.workflow import PROFILES, STEPS

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAME = re.compile(r"`([^`]+)`")


def section(page: str, heading: str) -> str:
    """The text of one `##` section of a page."""
    return (DOCS / page).read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows(text: str, header: str) -> list[list[str]]:
    """The cells of the table under a header row."""
    lines = text[text.index(header) :].splitlines()[2:]
    table = itertools.takewhile(bool, lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def plain(table: list[list[str]]) -> Mapping[str, str]:
    """A table of two named columns, as a mapping."""
    return {NAME.findall(row[0])[0]: NAME.findall(row[1])[0] for row in table}


@unittest.skipUnless(DOCS.is_dir(), "the docs are not part of an installed package")
class WorkflowPage(unittest.TestCase):
    """`docs/workflow.md`."""

    def test_the_steps_are_those_of_the_code(self) -> None:
        """Name, role and whether it writes, in order."""
        table = rows(section("workflow.md", "Steps"), "| step | role |")
        written = [(NAME.findall(step)[0], role, writes == "yes") for step, role, writes in table]
        self.assertEqual([(step, spec.role, spec.writes) for step, spec in STEPS.items()], written)

    def test_the_profiles_are_those_of_the_code(self) -> None:
        """First step, next steps, targets and reopen routes of both."""
        for name, profile in PROFILES.items():
            text = section("workflow.md", f"Profile {name}")
            ways = rows(text, "| step | then |")
            asked = {NAME.findall(row[0])[0]: tuple(NAME.findall(row[2])) for row in ways}
            with self.subTest(name):
                self.assertIn(f"It begins with `{profile.first}`.", text)
                self.assertEqual((profile.next, profile.reopen), (plain(ways), plain(rows(text, "| reopen category"))))
                self.assertEqual(profile.targets, {step: targets for step, targets in asked.items() if targets})

    def test_every_limit_and_budget_has_its_question(self) -> None:
        """And no other is told."""
        table = rows(section("workflow.md", "Questions"), "| reason | when |")
        found = {name for row in table for name in NAME.findall(row[0]) if ":" in name and "<" not in name}
        self.assertEqual({f"limit:{name}" for name in LIMITS} | {f"budget:{name}" for name in BUDGETS}, found)


@unittest.skipUnless(DOCS.is_dir(), "the docs are not part of an installed package")
class ProvidersPage(unittest.TestCase):
    """`docs/providers.md`."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        text = section("providers.md", "scripted")
        self.example = re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[0]
        self.table = plain([[row[0], row[0]] for row in rows(text, "| action |")])

    def test_the_example_is_a_script_that_works(self) -> None:
        """It is read, and its first turn does what it says."""
        (self.root / "script.yaml").write_text(self.example, encoding="utf-8")
        (self.root / "total.py").write_text("sum(values[1:])", encoding="utf-8")
        script = load_script(self.root / "script.yaml")
        provider = ScriptedProvider(script)
        request = TurnRequest("r", "developer", "build", 1, 0, prompt="p", worktree=self.root,
                              write_access="worktree", deadline_seconds=60,
                              environment={"PATH": "/usr/bin:/bin"})  # fmt: skip
        self.assertIn("Every value is added now.", provider.run_turn(request, lambda _: None).text)
        self.assertEqual("sum(values)", (self.root / "total.py").read_text("utf-8"))

    def test_every_key_of_a_script_is_told(self) -> None:
        """In the example, or in the table of actions."""
        self.assertEqual(set(Action.model_fields), set(self.table))
        shown = set(re.findall(r"^ +-? ?(\w+):", self.example, re.MULTILINE))
        self.assertLessEqual(set(ScriptTurn.model_fields) | set(Action.model_fields), shown)


if __name__ == "__main__":
    unittest.main()
