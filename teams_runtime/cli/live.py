"""What a person sees while a request is worked on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from teams_runtime.cli.output import clipped, encodable, one_line
from teams_runtime.telemetry.manifests import CallManifest
from teams_runtime.workflows.orchestration.request_run import RunObserver

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table


NARROW_COLUMNS = 90
"""A terminal with fewer columns has no room for the roles' names beside their steps."""


@dataclass(slots=True)
class TurnRow:
    """What is known of one turn while it goes on."""

    role: str
    step: str
    visit: int
    started: float
    seconds: float | None = None
    state: str = "working"
    detail: str = ""
    prompts: list[CallManifest] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The step, with its visit where there was more than one."""
        return self.step if self.visit == 1 else f"{self.step} #{self.visit}"

    def duration(self) -> float:
        """Seconds so far, or of the whole turn when it has ended."""
        return time.monotonic() - self.started if self.seconds is None else self.seconds

    def told(self) -> str:
        """The state in a few words: what the role does now, or what came of it and after how many repairs."""
        if self.seconds is None:
            return f"{self.state}: {self.detail}" if self.detail else self.state
        repairs = self.prompts[-1].attempt if self.prompts else 0
        return self.state if repairs < 1 else f"{self.state}, {repairs} repaired"

    def sizes(self) -> str:
        """The newest prompt's size in characters, and what it would be without the projection where that is more."""
        if not self.prompts:
            return ""
        return size_text(self.prompts[-1].characters, self.prompts[-1].characters_full)


def size_text(characters: int, characters_full: int) -> str:
    """Return a prompt's size for a person.

    >>> size_text(9120, 17340)
    '9,120 of 17,340'
    """
    return f"{characters:,}" if characters == characters_full else f"{characters:,} of {characters_full:,}"


class PlainView(RunObserver):
    """Writes one line for each thing that happens; for logs and pipes.

    Args:
        stream: where the lines go; None, or one that cannot be written any more, is no reason to stop the work.
    """

    def __init__(self, stream: IO[str] | None) -> None:
        self._stream = stream
        self.rows: list[TurnRow] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Every line is flushed as it is written."""

    def delegated(self, role: str, step: str, visit: int, cause: str) -> None:
        """Say who begins to work on what."""
        self.rows.append(TurnRow(role, step, visit, time.monotonic()))
        self._say(f"{self.rows[-1].label}: {role} works ({cause})")

    def progressed(self, line: str) -> None:
        """Say what the role does."""
        if self.rows:
            self.rows[-1].detail = line
        self._say(f"  {line}")

    def called(self, manifest: CallManifest) -> None:
        """Say how large the prompt was and what became of the answer."""
        self.rows[-1].prompts.append(manifest)
        events = f"{manifest.included_events} of {manifest.total_events} events"
        self._say(f"  {manifest.kind} prompt: {self.rows[-1].sizes()} characters, {events}; answer {manifest.outcome}")

    def appended(self, event: Mapping[str, Any]) -> None:
        """Say what was recorded."""
        if event["type"] in {"role_report", "turn_failed"} and self.rows:
            self.rows[-1].state = _outcome(event)
            self.rows[-1].seconds = time.monotonic() - self.rows[-1].started
        if event["type"] != "delegated":
            self._say(f"  {event['seq']}. {event['type']}: {event['summary']}")

    def _say(self, line: str) -> None:
        if self._stream is None:
            return
        try:
            print(encodable(one_line(line), self._stream), file=self._stream, flush=True)
        except OSError:
            self._stream = None  # a view that nobody can see is no reason to stop the work


class LiveView(PlainView):
    """Draws one table row a turn and keeps it up to date, below the lines of what was recorded; for terminals.

    Args:
        stream: the terminal.
    """

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        # Loaded here and not at the top: drawing is the only thing that needs rich, and it takes long to import.
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream, highlight=False, markup=False)
        self._live: Live = Live(console=self._console, get_renderable=self._table, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # the terminal is gone
            self._live.stop()

    def delegated(self, role: str, step: str, visit: int, cause: str) -> None:  # noqa: ARG002
        """Begin a row."""
        self.rows.append(TurnRow(role, step, visit, time.monotonic()))

    def called(self, manifest: CallManifest) -> None:
        """Put the prompt's size into the row."""
        self.rows[-1].prompts.append(manifest)

    def _say(self, line: str) -> None:
        """Print above the table, which is for what goes on now."""
        self._console.print(clipped(line, self._console.width), no_wrap=True)

    def _table(self) -> Table:
        from rich.table import Table

        narrow = self._console.width < NARROW_COLUMNS
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("step", no_wrap=True)
        if not narrow:
            table.add_column("role", no_wrap=True)
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("prompt characters", justify="right", no_wrap=True)
        table.add_column("state", no_wrap=True)
        used = 48 if narrow else 68
        for row in self.rows:
            state = clipped(row.told(), max(self._console.width - used, 12))
            role = () if narrow else (row.role,)
            table.add_row(row.label, *role, f"{row.duration():.1f} s", row.sizes(), state)
        return table


def _outcome(event: Mapping[str, Any]) -> str:
    """The state that a turn's last event gives it, in a few words."""
    payload = event["payload"]
    if event["type"] == "turn_failed":
        return f"failed: {payload['kind']}"
    said = payload.get("verdict") or payload["status"]
    outcome = (payload.get("transition") or {}).get("outcome")
    return f"{said}, {outcome}" if outcome == "reopen" else str(said)


def view_for(stream: IO[str] | None, *, plain: bool) -> PlainView:
    """Return the live table for a terminal, plain lines for everything else."""
    return PlainView(stream) if plain or stream is None or not stream.isatty() else LiveView(stream)
