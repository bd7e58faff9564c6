"""The physical calls of one turn: each is bounded in time, made again where that may help, and leaves a manifest."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tenacity

from teams_runtime.providers.base import Progress, Provider, TurnRequest, TurnResult, Usage
from teams_runtime.runtime.sessions import SessionBook
from teams_runtime.runtime.turn_prompt import Turn, TurnPrompt
from teams_runtime.shared.errors import ProviderError
from teams_runtime.shared.models import RoleConfig
from teams_runtime.shared.prompt_context import SELECTION_POLICY, log_line
from teams_runtime.telemetry.manifests import CallManifest, ManifestLog
from teams_runtime.workflows.roles.contract import PromptKind, answer_schema
from teams_runtime.workflows.roles.prompt import template_sha256
from teams_runtime.workflows.roles.texts import RoleTexts

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
"""Between two tries of one call the pause doubles from the first to the longest, and up to a second is added by chance;
a provider that says how long to wait is given at least that long."""


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
    """What every model-facing runtime of one service shares.

    Attributes:
        texts: what the roles are told.
        manifests: where each call leaves its manifest.
        config_sha256: hash of the config.
        sessions: which conversations go on.
        environment: the variables that the tools of the roles may see.
        max_repairs: how many times one answer may be sent back.
        max_retries: how many times one call may be made again.
        sleep: waits so many seconds.
    """

    texts: RoleTexts
    manifests: ManifestLog
    config_sha256: str
    sessions: SessionBook
    environment: Mapping[str, str] = field(default_factory=dict)
    max_repairs: int = 2
    max_retries: int = 3
    sleep: Callable[[float], None] = time.sleep


Watch = Callable[[CallManifest], None]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls whom in one turn, and who is told.

    Attributes:
        kind: the kind of the turn's first prompt.
        role_config: the role's model, reasoning effort and deadline.
        provider: who answers.
        parts: what the runtimes of one service share.
        turn: who works on what.
        place: where.
        progress: told one short line whenever the model is seen to do something.
        watch: told each call's manifest when the call has ended.
    """

    kind: PromptKind
    role_config: RoleConfig
    provider: Provider
    parts: RuntimeParts
    turn: Turn
    place: Workplace
    progress: Progress
    watch: Watch


