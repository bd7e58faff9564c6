"""`teams-runtime config`: check the config file, write its JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click

from teams_runtime.cli.output import echo_json, echo_line, echo_text, json_option
from teams_runtime.cli.workspace import here
from teams_runtime.git.repository import Repository
from teams_runtime.providers.scripted import load_script
from teams_runtime.shared.config import load_team_runtime_config
from teams_runtime.shared.config_schema import config_schema, schema_text
from teams_runtime.shared.errors import ConfigError, InputError, UserError
from teams_runtime.shared.models import ROLES, TeamRuntimeConfig, workspace_path
from teams_runtime.shared.paths import CONFIG_NAME, WorkspacePaths, find_workspace
from teams_runtime.workflows.orchestration.team_service import role_texts


@click.group()
def config() -> None:
    """Check the config file, or write its JSON Schema."""


def missing(root: Path, loaded: TeamRuntimeConfig) -> Iterator[str]:
    """Yield what a run would be refused for, though the file itself is right: one sentence each, as `run` says it."""
    script = loaded.providers.scripted.script
    scripted = [role for role in ROLES if loaded.role(role).provider == "scripted"]
    if scripted and script is None:
        yield f"providers.scripted.script names no file, and these roles need it: {', '.join(scripted)}"
    checks: list[Callable[[], object]] = [
        lambda: role_texts(WorkspacePaths(root), loaded),
        lambda: Repository.open(workspace_path(root, loaded.repository.path)),
    ]
    if scripted and script is not None:
        checks.insert(0, lambda: load_script(workspace_path(root, script)))
    for run in checks:
        try:
            run()
        except ConfigError as error:
            yield from error.problems
        except UserError as error:
            yield str(error)


def notes(loaded: TeamRuntimeConfig) -> Iterator[str]:
    """Yield what a run can do without, and had better not: one sentence each."""
    if not loaded.repository.verification_command:
        yield "repository.verification_command is empty: no test is run before QA judges"


@config.command()
@json_option
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Tell every problem of the config file (exit code 2), and what a run would still be refused for."""
    root = find_workspace(here()).root
    problems: tuple[str, ...] = ()
    lacking: list[str] = []
    told: list[str] = []
    try:
        loaded = load_team_runtime_config(root)
        lacking, told = list(missing(root, loaded)), list(notes(loaded))
    except ConfigError as error:
        problems = error.problems
    if as_json:
        found = {"ok": not problems, "ready": not (problems or lacking), "file": str(root / CONFIG_NAME)}
        echo_json(found | {"problems": problems, "missing": lacking, "notes": told})
    else:
        verdict = "is right, but a run would be refused" if lacking else "all is well"
        lines = (*(f"missing: {line}" for line in lacking), *(f"note: {line}" for line in told))
        for line in problems or (f"{CONFIG_NAME}: {verdict}", *lines):
            echo_line(line)
    ctx.exit(2 if problems else 0)


@config.command()
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write; standard output if not given."
)
@json_option
def schema(output: Path | None, as_json: bool) -> None:
    """Write the JSON Schema of the config file, for editors."""
    if output is not None:
        try:
            output.write_text(schema_text(), encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InputError(f"--output must name a file that can be written, got {error}") from error
    if as_json:
        echo_json(config_schema() if output is None else {"schema": str(output)})
    elif output is None:
        echo_text(schema_text().rstrip("\n"))
    else:
        echo_line(f"wrote {output}")
