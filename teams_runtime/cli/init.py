"""`teams-runtime init`: a config file with every default spelled out, and a private state folder."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

import click

from teams_runtime.cli.output import echo_json, echo_line, json_option, program
from teams_runtime.cli.workspace import here
from teams_runtime.shared.errors import WorkspaceError
from teams_runtime.shared.own_files import make_own_folder, write_new_file, write_own_file
from teams_runtime.shared.paths import CONFIG_NAME, STATE_NAME, WorkspacePaths

SCHEMA_NAME = "team_runtime.schema.json"
"""The JSON Schema's file name in the state folder; the first line of the scaffold's config names it for editors."""


def scaffold_config() -> str:
    """Return the text of a new workspace's config file."""
    return (resources.files("teams_runtime") / "templates" / "scaffold" / CONFIG_NAME).read_text(encoding="utf-8")


def make_workspace(folder: Path) -> WorkspacePaths:
    """Make a workspace of `folder`, which is made too when it does not exist.

    The config file is written last, and never over another.

    Raises:
        WorkspaceError: a config file is there already, or the file system refuses.
    """
    paths = WorkspacePaths(Path(os.path.realpath(here() / folder)))
    if os.path.lexists(paths.config_file):
        raise WorkspaceError(f"{paths.config_file}: must not exist yet, got one already; nothing was changed")
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        make_state_folder(paths)
        write_new_file(paths.config_file, scaffold_config().encode(), mode=0o666)
    except OSError as error:
        raise WorkspaceError(f"{paths.root}: a workspace cannot be made here: {error.strerror}") from error
    return paths


def make_state_folder(paths: WorkspacePaths) -> None:
    """Make the state folder (readable by its owner only) with the file that hides it from git, and the schema."""
    from teams_runtime.shared.config_schema import schema_text

    make_own_folder(paths.root, STATE_NAME).chmod(0o700)
    write_own_file(paths.state / ".gitignore", lambda stream: stream.write(b"*\n"))
    write_own_file(paths.state / SCHEMA_NAME, lambda stream: stream.write(schema_text().encode()))


@click.command()
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(path_type=Path))
@json_option
def init(folder: Path, as_json: bool) -> None:
    """Make a workspace in DIR (default: the current folder); an existing config file is never touched."""
    paths = make_workspace(folder)
    if as_json:
        echo_json({"workspace": str(paths.root), "config": str(paths.config_file), "state": str(paths.state)})
        return
    echo_line(f"made {paths.config_file}")
    echo_line(f"made {paths.state}")
    echo_line(
        f"next: `{program()} config check` says what a run still needs; docs/providers.md has a script to start from"
    )
