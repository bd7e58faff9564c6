"""One turn of one role: project, prompt, call, parse, and at most two repairs, all from one projection."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from teams_runtime.providers.base import Progress, Provider, TurnRequest, TurnResult, Usage
from teams_runtime.runtime.side_files import RejectedAnswers, place_record_copy
from teams_runtime.runtime.turn_prompt import Turn, TurnPrompt, TurnPrompts
from teams_runtime.shared.errors import ContractError, FailureKind, ProviderError
from teams_runtime.shared.models import PromptContextRuntimeConfig, RoleConfig
from teams_runtime.shared.prompt_context import SELECTION_POLICY, log_line
from teams_runtime.telemetry.manifests import CallManifest, ManifestLog
from teams_runtime.workflows.roles.contract import MAX_ANSWER_CHARACTERS, PromptKind, answer_schema
from teams_runtime.workflows.roles.parsing import RoleResult, parse_answer
from teams_runtime.workflows.roles.prompt import RejectedAnswer, template_sha256
from teams_runtime.workflows.roles.texts import RoleTexts

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Spent:
    """What one turn used, all its calls together; what no provider told is None.

    Attributes:
        calls: physical provider calls.
        tokens: input plus output tokens.
        cost_usd: US dollars.
        seconds: wall-clock seconds.
    """

    calls: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 0.0

    def plus(self, usage: Usage, seconds: float) -> Spent:
        """Return this with one more call added."""
        told = [count for count in (usage.input_tokens, usage.output_tokens) if count is not None]
        return Spent(
            calls=self.calls + 1,
            tokens=(self.tokens or 0) + sum(told) if told else self.tokens,
            cost_usd=self.cost_usd if usage.cost_usd is None else (self.cost_usd or 0.0) + usage.cost_usd,
            seconds=round(self.seconds + seconds, 3),
        )

    def payload(self) -> dict[str, int | float | None]:
        """Return it as events carry it."""
        return {"calls": self.calls, "tokens": self.tokens, "cost_usd": self.cost_usd, "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class TurnReport:
    """A turn that ended with an answer that keeps its contract."""

    result: RoleResult
    spent: Spent
    denials: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnFailure:
    """A turn that ended without one.

    Attributes:
        kind: why.
        remedy: one line that says what the user should do next.
        issues: the contract issues of the turn's last refused answer; empty when none was refused.
        spent: what the turn used all the same.
    """

    kind: FailureKind
    remedy: str
    spent: Spent
    issues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where a turn works and what it may do there.

    Attributes:
        worktree: the request's git worktree, absolute.
        writes: whether the role may change files there.
        artifacts: the request's artifact folder.
    """

    worktree: Path
    writes: bool
    artifacts: Path


@dataclass(frozen=True, slots=True)
class RuntimeParts:
    """What every model-facing runtime of one service shares."""

    texts: RoleTexts
    manifests: ManifestLog
    config_sha256: str
    max_repairs: int


Watch = Callable[[CallManifest], None]


class RoleRuntime:
    """Runs turns of one role.

    Args:
        role: the role.
        role_config: its model, reasoning effort and deadline.
        provider: who answers.
        parts: what the runtimes of one service share.
        prompt_context_config: how histories are projected into this runtime's prompts.
    """

    kind: ClassVar[PromptKind] = PromptKind.ROLE_TASK

    def __init__(
        self,
        role: str,
        *,
        role_config: RoleConfig,
        provider: Provider,
        parts: RuntimeParts,
        prompt_context_config: PromptContextRuntimeConfig,
    ) -> None:
        self.role = role
        self.role_config = role_config
        self.provider = provider
        self.parts = parts
        self.prompt_context_config = prompt_context_config

    def run_turn(self, turn: Turn, place: Workplace, *, progress: Progress, watch: Watch) -> TurnReport | TurnFailure:
        """Work one turn to its end; every call leaves a manifest, no call leaves text outside the answer.

        Args:
            turn: who works on what.
            place: where.
            progress: told one short line whenever the model is seen to do something.
            watch: told each call's manifest when the call has ended.
        """
        prompts = TurnPrompts(turn, self.parts.texts, self.prompt_context_config)
        if prompts.projection.compacted:
            place_record_copy(place.worktree, turn.record)
        rejected_answers = RejectedAnswers(place.artifacts)
        spent, session, rejected = Spent(), None, None
        denials: tuple[str, ...] = ()
        for attempt in range(self.parts.max_repairs + 1):
            prompt = prompts.build(self.kind if rejected is None else PromptKind.CONTRACT_REPAIR, rejected)
            call = _Call(self, turn, place, prompt, attempt, session)
            try:
                reply = call.run(progress)
            except ProviderError as error:
                watch(call.manifest(str(error.kind), None))
                issues = rejected.issues if rejected else ()
                remedy = f"{_refusal(issues)}{error}; {error.remedy}"
                return TurnFailure(error.kind, remedy, spent.plus(Usage(), call.seconds), issues)
            spent, session = spent.plus(reply.usage, call.seconds), reply.session_id
            denials += reply.denials
            try:
                result = self._settled(self._parse(turn, reply.text))
            except ContractError as error:
                rejected = _rejected(reply.text, error)
                rejected_answers.save(turn.record.seq, attempt, rejected)
                watch(call.manifest("rejected", reply))
                for issue in error.issues:
                    progress(f"refused: {issue}")
                continue
            watch(call.manifest("ok", reply))
            return TurnReport(result, spent, denials)
        issues = rejected.issues if rejected else ()
        return TurnFailure(FailureKind.CONTRACT, _refusal(issues).rstrip("; "), spent, issues)

    def _settled(self, result: RoleResult) -> RoleResult:
        """Return the result as it is recorded; a runtime may add what it knows itself."""
        return result

    def _parse(self, turn: Turn, text: str) -> RoleResult:
        return parse_answer(
            text,
            role=self.role,
            step=turn.step,
            purpose=self.kind,
            request_id=turn.record.request_id,
            context=turn.context,
            profile=turn.profile,
        )


