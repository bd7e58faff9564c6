"""`teams-runtime config`: check the config file, write its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from teams_runtime.cli.output import echo_json, echo_line, echo_text, json_option
from teams_runtime.cli.workspace import here
from teams_runtime.shared.config import load_team_runtime_config
from teams_runtime.shared.config_schema import config_schema, schema_text
from teams_runtime.shared.errors import ConfigError, InputError
from teams_runtime.shared.models import ROLES, TeamRuntimeConfig, workspace_path
from teams_runtime.shared.paths import CONFIG_NAME, find_workspace


@click.group()
def config() -> None:
    """Check the config file, or write its JSON Schema."""


def notes(root: Path, loaded: TeamRuntimeConfig) -> Iterator[str]:
    """Yield what a valid config still lacks before every role can work: one sentence each."""
    script = loaded.providers.scripted.script
    scripted = [role for role in ROLES if loaded.role(role).provider == "scripted"]
    if scripted and script is None:
        yield f"providers.scripted.script names no file, and these roles need it: {', '.join(scripted)}"
    elif scripted and script is not None and not workspace_path(root, script).is_file():
        yield f"providers.scripted.script names no existing file: {script}"
    named = {"default_role": loaded.default_role, **{f"roles.{role}": entry for role, entry in loaded.roles.items()}}
    for key, entry in named.items():
        if entry.charter is not None and not workspace_path(root, entry.charter).is_file():
            yield f"{key}.charter names no existing file: {entry.charter}"
    if not workspace_path(root, loaded.repository.path).is_dir():
        yield f"repository.path names no existing folder: {loaded.repository.path}"
    if not loaded.repository.verification_command:
        yield "repository.verification_command is empty: no test is run before QA judges"


@config.command()
@json_option
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Tell every problem of the config file; exit code 2 when there is one."""
    root = find_workspace(here()).root
    problems: tuple[str, ...] = ()
    told: list[str] = []
    try:
        told = list(notes(root, load_team_runtime_config(root)))
    except ConfigError as error:
        problems = error.problems
    if as_json:
        echo_json({"ok": not problems, "file": str(root / CONFIG_NAME), "problems": problems, "notes": told})
    else:
        for line in problems or (f"{CONFIG_NAME}: all is well", *(f"note: {note}" for note in told)):
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
