"""One turn of one role: project, prompt, call, parse, and at most two repairs, all from one projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from teams_runtime.providers.base import Progress, Provider, TurnResult
from teams_runtime.runtime.calls import Caller, Calls, RuntimeParts, Spent, Watch, Workplace
from teams_runtime.runtime.sessions import OpenSession, Party
from teams_runtime.runtime.side_files import RejectedAnswers, place_record_copy
from teams_runtime.runtime.turn_prompt import Turn, TurnPrompt, TurnPrompts
from teams_runtime.shared.errors import ContractError, FailureKind, ProviderError
from teams_runtime.shared.models import PromptContextRuntimeConfig, RoleConfig
from teams_runtime.workflows.roles.contract import MAX_ANSWER_CHARACTERS, PromptKind
from teams_runtime.workflows.roles.parsing import RoleResult, parse_answer
from teams_runtime.workflows.roles.prompt import RejectedAnswer


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
        denials: what the role tried and was not allowed to do.
    """

    kind: FailureKind
    remedy: str
    spent: Spent
    issues: tuple[str, ...] = ()
    denials: tuple[str, ...] = ()


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
        calls = Calls(Caller(self.kind, self.role_config, self.provider, self.parts, turn, place, progress, watch))
        party = Party(turn.record.request_id, self.role, self.provider.name, self.role_config.model)
        with self.parts.sessions.open(party) as session:
            return self._work(calls, prompts, session)

    def _work(self, calls: Calls, prompts: TurnPrompts, session: OpenSession) -> TurnReport | TurnFailure:
        turn, rejected = calls.caller.turn, None
        rejected_answers = RejectedAnswers(calls.caller.place.artifacts)
        denials: tuple[str, ...] = ()
        for attempt in range(self.parts.max_repairs + 1):
            prompt = prompts.build(self.kind if rejected is None else PromptKind.CONTRACT_REPAIR, rejected)
            issues = rejected.issues if rejected else ()
            try:
                reply = _reply(calls, prompt, attempt, session)
            except ProviderError as error:
                remedy = f"{_refusal(issues)}{_sentence(error, prompt)}"
                return TurnFailure(error.kind, remedy, calls.spent, issues, denials)
            session.used(reply)
            denials += reply.denials
            try:
                result = self._settled(self._parse(turn, reply.text))
            except ContractError as error:
                rejected = _rejected(reply.text, error)
                rejected_answers.save(turn.record.seq, attempt, rejected)
                calls.answered(prompt, attempt, reply, "rejected")
                for issue in error.issues:
                    calls.caller.progress(f"refused: {issue}")
                continue
            calls.answered(prompt, attempt, reply, "ok")
            return TurnReport(result, calls.spent, denials)
        issues = rejected.issues if rejected else ()
        return TurnFailure(FailureKind.CONTRACT, _refusal(issues).rstrip("; "), calls.spent, issues, denials)

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


def _reply(calls: Calls, prompt: TurnPrompt, attempt: int, session: OpenSession) -> TurnResult:
    """Make a call in the turn's session; where what earlier turns piled up there is too much, in a fresh one."""
    try:
        return calls.make(prompt, attempt, session.session_id)
    except ProviderError as error:
        if error.kind is not FailureKind.CONTEXT_WINDOW or not session.resumed:
            raise
    calls.caller.progress("the session has grown too long: a fresh one is begun")
    session.leave("context_window")
    return calls.make(prompt, attempt, None)


def _sentence(error: ProviderError, prompt: TurnPrompt) -> str:
    """What a person is told of a call that failed; of a prompt that is too long also how it came about."""
    if error.kind is not FailureKind.CONTEXT_WINDOW:
        return f"{error}; {error.remedy}"
    shown, total = prompt.projection.included_events, prompt.projection.total_events
    return f"{error}; it shows {shown} of {total} events; {error.remedy}"


def _refusal(issues: tuple[str, ...]) -> str:
    """What was wrong with the last refused answer, for the question that a person is asked."""
    more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
    return f"the answer was refused, {issues[0]}{more}; " if issues else ""


def _rejected(text: str, error: ContractError) -> RejectedAnswer:
    """An answer over the limit is not carried on; its issue names its size."""
    return RejectedAnswer(text=text if len(text) <= MAX_ANSWER_CHARACTERS else "", issues=error.issues)
