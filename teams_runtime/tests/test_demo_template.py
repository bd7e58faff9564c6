"""The demo's files are what they say: a real defect, answers that keep the contract, a history that is compacted."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from teams_runtime.cli import demo
from teams_runtime.cli.service import open_service
from teams_runtime.providers.base import TurnRequest
from teams_runtime.providers.scripted import Script, ScriptedProvider, ScriptTurn, load_script
from teams_runtime.shared.errors import ContractError
from teams_runtime.workflows.orchestration.request_run import RunObserver
from teams_runtime.workflows.roles.contract import ROLE_KINDS, STEP_ROLES
from teams_runtime.workflows.roles.parsing import parse_answer

CONTEXTS: dict[str, dict[str, Any]] = {
    "qa": {"tree": "t", "verification": {"exit_code": 0, "timed_out": False}},
    "version_control": {"paths": ["splitbill/split.py", "tests/test_split.py"]},
}


def step_of(entry: ScriptTurn) -> str:
    """The step that an entry is for; one that names none is for the first step of its role."""
    return entry.step or next(step for step, role in STEP_ROLES.items() if role == entry.role)


class DemoCase(unittest.TestCase):
    """A test with a fresh demo."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = demo.make_demo(Path(folder.name) / "demo")
        self.script: Script = load_script(self.root / "script.yaml")

    def play(self, entry: ScriptTurn) -> str:
        """Do an entry in the demo's own folder and return its answer."""
        provider = ScriptedProvider(self.script)
        call = (entry.role, step_of(entry), entry.visit or 1, entry.attempt)
        request = TurnRequest(
            *("r", *call), prompt="p", worktree=self.root, write_access="worktree", deadline_seconds=60,
            environment={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        return provider.run_turn(request, lambda _: None).text

    def own_tests(self) -> tuple[int, str]:
        """Run the demo's own tests; return the exit code and what they print."""
        command = (sys.executable, "-B", "-m", "unittest")
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def calculate(self, expression: str) -> str:
        """What the demo's package gives for an expression."""
        command = (sys.executable, "-B", "-c", f"from splitbill import split; print({expression})")
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()


class ScriptTest(DemoCase):
    """The script's answers."""

    def test_every_answer_but_the_deliberately_bad_one_keeps_the_contract(self) -> None:
        """The bad one is the first attempt of the second review, prose around an object, and its repair follows."""
        refused = []
        for entry in self.script.turns:
            step = step_of(entry)
            try:
                parse_answer(self.play(entry), role=entry.role, step=step, purpose=ROLE_KINDS[entry.role],
                             request_id="r", context=CONTEXTS.get(step))  # fmt: skip
            except ContractError:
                refused.append((step, entry.visit, entry.attempt))
        self.assertEqual([("review", 2, 0)], refused)
        self.assertIn(("review", 2, 1), [(entry.step, entry.visit, entry.attempt) for entry in self.script.turns])

    def test_what_the_roles_claim_about_the_code_is_true(self) -> None:
        """A failing test at first, a build that passes it and is unfair, a revision that is right."""
        build, revise = (entry for entry in self.script.turns if entry.actions)
        code, told = self.own_tests()
        self.assertEqual((1, 1), (code, told.count("FAIL: ")), told)
        self.assertIn("FAIL: test_shares_add_up_to_the_total", told)
        self.play(build)
        self.assertEqual(0, self.own_tests()[0])
        self.assertEqual("[21, 16, 16, 16, 16, 16]", self.calculate("split(101, [1] * 6)"))
        unfair = (self.root / "splitbill/split.py").read_bytes()
        self.play(revise)
        self.assertEqual(0, self.own_tests()[0])
        self.assertEqual("[17, 17, 17, 17, 17, 16]", self.calculate("split(101, [1] * 6)"))
        (self.root / "splitbill/split.py").write_bytes(unfair)
        self.assertIn("FAIL: test_both_promises_hold_for_many_splits", self.own_tests()[1])


class RunTest(DemoCase):
    """A whole run."""

    def test_the_demo_takes_the_full_way_and_is_compacted(self) -> None:
        """One revision, one repair, a verification by the runtime, and prompts after 16 events that leave some out."""
        service = open_service(self.root)
        record = service.submit("Splitting loses a cent")
        record = service.advance(record.request_id, RunObserver())
        manifests = service.manifests.read(record.request_id)
        (qa,) = (event["payload"]["context"] for event in record.events
                 if event["type"] == "delegated" and event["payload"]["step"] == "qa")  # fmt: skip
        self.assertEqual(("completed", 0), (record.head["status"], qa["verification"]["exit_code"]))
        self.assertEqual(qa["tree"], record.head["commit"]["tree"])
        self.assertEqual(
            ["research", "plan", "design_advice", "architecture_advice", "architect_guidance", "build", "review",
             "revise", "review", "review", "qa", "version_control"],
            [one.step for one in manifests],
        )  # fmt: skip
        compacted = [str(one.kind) for one in manifests if one.included_events < one.total_events]
        self.assertEqual(["role_task", "contract_repair", "role_task", "version_control"], compacted)
        self.assertTrue(all(one.characters < one.characters_full for one in manifests[-4:]))

    def test_no_file_of_the_template_is_code_of_ours(self) -> None:
        """Its Python files are named so that test discovery, style and type checks do not take them for ours."""
        template = Path(demo.__file__).resolve().parents[1] / "templates" / "demo"
        self.assertTrue((template / "project" / "splitbill" / "split.py.txt").is_file())
        self.assertEqual([], list(template.rglob("*.py")))


if __name__ == "__main__":
    unittest.main()
