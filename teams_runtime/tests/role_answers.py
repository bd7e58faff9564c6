"""Answers that keep their contract, one a step, and the ways in which tests ask for them."""

from __future__ import annotations

import json
from typing import Any

from teams_runtime.shared.errors import ContractError
from teams_runtime.workflows.roles.contract import ROLE_KINDS, STEP_ROLES
from teams_runtime.workflows.roles.parsing import RoleResult, parse_answer

REQUEST_ID = "req-1"

CONTEXTS: dict[str, dict[str, Any]] = {
    "qa": {"tree": "4b825dc", "verification": {"command": ["make", "test"], "exit_code": 0, "timed_out": False}},
    "version_control": {"base": "1f0e", "tree": "4b825dc", "paths": ["pkg/sum.py", "tests/test_sum.py"]},
}

PARTS: dict[str, dict[str, Any]] = {
    "plan": {
        "plan": {
            "goal": "sum adds negative numbers",
            "steps": [{"title": "mend add in pkg/sum.py", "detail": "drop abs; prove it with a test"}],
            "acceptance": ["add(-1, 2) is 1"],
            "paths": ["pkg/sum.py"],
        }
    },
    "review": {"verdict": "pass"},
    "qa": {
        "verdict": "pass",
        "evidence_matrix": [{"criterion": "add(-1, 2) is 1", "evidence": "make test: 9 passed", "result": "pass"}],
    },
    "research": {
        "research": {
            "needed": True,
            "reason_code": "needed_external_grounding",
            "subject": "rounding in ISO 80000-1",
            "query": "ISO 80000-1 rounding rule B",
            "knowledge_gap": "which rule holds for ties",
            "planner_guidance": "keep rounding in one place",
            "requirements": [{"requirement": "the rule for ties", "local_evidence": "none"}],
        }
    },
    "version_control": {
        "commit": {
            "message": "Add negative numbers\n\nabs was wrong.\n",
            "paths": ["tests/test_sum.py", "pkg/sum.py"],
        }
    },
}

REOPEN = {
    "outcome": "reopen",
    "target_step": None,
    "reopen_category": "implementation",
    "reason": "a test is missing",
    "unresolved_items": ["add a test for -1"],
}


def answer(step: str, **changes: Any) -> dict[str, Any]:
    """A valid answer at a step; a change `key=...` replaces or adds a key."""
    return {
        "request_id": REQUEST_ID,
        "role": STEP_ROLES[step],
        "status": "completed",
        "summary": "Done.",
        "transition": {"outcome": "complete"},
        **PARTS.get(step, {}),
        **changes,
    }


def parse(text: str, step: str, **changes: Any) -> RoleResult:
    """Parse the text of an answer to a step's first prompt."""
    role = STEP_ROLES[step]
    given: dict[str, Any] = {"request_id": REQUEST_ID, "context": CONTEXTS.get(step), "purpose": ROLE_KINDS[role]}
    return parse_answer(text, role=role, step=step, **{**given, **changes})


def issues(value: Any, step: str = "build", **changes: Any) -> list[str]:
    """Every issue of an answer, given as a value or as text; an empty list when it keeps its contract."""
    try:
        parse(value if isinstance(value, str) else json.dumps(value), step, **changes)
    except ContractError as error:
        return list(error.issues)
    return []


def pointers(value: Any, step: str = "build", **changes: Any) -> list[str]:
    """Where the issues of an answer lie."""
    return [found.partition(":")[0] for found in issues(value, step, **changes)]
