"""The one interface of every provider: a prompt in, a reply out, failures as `ProviderError` of a closed list."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

WriteAccess = Literal["none", "worktree"]
SchemaDialect = Literal["none", "open", "closed"]
"""Which JSON Schema a provider takes: none, any, or only one in which every object names and requires all its keys."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One physical call.

    Attributes:
        request_id: which request the call works for.
        role: who answers.
        step: the workflow step.
        visit: how many times this step has run for the request, this time included (1-based).
        attempt: 0 for the turn's primary call, 1 and 2 for its repairs.
        prompt: the whole text the model is given.
        worktree: folder the role works in, absolute.
        write_access: `worktree` when the role may change files there, `none` when it may only read.
        deadline_seconds: wall-clock seconds after which the call is ended with all its processes.
        environment: the variables that the role's tools may see, and so may the client; no key is among them.
        schema: JSON Schema of the answer in the provider's dialect; None where it takes none.
        session: the provider's conversation to go on with; None starts a fresh one.
        model: model name as the provider spells it; None is the provider's default.
        reasoning: reasoning effort (`low`, `medium`, `high`); None is the provider's default.
        cancelled: set from another thread to end the call early; None where nobody can.
    """

    request_id: str
    role: str
    step: str
    visit: int
    attempt: int
    prompt: str
    worktree: Path
    write_access: WriteAccess
    deadline_seconds: float
    environment: Mapping[str, str] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    session: str | None = None
    model: str | None = None
    reasoning: str | None = None
    cancelled: threading.Event | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What one call used, never cumulative over a session; what a provider does not tell stays None.

    Attributes:
        input_tokens: tokens of the prompt, cached ones included.
        cached_input_tokens: the part of them read from the provider's cache.
        output_tokens: tokens of the answer, reasoning included.
        reasoning_tokens: the part of them spent on reasoning.
        cost_usd: US dollars.
    """

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What came back from one call that ended well.

    Attributes:
        text: the answer as the model gave it, unparsed.
        session_id: the provider's conversation, for a repair in the same turn; None where there is none.
        usage: what the call used.
        denials: what the role tried and was not allowed to do, one short line each.
        tool_calls: how many tools the model called, as far as the provider tells; None where it does not.
        model: the model that answered, as the provider names it; None where it does not.
    """

    text: str
    session_id: str | None = None
    usage: Usage = field(default_factory=Usage)
    denials: tuple[str, ...] = ()
    tool_calls: int | None = None
    model: str | None = None


FindingState = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What an examination of one thing found.

    Attributes:
        subject: the thing, in a word or two: `codex program`, `codex login`, `codex sandbox`.
        state: `ok`; `warning` where something works less well; `problem` where what is configured cannot work.
        detail: what was found, one sentence; no secret.
        remedy: the command to run or the line to write next; empty when there is nothing to do.
    """

    subject: str
    state: FindingState
    detail: str
    remedy: str = ""


Progress = Callable[[str], None]
"""Called with one short line whenever the model is seen to do something; for live views only."""


class Provider(Protocol):
    """Answers turns."""

    @property
    def name(self) -> str:
        """The name that configs use for it."""
        ...

    @property
    def schema_dialect(self) -> SchemaDialect:
        """Which JSON Schema it takes."""
        ...

    def run_turn(self, request: TurnRequest, progress: Progress) -> TurnResult:
        """Make one call and return its answer.

        Raises:
            ProviderError: the call failed; `kind` says how, `remedy` what to do next.
        """
        ...

    def examine(self, *, writes: bool) -> Sequence[Finding]:
        """Say whether turns can be run: program, version, login, sandbox; no model is called, nothing is changed.

        Args:
            writes: whether a role that writes uses it.
        """
        ...
