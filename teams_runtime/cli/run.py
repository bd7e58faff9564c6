"""`run` files a request and works it; `resume` and `answer` go on with one that stopped."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from teams_runtime.cli.ending import Ended
from teams_runtime.cli.live import view_for
from teams_runtime.cli.log import kept_log
from teams_runtime.cli.output import echo_json, echo_text, json_option, one_line, program
from teams_runtime.cli.service import open_service
from teams_runtime.cli.workspace import here
from teams_runtime.shared.errors import InputError
from teams_runtime.store.records import Record
from teams_runtime.workflows.orchestration.team_service import MAX_REQUEST_CHARACTERS, TeamService

EXIT_CODES = {"completed": 0, "waiting": 3, "failed": 4, "cancelled": 5}
"""What `run`, `resume` and `answer` end with, by the status that the request is left in."""
CODES_HELP = "Exit codes: 0 completed, 3 waiting for a person, 4 failed, 5 cancelled, 2 refused, 130 interrupted."


@click.command(epilog=CODES_HELP)
@click.argument("scope")
@click.option(
    "--body-file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Text that says more; - reads it from standard input.",
)
@click.option(
    "--profile", type=click.Choice(["full", "lean"]), help="Steps to take; the config's profile when left out."
)
@json_option
def run(scope: str, body_file: Path | None, profile: str | None, as_json: bool) -> None:
    """Let the team work on SCOPE, a sentence that says what is wanted; - reads it from standard input."""
    if scope == "-" and body_file is not None and str(body_file) == "-":
        raise InputError("standard input can give the scope or the body, not both")
    scope_text = _text(Path("-"), "scope") if scope == "-" else scope
    body = "" if body_file is None else _text(body_file, "--body-file")
    service = open_service(here())
    record = service.submit(scope_text, body=body, profile=profile)
    unseen = service.repository.uncommitted()
    if unseen:
        click.echo(
            f"note: {unseen} changed files of the checkout are not committed, so the team does not see them", err=True
        )
    finish(service, record.request_id, as_json=as_json)


@click.command(epilog=CODES_HELP)
@click.argument("request_id")
@json_option
def resume(request_id: str, as_json: bool) -> None:
    """Go on with a request that was interrupted; finished turns and a finished commit are not repeated."""
    service = open_service(here())
    finish(service, service.store.resolve(request_id), as_json=as_json)


@click.command(epilog=CODES_HELP)
@click.argument("request_id")
@click.argument("choice")
@click.option("--text", default="", help="What you say besides; the roles are shown it.")
@json_option
def answer(request_id: str, choice: str, text: str, as_json: bool) -> None:
    """Answer the question that a request waits with, by one of its CHOICEs, and go on with the request."""
    service = open_service(here())
    resolved = service.store.resolve(request_id)
    service.answer(resolved, choice, text)
    finish(service, resolved, as_json=as_json)


def finish(service: TeamService, request_id: str, *, as_json: bool) -> None:
    """Work a request to where it stops, show the outcome, and end with the exit code of its status."""
    record = work(service, request_id, as_json=as_json)
    if as_json:
        echo_json(outcome(record))
    else:
        for line in outcome_lines(record):
            echo_text(line)
    sys.exit(EXIT_CODES[record.head["status"]])


def work(service: TeamService, request_id: str, *, as_json: bool) -> Record:
    """Work a request to where it stops, with a live view; beside `--json` the view is plain, on standard error."""
    try:
        with kept_log(service.paths), view_for(sys.stderr if as_json else sys.stdout, plain=as_json) as view:
            return service.advance(request_id, view)
    except (Ended, KeyboardInterrupt):
        with suppress(OSError):
            click.echo(f"interrupted; go on with: {program()} resume {request_id}", err=True)
        raise


def outcome(record: Record) -> dict[str, Any]:
    """Return what became of a request, for programs."""
    head = record.head
    question = head["question"] or {}
    return {
        "request_id": record.request_id,
        "status": head["status"],
        "events": record.seq,
        "branch": (head["commit"] or {}).get("branch"),
        "commit": (head["commit"] or {}).get("sha"),
        "question": question.get("text"),
        "record": str(record.path),
    }


def outcome_lines(record: Record) -> list[str]:
    """Return what became of a request, for people."""
    told = outcome(record)
    lines = [f"request {told['request_id']}: {told['status']}, {told['events']} events"]
    if told["commit"]:
        lines.append(f"commit  {told['commit']} on {told['branch']}")
        lines.append(f"take it over: git merge {told['branch']}")
    if told["question"]:
        lines += [one_line(line) for line in f"waits for a person: {told['question']}".split("\n")]
        lines += [
            f"  {program()} answer {told['request_id']} {choice}" for choice in record.head["question"]["choices"]
        ]
    return [*lines, f"look closer: {program()} show {told['request_id']}"]


def _text(path: Path, what: str) -> str:
    """Read a text as UTF-8, never more than a request may hold."""
    limit = MAX_REQUEST_CHARACTERS * 4  # the most bytes that so many characters take in UTF-8
    try:
        if str(path) == "-" and sys.stdin is None:
            raise InputError(f"{what}: -: it must be given on the standard input, which is closed")
        if str(path) == "-":
            raw = sys.stdin.buffer.read(limit + 1)
        else:
            with path.open("rb") as stream:
                raw = stream.read(limit + 1)
    except OSError as error:
        raise InputError(f"{what}: {path}: it must be a file that can be read: {error.strerror}") from error
    if len(raw) > limit:
        raise InputError(
            f"{what}: {path}: it must be at most {MAX_REQUEST_CHARACTERS} characters, got more than {limit} bytes"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{what}: {path}: it must be UTF-8 text, got byte {raw[error.start]:#04x} at {error.start}"
        ) from error