@dataclass(slots=True)
class Calls:
    """The calls of one turn so far.

    Attributes:
        caller: who calls whom.
        spent: what they used.
    """

    caller: Caller
    spent: Spent = field(default_factory=Spent)
    _seconds: float = 0.0
    _retry: int = 0

    def make(self, prompt: TurnPrompt, attempt: int, session: str | None) -> TurnResult:
        """Make one call, again after failures that may pass, and return its answer; the role's deadline holds for all.

        Each try that fails leaves its manifest; that of the answer is left by `answered`, when it is known what the
        answer is worth.

        Raises:
            ProviderError: the last try failed.
        """
        caller = self.caller
        if prompt.projection.compacted:
            logger.info(log_line(prompt.projection, caller.turn.record.request_id, prompt.kind))
        started, timeout = time.monotonic(), caller.role_config.timeout_seconds
        tries = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(caller.parts.max_retries + 1) | tenacity.stop_before_delay(timeout),
            wait=_pause,
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, ProviderError) and error.retryable),
            before_sleep=lambda state: _tell_pause(caller.progress, state),
            sleep=caller.parts.sleep,
            reraise=True,
        )
        for one in tries:
            with one:
                self._retry = one.retry_state.attempt_number - 1
                passed = time.monotonic() - started if self._retry else 0.0
                return self._try(prompt, attempt, session, round(timeout - passed, 3))
        raise AssertionError("tenacity gives an answer or raises")

    def _try(self, prompt: TurnPrompt, attempt: int, session: str | None, deadline_seconds: float) -> TurnResult:
        started = time.monotonic()
        try:
            reply = self.caller.provider.run_turn(
                self._request(prompt, attempt, session, deadline_seconds), self.caller.progress
            )
        except ProviderError as error:
            self._seconds = time.monotonic() - started
            self.spent = self.spent.plus(Usage(), self._seconds)
            self.caller.watch(self._manifest(prompt, attempt, str(error.kind), None))
            raise
        self._seconds = time.monotonic() - started
        self.spent = self.spent.plus(reply.usage, self._seconds)
        return reply

    def _request(self, prompt: TurnPrompt, attempt: int, session: str | None, deadline_seconds: float) -> TurnRequest:
        caller, turn, config = self.caller, self.caller.turn, self.caller.role_config
        return TurnRequest(
            request_id=turn.record.request_id,
            role=turn.role,
            step=turn.step,
            visit=turn.visit,
            attempt=attempt,
            prompt=prompt.text,
            worktree=caller.place.worktree,
            write_access="worktree" if caller.place.writes else "none",
            deadline_seconds=deadline_seconds,
            environment=caller.parts.environment,
            schema=self._schema(),
            session=session,
            model=config.model,
            reasoning=config.reasoning,
        )

    def _schema(self) -> Mapping[str, Any] | None:
        dialect = self.caller.provider.schema_dialect
        if dialect == "none":
            return None
        return answer_schema(self.caller.turn.role, self.caller.kind, closed=dialect == "closed")

    def answered(self, prompt: TurnPrompt, attempt: int, reply: TurnResult, outcome: str) -> None:
        """Leave the manifest of the call that was just answered.

        Args:
            prompt: what it asked.
            attempt: 0 for the turn's primary call, 1 and 2 for its repairs.
            reply: what it answered.
            outcome: `ok`, or `rejected` when the answer broke its contract.
        """
        self.caller.watch(self._manifest(prompt, attempt, outcome, reply))

    def _manifest(self, prompt: TurnPrompt, attempt: int, outcome: str, reply: TurnResult | None) -> CallManifest:
        """Write the call's manifest and return it."""
        turn, caller, parts = self.caller.turn, self.caller, self.caller.parts
        manifest = CallManifest(
            request_id=turn.record.request_id,
            seq=turn.record.seq,
            role=turn.role,
            step=turn.step,
            visit=turn.visit,
            attempt=attempt,
            retry=self._retry,
            kind=prompt.kind,
            provider=caller.provider.name,
            model=caller.role_config.model,
            policy=SELECTION_POLICY,
            positions=prompt.projection.positions,
            reasons=prompt.projection.reasons,
            total_events=prompt.projection.total_events,
            included_events=prompt.projection.included_events,
            template_sha256=template_sha256(caller.kind, turn.role, turn.step, parts.texts),
            config_sha256=parts.config_sha256,
            prompt_sha256=prompt.sha256,
            characters=len(prompt.text),
            characters_full=prompt.characters_full,
            duration_seconds=round(self._seconds, 3),
            outcome=outcome,
        )
        if reply is not None:
            manifest = replace(
                manifest,
                model=reply.model or manifest.model,
                answer_characters=len(reply.text),
                tool_calls=reply.tool_calls,
                denials=len(reply.denials),
                input_tokens=reply.usage.input_tokens,
                cached_input_tokens=reply.usage.cached_input_tokens,
                output_tokens=reply.usage.output_tokens,
                reasoning_tokens=reply.usage.reasoning_tokens,
                cost_usd=reply.usage.cost_usd,
            )
        try:
            parts.manifests.write(manifest)
        except OSError as error:  # an answer that is paid for is not lost for want of a line about it
            logger.warning("the manifest of a call could not be written: %s", error.strerror or type(error).__name__)
        return manifest


_GROWING = tenacity.wait_exponential(multiplier=FIRST_PAUSE_SECONDS, max=LONGEST_PAUSE_SECONDS) + tenacity.wait_random(
    0, 1
)


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_seconds if isinstance(error, ProviderError) else None
    return max(_GROWING(state), asked or 0.0)


def _tell_pause(progress: Progress, state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, ProviderError):
        progress(f"{error.kind}: {error}; tried again in {state.upcoming_sleep:.0f} s")
