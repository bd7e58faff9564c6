"""The prompt of one call, as a pure function of a record as it stood, the config and the roles' texts.

A turn and the `prompt` command both come here, so what an inspector shows is what a model was given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from teams_runtime.shared.models import PromptContextRuntimeConfig
from teams_runtime.shared.prompt_context import Projection, evidence_role, project_request
from teams_runtime.store.records import Record
from teams_runtime.workflows.roles.contract import PromptKind
from teams_runtime.workflows.roles.prompt import PromptInput, RejectedAnswer, build_prompt
from teams_runtime.workflows.roles.texts import RoleTexts


@dataclass(frozen=True, slots=True)
class Turn:
    """One role's work on one step, before any call is made.

    Attributes:
        record: the record as it stood when the turn was delegated; the projection is made from it.
        role: who works.
        step: the workflow step.
        visit: how many times the step has run, this time included (1-based).
        context: what the delegation says about this turn's task; None when it says nothing.
        profile: the profile that the request was filed with.
    """

    record: Record
    role: str
    step: str
    visit: int
    context: Mapping[str, Any] | None = None
    profile: str = "full"


@dataclass(frozen=True, slots=True)
class TurnPrompt:
    """The text of one call and how it came about.

    Attributes:
        kind: which of the four prompts it is.
        text: what the model is given, whole.
        projection: which events it shows, and why.
        characters_full: size in characters of the same prompt with the projection switched off.
    """

    kind: PromptKind
    text: str
    projection: Projection
    characters_full: int

    @property
    def sha256(self) -> str:
        """Hex digest of the text in UTF-8; lone surrogates cannot occur, the text escapes them."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()


class TurnPrompts:
    """Every prompt of one turn, all from one projection.

    Args:
        turn: the turn.
        texts: what the roles are told.
        config: how the history is projected.
    """

    def __init__(self, turn: Turn, texts: RoleTexts, config: PromptContextRuntimeConfig) -> None:
        self.turn = turn
        self.texts = texts
        self.projection = turn.record.project(config)

    def build(self, kind: PromptKind, rejected: RejectedAnswer | None = None) -> TurnPrompt:
        """Return the prompt of one kind; a repair needs the answer that was rejected."""
        text = self._text(kind, self.projection, rejected)
        full = self._full_size(kind, rejected) if self.projection.compacted else len(text)
        return TurnPrompt(kind=kind, text=text, projection=self.projection, characters_full=full)

    def _full_size(self, kind: PromptKind, rejected: RejectedAnswer | None) -> int:
        """Return the size of the prompt with every event; it is not built, a history may be hundreds of megabytes."""
        record = self.turn.record
        head = record.head
        if _is_told_by_an_event(record, head.get("result")):
            del head["result"]
        lines = record.event_characters + record.seq
        return len(self._text(kind, project_request(head), rejected)) + lines

    def _text(self, kind: PromptKind, projection: Projection, rejected: RejectedAnswer | None) -> str:
        turn = self.turn
        return build_prompt(
            PromptInput(
                kind=kind,
                role=turn.role,
                step=turn.step,
                visit=turn.visit,
                projection=projection,
                texts=self.texts,
                context=turn.context,
                rejected=rejected,
            )
        )


def _is_told_by_an_event(record: Record, result: object) -> bool:
    """Return whether the newest result is an event's, so that a prompt with every event shows it there."""
    seq = result.get("seq") if isinstance(result, dict) else None
    if not isinstance(seq, int):
        return False
    events = record.events[seq - 1 : seq] if record.native else record.events
    return any(evidence_role(event) is not None and event.get("seq") == seq for event in events)
