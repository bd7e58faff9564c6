"""`prompt` shows the exact text a role would be given now, or was given after an earlier event."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from teams_runtime.cli.output import echo_exact, echo_json, echo_line, json_option
from teams_runtime.cli.service import now, open_store
from teams_runtime.cli.workspace import here
from teams_runtime.runtime.side_files import RejectedAnswers
from teams_runtime.runtime.turn_prompt import TurnPrompt
from teams_runtime.shared.config import load_team_runtime_config
from teams_runtime.shared.errors import WorkspaceError
from teams_runtime.shared.models import PromptContextRuntimeConfig, TeamRuntimeConfig
from teams_runtime.shared.paths import find_workspace
from teams_runtime.store.records import Record, read_record_file
from teams_runtime.telemetry.manifests import ManifestLog
from teams_runtime.workflows.orchestration.prompt_view import Wanted, explain_events, view_prompt
from teams_runtime.workflows.orchestration.team_service import role_texts
from teams_runtime.workflows.roles.contract import PromptKind
from teams_runtime.workflows.roles.texts import RoleTexts, load_texts

EXPLAINED_EVENTS = 1_000
"""Up to how many events `--why` has a row for each; of a longer history it lists the shown ones only."""


@click.command()
@click.argument("request")
@click.option("--role", metavar="ROLE", help="Whose prompt; the role at work when left out.")
@click.option(
    "--kind",
    type=click.Choice([str(kind) for kind in PromptKind]),
    help="Which kind of prompt; the role's own when left out.",
)
@click.option("--at", type=int, metavar="SEQ", help="As it stood after this event (1-based).")
@click.option("--why", is_flag=True, help="Say for each event why it is shown or omitted, in place of the text.")
@click.option("--full", is_flag=True, help="As it would be with prompt_context.enabled: false.")
@json_option
def prompt(
    request: str, role: str | None, kind: str | None, at: int | None, why: bool, full: bool, as_json: bool
) -> None:
    """Show a prompt. REQUEST is a request id, or any record file: a path that ends with .json or holds a slash."""
    source = _source(request)
    config = source.config.model_copy(update={"enabled": False}) if full else source.config
    built = view_prompt(
        source.record,
        Wanted(role=role, kind=None if kind is None else PromptKind(kind), at=at),
        config=config,
        texts=source.texts,
        rejected=source.rejected,
    )
    record = source.record if at is None else source.record.at(at)
    if as_json:
        echo_json(_as_dict(record, built))
        return
    if why:
        _explain(record, built)
    else:
        echo_exact(built.text)
    if source.manifests is not None and not full:
        click.echo(_sent(source.manifests, record, built), err=True)


@dataclass(frozen=True, slots=True)
class _Source:
    """A record and what its prompts are built with."""

    record: Record
    config: PromptContextRuntimeConfig
    texts: RoleTexts
    rejected: RejectedAnswers | None = None
    manifests: ManifestLog | None = None


def _source(request: str) -> _Source:
    """Take a record of this workspace by its id, or any record file by its path; a file needs no workspace."""
    if "/" in request or request.endswith(".json"):
        record = read_record_file(Path(request))
        try:
            paths = find_workspace(here())
        except WorkspaceError:
            return _Source(record, TeamRuntimeConfig().prompt_context, load_texts({}))
        config = load_team_runtime_config(paths.root)
        return _Source(record, config.prompt_context, role_texts(paths, config))
    paths = find_workspace(here())
    config = load_team_runtime_config(paths.root)
    store = open_store(paths)
    record = store.load(store.resolve(request))
    rejected = RejectedAnswers(paths.artifacts(record.request_id))
    manifests = ManifestLog(paths.telemetry, now)
    return _Source(record, config.prompt_context, role_texts(paths, config), rejected, manifests)


def _as_dict(record: Record, built: TurnPrompt) -> dict[str, Any]:
    return {
        "prompt": built.text,
        "notice": built.projection.notice(),
        "characters": len(built.text),
        "characters_full": built.characters_full,
        "events": explain_events(record, built),
    }


def _sent(manifests: ManifestLog, record: Record, built: TurnPrompt) -> str:
    """Say how the text compares with what the calls of that turn were given, by the hashes that were kept."""
    calls = [call for call in manifests.read(record.request_id) if call.seq == record.seq and call.role == built.role]
    sent = [call.prompt_sha256 for call in calls if call.kind == built.kind]
    if built.sha256 in sent:
        return f"This is, byte for byte, what was sent (sha256 {built.sha256[:16]})."
    if sent:
        return f"What was sent differs (sha256 {sent[-1][:16]}): the config or a charter has changed since."
    return f"This was never sent: no {built.kind} call of {built.role} began after event {record.seq}."


def _explain(record: Record, built: TurnPrompt) -> None:
    projection = built.projection
    echo_line(
        f"{built.kind} prompt for {record.request_id}: {len(built.text):,} characters, "
        f"{projection.included_events} of {projection.total_events} events; "
        f"{built.characters_full:,} characters with every event"
    )
    if projection.total_events > EXPLAINED_EVENTS:
        _explain_briefly(built)
    else:
        for row in explain_events(record, built):
            echo_line(f"{row['position']:>5}  {row['type'] or '-':<16}  {row['role'] or '-':<18}  {row['reason']}")
    if not record.seq:
        echo_line("the record has no list of events in `events`")
    elif not projection.roles_covered and not projection.roles_missing:
        echo_line("no event speaks for a role: that takes the type `role_report`, or a payload with role and status")
    if projection.roles_missing:
        echo_line(f"no place was left for: {', '.join(projection.roles_missing)}")


def _explain_briefly(built: TurnPrompt) -> None:
    """One row for each shown event, and the rest as ranges: nobody reads ten thousand rows."""
    for position, reason in zip(built.projection.positions, built.projection.reasons, strict=True):
        echo_line(f"{position + 1:>8}  {reason}")
    omitted = built.projection.notice().get("omitted_positions")
    if omitted:
        echo_line(f" omitted  {omitted}")
