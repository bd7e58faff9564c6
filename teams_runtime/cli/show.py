"""`show` tells what became of one request, event by event."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from teams_runtime.cli.output import clipped, echo_line, echo_text, json_option, one_line, program
from teams_runtime.cli.service import open_store
from teams_runtime.cli.workspace import here
from teams_runtime.shared.errors import InputError
from teams_runtime.shared.paths import WorkspacePaths, find_workspace
from teams_runtime.shared.prompt_context import event_json, evidence_role
from teams_runtime.store.records import Record
from teams_runtime.store.salvage import salvage_file
from teams_runtime.workflows.orchestration.runner import is_worked_on

OVERVIEW_EVENTS = 200
"""How many of the newest events the overview lists; older ones are asked for by `--events`."""


@click.command()
@click.argument("request_id")
@click.option(
    "--events", "span", metavar="A-B", help="Show these events whole, one JSON object a line; A alone is one event."
)
@click.option("--role", metavar="ROLE", help="Show only events that are this role's evidence.")
@click.option("--salvage", is_flag=True, help="Of a damaged record: the events that are whole, one JSON object a line.")
@json_option
def show(request_id: str, span: str | None, role: str | None, salvage: bool, as_json: bool) -> None:
    """Show one request: its state, and its events. REQUEST_ID may be shortened while it stays unique."""
    paths = find_workspace(here())
    store = open_store(paths)
    request_id = store.resolve(request_id)
    if salvage:
        _salvage(paths.record(request_id), as_json=as_json)
        return
    record = store.load(request_id)
    if as_json:
        lines = ",".join(record.event_lines(_chosen(record, span, role)))
        echo_text(f'{{"head": {event_json(record.head)}, "events": [{lines}]}}')
    elif span is not None or role is not None:
        for line in record.event_lines(_chosen(record, span, role)):
            echo_text(line)
    else:
        _overview(record, paths)


def _salvage(path: Path, *, as_json: bool) -> None:
    """Print what is whole in a file; what is not is told on standard error, and the file is left as it is."""
    found = salvage_file(path)
    if as_json:
        gaps = ",".join(map(event_json, found.gaps))
        echo_text(f'{{"events": [{",".join(found.lines)}], "gaps": [{gaps}]}}')
        return
    for line in found.lines:
        echo_text(line)
    for gap in found.gaps:
        click.echo(one_line(gap), err=True)


def _chosen(record: Record, span: str | None, role: str | None) -> Sequence[int]:
    """Return the positions (0-based) of the wanted events."""
    first, last = (1, record.seq) if span is None else parse_span(span, record.seq)
    if role is None:
        return range(first - 1, last)
    wanted = role.strip().casefold()
    events = record.events[first - 1 : last]
    return [position for position, event in enumerate(events, first - 1) if evidence_role(event) == wanted]


def parse_span(span: str, total: int) -> tuple[int, int]:
    """Return the first and last event (1-based, both included) that `A-B` or `A` names.

    Raises:
        InputError: it names no events of a history of `total` events.

    >>> parse_span("3-5", 10)
    (3, 5)
    """
    first, dash, last = span.partition("-")
    parts = (first, last if dash else first)
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise InputError(f"--events must be A-B or A with whole numbers from 1, got {span!r}")
    low, high = int(parts[0]), int(parts[1])
    if not 1 <= low <= high <= total:
        raise InputError(f"--events must lie within 1-{total}, got {span!r}")
    return low, high


def _overview(record: Record, paths: WorkspacePaths) -> None:
    head = record.head
    left = head.get("status") in {"queued", "running"} and not is_worked_on(paths, record.path.stem)
    echo_line(f"request   {record.request_id}")
    echo_line(f"scope     {clipped(head.get('scope'), 100)}")
    hint = (
        f"; no process works on it, go on with: {program()} resume {record.path.stem}" if left and record.native else ""
    )
    echo_line(f"status    {clipped(head.get('status'), 40)}{hint}")
    commit, question = head.get("commit"), head.get("question")
    if isinstance(commit, dict) and commit.get("sha"):
        echo_line(f"commit    {clipped(commit['sha'], 64)} on {clipped(commit.get('branch'), 140)}")
    if isinstance(question, dict):
        choices = question.get("choices")
        for line in str(question.get("text")).splitlines():
            echo_line(f"waits for {line}")
        for choice in choices if isinstance(choices, list) else []:
            echo_line(f"          {program()} answer {record.request_id} {clipped(choice, 40)}")
    echo_line(f"record    {record.path}")
    echo_line("")
    first = max(0, record.seq - OVERVIEW_EVENTS)
    if first:
        echo_line(f"{first:>5}  earlier events: {program()} show {record.request_id} --events 1-{first}")
    for number, event in enumerate(record.events[first:], first + 1):
        echo_line(_event_row(number, event))
    echo_line("")
    echo_line(f"a whole event: {program()} show {record.request_id} --events N")
    echo_line(f"a prompt:      {program()} prompt {record.request_id} --why --at N")


def _event_row(number: int, event: Any) -> str:
    if not isinstance(event, dict):
        return f"{number:>5}  {clipped(event, 90)}"
    name = clipped(event.get("type", event.get("event_type")), 16)
    time = clipped(event.get("timestamp", event.get("created_at")), 24)
    actor, summary = clipped(event.get("actor"), 18), clipped(event.get("summary"), 80)
    return f"{number:>5}  {time:<24}  {name:<16}  {actor:<18}  {summary}"
