"""A small workspace with a real repository and a scripted team, for the tests of turns, runs and verbs."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from teams_runtime.shared.config import load_team_runtime_config
from teams_runtime.shared.paths import WorkspacePaths
from teams_runtime.store.records import Record
from teams_runtime.workflows.orchestration.request_run import RunObserver
from teams_runtime.workflows.orchestration.team_service import TeamService

FILES = {
    "total.py": "def total(values):\n    return sum(values[1:])\n",
    "test_total.py": (
        "import unittest\n\nfrom total import total\n\n\nclass TotalTest(unittest.TestCase):\n"
        "    def test_total(self):\n        self.assertEqual(6, total([1, 2, 3]))\n"
    ),
    ".gitignore": "__pycache__/\n",
}
COMPLETE = {"outcome": "complete"}


def reopen(category: str) -> dict[str, Any]:
    """Return a transition that sends the work back."""
    return {"outcome": "reopen", "reopen_category": category, "reason": "not yet", "unresolved_items": ["mend it"]}


def answer(role: str, *, step: str | None = None, visit: int | None = None, **parts: Any) -> dict[str, Any]:
    """Return a script entry whose answer keeps the contract; `actions` and `text` are the entry's own."""
    entry: dict[str, Any] = {"role": role} | {key: parts.pop(key) for key in ("actions", "attempt") if key in parts}
    entry |= {key: value for key, value in (("step", step), ("visit", visit)) if value is not None}
    return entry | {"answer": {"status": "completed", "summary": f"{role} has worked", "transition": COMPLETE} | parts}


RESEARCH = answer(
    "research",
    research={
        "needed": False,
        "reason_code": "not_needed_local_evidence",
        "subject": "",
        "query": "",
        "knowledge_gap": "",
        "planner_guidance": "plan from the repository",
        "requirements": [{"requirement": "total adds every value", "local_evidence": "test_total.py"}],
    },
)
PLAN = answer(
    "planner",
    plan={
        "goal": "total adds every value",
        "steps": [{"title": "mend total", "detail": "do not skip the first value"}],
        "acceptance": ["test_total passes"],
        "paths": ["total.py"],
    },
)
BUILD = answer("developer", actions=[{"replace": {"path": "total.py", "old": "values[1:]", "new": "values"}}])
REVIEW = answer("architect", step="review", verdict="pass")
QA = answer(
    "qa",
    verdict="pass",
    evidence_matrix=[{"criterion": "test_total passes", "evidence": "exit code 0", "result": "pass"}],
)
COMMIT = answer("version_controller", commit={"message": "Add every value\n", "paths": ["total.py"]})
TEAM = (RESEARCH, PLAN, answer("architect", step="architect_guidance"), BUILD, REVIEW, QA, COMMIT)
"""A team that mends the defect at the first try, in either profile."""


class TeamCase(unittest.TestCase):
    """A test with a workspace, which is a repository of three files, one of them a failing test."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="team case ")
        self.addCleanup(folder.cleanup)
        self.root = (Path(folder.name) / "work").resolve()
        self.root.mkdir()
        self.paths = WorkspacePaths(self.root)
        home = Path(folder.name) / "home"
        home.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
        for name, text in FILES.items():
            (self.root / name).write_text(text, encoding="utf-8")
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")
        self.write_config()
        self.write_script(*TEAM)

    def git(self, *arguments: str) -> str:
        """Run the real git as a user would, in the workspace, and return its output."""
        identity = ("-c", "user.name=User", "-c", "user.email=user@example.org")
        command = ["git", *identity, *arguments]
        done = subprocess.run(command, cwd=self.root, env=self.environment, capture_output=True, text=True, check=True)
        return done.stdout

    def write_config(self, **sections: Any) -> None:
        """Write the config: the defaults with the script, the verification command and the given sections."""
        verify = [sys.executable, "-m", "unittest", "-q"]
        config = {"providers": {"scripted": {"script": "script.yaml"}}, "repository": {"verification_command": verify}}
        self.paths.config_file.write_text(json.dumps(config | sections), encoding="utf-8")

    def write_script(self, *turns: Mapping[str, Any]) -> None:
        """Write the script that the team follows."""
        (self.root / "script.yaml").write_text(json.dumps({"turns": list(turns)}), encoding="utf-8")

    def service(self) -> TeamService:
        """Build the service of the workspace, with a clock that ticks a second each time."""
        ticks = itertools.count()
        return TeamService(
            self.paths,
            load_team_runtime_config(self.root),
            clock=lambda: datetime.fromtimestamp(1_796_094_245 + next(ticks), UTC),
            new_id=lambda: uuid.uuid4().hex,
            environment=self.environment,
        )

    def run_request(self, *, profile: str = "lean", observer: RunObserver | None = None) -> tuple[TeamService, Record]:
        """File a request and work it to where it stops."""
        service = self.service()
        record = service.submit("Mend total", profile=profile)
        return service, service.advance(record.request_id, observer or RunObserver())

    def types(self, record: Record) -> list[str]:
        """Return the types of a record's events."""
        return [event["type"] for event in record.events]


def find(record: Record, kind: str, wanted: Callable[[Any], bool] = lambda _: True) -> Sequence[Any]:
    """Return the payloads of a record's events of one type."""
    return [event["payload"] for event in record.events if event["type"] == kind and wanted(event["payload"])]
