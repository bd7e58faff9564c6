"""Records and prompts for tests: one prompt of every kind, made the way a turn makes it."""

from __future__ import annotations

import json
import re
from typing import Any

from teams_runtime.shared.models import PromptContextRuntimeConfig
from teams_runtime.shared.prompt_context import project_request
from teams_runtime.tests.role_answers import CONTEXTS
from teams_runtime.workflows.roles.contract import STEP_ROLES, PromptKind
from teams_runtime.workflows.roles.prompt import PromptInput, RejectedAnswer, build_prompt
from teams_runtime.workflows.roles.texts import load_texts

KIND_STEPS = {
    PromptKind.ROLE_TASK: "build",
    PromptKind.CONTRACT_REPAIR: "qa",
    PromptKind.RESEARCH_DECISION: "research",
    PromptKind.VERSION_CONTROL: "version_control",
}
"""A step at which each kind is made."""

REJECTED = RejectedAnswer('{"request_id": "req-1"}', ("/role: must be there, got nothing",))
OFF = PromptContextRuntimeConfig(enabled=False)


def event(seq: int, role: str | None = None, size: int = 0) -> dict[str, Any]:
    """One event with a text of its own, `canary-<seq>;`; a report when it has a role; `size` characters at least."""
    payload: dict[str, Any] = {"role": role, "status": "completed"} if role else {"target": "developer"}
    value = {
        "id": f"0197-{seq:08}",
        "seq": seq,
        "timestamp": f"2026-12-01T03:{seq // 60:02}:{seq % 60:02}.000Z",
        "type": "role_report" if role else "delegated",
        "actor": role or "orchestrator",
        "summary": f"canary-{seq};",
        "payload": payload,
    }
    missing = size - len(json.dumps(value))
    return value if missing <= 0 else {**value, "payload": {**payload, "text": "x" * (missing - 12)}}


def record(total: int, size: int = 0) -> dict[str, Any]:
    """A record as we write it, in which every role speaks once, in turn, at the very start."""
    roles = [*dict.fromkeys(STEP_ROLES.values()), "requester"]
    events = [event(seq, roles[seq - 1] if seq <= len(roles) else None, size) for seq in range(1, total + 1)]
    workflow = {
        "profile": "full", "step": "build", "visit": 1, "visits": {"plan": 1, "build": 1}, "turns": 4, "reopens": 0,
        "spent": {"calls": 4, "tokens": None, "cost_usd": None, "seconds": 12.5}, "open": True, "context": None,
        "base": {"commit": "1f0e", "branch": "main"}, "report": None, "qa_tree": None, "failure": None, "granted": {},
    }  # fmt: skip
    return {
        "schema": 1, "request_id": "req-1", "scope": "sum must add negative numbers", "body": "add(-1, 2) gives 3.",
        "requester": "ada", "params": {"profile": "full"}, "created_at": "2026-12-01T03:00:00.000Z", "events": events,
        "status": "running", "sprint_id": "sprint-1", "artifacts": [], "workflow": workflow,
        "current_role": "developer", "result": None, "question": None, "commit": None,
        "updated_at": "2026-12-01T03:04:05.678Z", "_index": {"canary-0;": 1},
    }  # fmt: skip


def step_prompt(
    step: str, given: dict[str, Any], config: PromptContextRuntimeConfig | None = None, **changes: Any
) -> str:
    """The first prompt of a turn at a step, or its repair when `rejected` is given."""
    return build_prompt(step_input(step, given, config, **changes))


def step_input(
    step: str, given: dict[str, Any], config: PromptContextRuntimeConfig | None = None, **changes: Any
) -> PromptInput:
    """What `step_prompt` is made of."""
    role = STEP_ROLES[step]
    kind = next((kind for kind, at in KIND_STEPS.items() if at == step and kind != "contract_repair"), "role_task")
    values: dict[str, Any] = {
        "kind": PromptKind.CONTRACT_REPAIR if changes.get("rejected") else PromptKind(kind),
        "role": role,
        "step": step,
        "visit": 1,
        "projection": project_request(given, config),
        "texts": load_texts({}),
        "context": CONTEXTS.get(step),
    }
    return PromptInput(**{**values, **changes})


def kind_prompt(kind: PromptKind, given: dict[str, Any], config: PromptContextRuntimeConfig | None = None) -> str:
    """One prompt of a kind."""
    rejected = REJECTED if kind is PromptKind.CONTRACT_REPAIR else None
    return step_prompt(KIND_STEPS[kind], given, config, rejected=rejected)


def blocks(prompt: str) -> list[tuple[str, str]]:
    """The fenced blocks of a prompt, as language and content; read line by line, as Markdown is."""
    found: list[tuple[str, list[str]]] = []
    inside = False
    for line in prompt.split("\n"):
        if inside and re.fullmatch(r" {0,3}`{3,}\s*", line):
            inside = False
        elif inside:
            found[-1][1].append(line)
        elif line.lstrip(" ").startswith("```"):
            inside = True
            found.append((line.strip(" `"), []))
    return [(language, "\n".join(lines)) for language, lines in found]


def prose(prompt: str) -> str:
    """A prompt without its fenced blocks."""
    return re.sub(r"^```\w+\n.*?^```$", "", prompt, flags=re.DOTALL | re.MULTILINE)
