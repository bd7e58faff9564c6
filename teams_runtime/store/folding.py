"""How a head follows from events: all at once, or one event at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from teams_runtime.store.events import Event
from teams_runtime.store.fold import fold, fold_one


@dataclass(frozen=True, slots=True)
class Folding:
    """The head as a pure function of the events."""

    fold: Callable[[Sequence[Event]], dict[str, Any]]
    """Gives the head after all the events."""
    advance: Callable[[Mapping[str, Any], Event], dict[str, Any]] | None = None
    """Gives the head after one more event; the same as folding anew, without reading the history."""


OWN_FOLDING = Folding(fold, fold_one)
"""The folding of this package's own events."""