def _refusal(issues: tuple[str, ...]) -> str:
    """What was wrong with the last refused answer, for the question that a person is asked."""
    more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
    return f"the answer was refused, {issues[0]}{more}; " if issues else ""


def _rejected(text: str, error: ContractError) -> RejectedAnswer:
    """An answer over the limit is not carried on; its issue names its size."""
    return RejectedAnswer(text=text if len(text) <= MAX_ANSWER_CHARACTERS else "", issues=error.issues)


class _Call:
    """One physical call of a turn, timed, and the manifest it leaves."""

    def __init__(
        self, runtime: RoleRuntime, turn: Turn, place: Workplace, prompt: TurnPrompt, attempt: int, session: str | None
    ) -> None:
        self._runtime, self._turn, self._place = runtime, turn, place
        self._prompt, self._attempt, self._session = prompt, attempt, session
        self.seconds = 0.0

    def run(self, progress: Progress) -> TurnResult:
        turn, prompt, config = self._turn, self._prompt, self._runtime.role_config
        if prompt.projection.compacted:
            logger.info(log_line(prompt.projection, turn.record.request_id, prompt.kind))
        started = time.monotonic()
        try:
            return self._runtime.provider.run_turn(
                TurnRequest(
                    request_id=turn.record.request_id,
                    role=turn.role,
                    step=turn.step,
                    visit=turn.visit,
                    attempt=self._attempt,
                    prompt=prompt.text,
                    worktree=self._place.worktree,
                    write_access="worktree" if self._place.writes else "none",
                    deadline_seconds=config.timeout_seconds,
                    schema=answer_schema(turn.role, self._runtime.kind),
                    session=self._session,
                    model=config.model,
                    reasoning=config.reasoning,
                ),
                progress,
            )
        finally:
            self.seconds = time.monotonic() - started

    def manifest(self, outcome: str, reply: TurnResult | None) -> CallManifest:
        """Write the call's manifest and return it."""
        turn, prompt, runtime = self._turn, self._prompt, self._runtime
        usage = Usage() if reply is None else reply.usage
        manifest = CallManifest(
            request_id=turn.record.request_id,
            seq=turn.record.seq,
            role=turn.role,
            step=turn.step,
            visit=turn.visit,
            attempt=self._attempt,
            kind=prompt.kind,
            provider=runtime.provider.name,
            model=runtime.role_config.model,
            policy=SELECTION_POLICY,
            positions=prompt.projection.positions,
            reasons=prompt.projection.reasons,
            total_events=prompt.projection.total_events,
            included_events=prompt.projection.included_events,
            template_sha256=template_sha256(runtime.kind, turn.role, turn.step, runtime.parts.texts),
            config_sha256=runtime.parts.config_sha256,
            prompt_sha256=prompt.sha256,
            characters=len(prompt.text),
            characters_full=prompt.characters_full,
            answer_characters=None if reply is None else len(reply.text),
            duration_seconds=round(self.seconds, 3),
            outcome=outcome,
            input_tokens=usage.input_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cost_usd=usage.cost_usd,
        )
        try:
            runtime.parts.manifests.write(manifest)
        except OSError as error:  # an answer that is paid for is not lost for want of a line about it
            logger.warning("the manifest of a call could not be written: %s", error.strerror or type(error).__name__)
        return manifest
