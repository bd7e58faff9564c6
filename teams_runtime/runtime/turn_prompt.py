"""The prompt of one call, as a pure function of a record as it stood, the config and the roles' texts.

A turn and the `prompt` command both come here, so what an inspector shows is what a model was given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from teams_runtime.shared.models import PromptContextRuntimeConfig
from teams_runtime.shared.prompt_context import Projection, project_indexed
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
        role: who is asked.
        text: what the model is given, whole.
        projection: which events it shows, and why.
        characters_full: size in characters of the same prompt with the projection switched off.
    """

    kind: PromptKind
    role: str
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
        self._outline = _outline(turn.record) if self.projection.compacted else None

    def build(self, kind: PromptKind, rejected: RejectedAnswer | None = None) -> TurnPrompt:
        """Return the prompt of one kind; a repair needs the answer that was rejected."""
        text = self._text(kind, self.projection, rejected)
        full = len(text) if self._outline is None else self._full_size(kind, self._outline, rejected)
        return TurnPrompt(kind=kind, role=self.turn.role, text=text, projection=self.projection, characters_full=full)

    def _full_size(self, kind: PromptKind, outline: Projection, rejected: RejectedAnswer | None) -> int:
        """Return how long the prompt with every event is, without building it: a history can be huge."""
        line_breaks = self.projection.total_events - 1
        return len(self._text(kind, outline, rejected)) + self.turn.record.event_characters + line_breaks

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


def _outline(record: Record) -> Projection:
    """Return a projection that gives the prompt with every event but for their text: one empty line stands for all.

    The one event is that of the newest result, so that the head is rendered as beside the whole history.
    """
    result = record.head.get("result")
    seq = result.get("seq") if isinstance(result, dict) else None
    newest = record.events[seq - 1] if isinstance(seq, int) and 1 <= seq <= record.seq else None
    whole = PromptContextRuntimeConfig(enabled=False)
    return project_indexed(record.head, 1, {}, lambda _: newest, whole, stored_lines=lambda _: "")
