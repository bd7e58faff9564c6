"""Turns of a long record before a provider that keeps every call, so that tests see what a model would be given."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from teams_runtime.providers.base import Finding, Progress, SchemaDialect, TurnRequest, TurnResult
from teams_runtime.runtime.base_runtime import RoleRuntime, TurnFailure, TurnReport
from teams_runtime.runtime.calls import RuntimeParts, Workplace
from teams_runtime.runtime.sessions import SessionBook
from teams_runtime.runtime.turn_prompt import Turn
from teams_runtime.shared.errors import ProviderError
from teams_runtime.shared.models import PromptContextRuntimeConfig, RoleConfig, SessionsConfig
from teams_runtime.shared.paths import WorkspacePaths
from teams_runtime.store.records import Record, read_record_file
from teams_runtime.telemetry.manifests import CallManifest, ManifestLog
from teams_runtime.tests.role_answers import CONTEXTS
from teams_runtime.tests.role_answers import answer as role_answer
from teams_runtime.workflows.orchestration.team_service import RUNTIMES
from teams_runtime.workflows.roles.contract import STEP_ROLES, PromptKind
from teams_runtime.workflows.roles.texts import load_texts

EVIDENCE = {3: "research", 11: "planner", 40: "architect", 41: "qa"}
"""Where roles speak in the record, by position: all of it outside the tail."""


def hundred_events() -> Record:
    """Return a record of 100 events of about 400 characters, its newest evidence of four roles outside the tail."""

    def event(number: int) -> dict[str, Any]:
        role = EVIDENCE.get(number)
        payload: dict[str, Any] = {"text": f"canary-{number:03d} " + "x" * 300}
        return {
            "seq": number + 1,
            "type": "role_report" if role else "note",
            "actor": role or "orchestrator",
            "summary": f"event {number}",
            "payload": payload | ({"role": role, "status": "completed"} if role else {}),
        }

    events = [event(number) for number in range(100)]
    result = {"seq": 42, "summary": "event 41", **events[41]["payload"]}
    return Record(Path("r1.json"), {"request_id": "r1", "scope": "Do it", "events": events, "result": result})


def clock() -> datetime:
    """Return the one time at which everything in these tests happens."""
    return datetime(2026, 12, 1, tzinfo=UTC)


class ListeningProvider:
    """Answers one call after the other as it is told, and keeps the calls, their manifests, and the pauses asked for.

    Args:
        replies: what each call gets: the text of an answer, a whole result, or the error that it raises.
    """

    name = "scripted"
    schema_dialect: SchemaDialect = "open"

    def __init__(self, *replies: str | TurnResult | ProviderError) -> None:
        self._replies = list(replies)
        self.calls: list[TurnRequest] = []
        self.written: list[CallManifest] = []
        self.pauses: list[float] = []
        self.told: list[str] = []

    def run_turn(self, request: TurnRequest, progress: Progress) -> TurnResult:
        """Keep the call and give the next reply."""
        self.calls.append(request)
        reply = self._replies[len(self.calls) - 1]
        if isinstance(reply, ProviderError):
            raise reply
        return reply if isinstance(reply, TurnResult) else TurnResult(text=reply)

    def examine(self, *, writes: bool) -> Sequence[Finding]:
        """There is nothing to look at."""
        return ()

    def turn(
        self,
        role: str,
        step: str,
        config: PromptContextRuntimeConfig,
        *,
        role_config: RoleConfig | None = None,
        writes: bool = False,
        max_repairs: int = 2,
        max_retries: int = 0,
        sessions: SessionBook | None = None,
    ) -> TurnReport | TurnFailure:
        """Run one turn on `hundred_events`, by the runtime that the service builds for the role."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "r1.json").write_text(json.dumps(hundred_events().data), encoding="utf-8")
            (folder / "worktree").mkdir()
            log = ManifestLog(folder / "telemetry", clock)
            runtime = RUNTIMES.get(role, RoleRuntime)(
                role,
                role_config=role_config or RoleConfig(),
                provider=self,
                parts=RuntimeParts(
                    texts=load_texts({}),
                    manifests=log,
                    config_sha256="0" * 64,
                    sessions=sessions or SessionBook(WorkspacePaths(folder), SessionsConfig(), "sprint-1", clock),
                    environment={"PATH": "/usr/bin:/bin"},
                    max_repairs=max_repairs,
                    max_retries=max_retries,
                    sleep=self.pauses.append,
                ),
                prompt_context_config=config,
            )
            turn = Turn(read_record_file(folder / "r1.json"), role, step, 1, CONTEXTS.get(step))
            place = Workplace(folder / "worktree", writes=writes, artifacts=folder / "artifacts")
            outcome = runtime.run_turn(turn, place, progress=self.told.append, watch=lambda _: None)
            self.written = log.read("r1")
            return outcome


def model_prompts(config: PromptContextRuntimeConfig) -> dict[PromptKind, str]:
    """Return the text of every kind of prompt as a provider is given it, over three turns and one repair."""
    prompts: dict[PromptKind, str] = {}
    for step in ("research", "build", "version_control"):
        role = STEP_ROLES[step]
        good = json.dumps(role_answer(step, request_id="r1"))
        refused = ["no answer at all"] if step == "build" else []
        provider = ListeningProvider(*refused, good)
        report = provider.turn(role, step, config)
        assert isinstance(report, TurnReport), report
        prompts[RUNTIMES.get(role, RoleRuntime).kind] = provider.calls[0].prompt
        if refused:
            prompts[PromptKind.CONTRACT_REPAIR] = provider.calls[1].prompt
    return prompts
