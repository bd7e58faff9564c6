"""`demo`: a scratch repository with a real defect, and the whole team on it, without account or key.

Everything but the answers is real: the worktree, the edits, the test runs, the prompts, the record, the commit.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import click

from teams_runtime.cli.init import make_state_folder
from teams_runtime.cli.live import size_text
from teams_runtime.cli.output import echo_json, echo_line, json_option, program
from teams_runtime.cli.run import EXIT_CODES, work
from teams_runtime.cli.service import open_service
from teams_runtime.cli.workspace import here
from teams_runtime.git.command import Git
from teams_runtime.shared.errors import WorkspaceError
from teams_runtime.shared.paths import CONFIG_NAME, WorkspacePaths
from teams_runtime.store.records import Record
from teams_runtime.telemetry.manifests import CallManifest
from teams_runtime.workflows.orchestration.team_service import TeamService

MARKER = ".teams-runtime-demo"
"""The file by which an earlier demo's folder is known, so that only such a folder is ever replaced."""

SCRIPT = "script.yaml"


@click.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("teams-runtime-demo"),
    show_default=True,
    help="Where to make it; an earlier demo there is replaced, anything else is refused.",
)
@json_option
def demo(folder: Path, as_json: bool) -> None:
    """Make a small repository with a failing test and let the whole team mend it, offline."""
    started = time.monotonic()
    workspace = make_demo(folder)
    service = open_service(workspace)
    scope, body = _request()
    record = service.submit(scope, body=body)
    record = work(service, record.request_id, as_json=as_json)
    prompts = [_prompt_row(manifest) for manifest in service.manifests.read(record.request_id)]
    if as_json:
        commit = (record.head["commit"] or {}).get("sha")
        echo_json({"workspace": str(workspace), "request_id": record.request_id, "commit": commit, "prompts": prompts})
    else:
        for line in _report(service, record, prompts, time.monotonic() - started):
            echo_line(line)
    sys.exit(EXIT_CODES[record.head["status"]])


def make_demo(folder: Path) -> Path:
    """Make the demo's workspace, a git repository with one commit; return its absolute path.

    Raises:
        WorkspaceError: the folder holds something that is not a demo, or cannot be made.
    """
    target = here() / folder
    try:
        if os.path.lexists(target):
            if target.is_symlink() or not (target / MARKER).is_file():
                raise WorkspaceError(
                    f"{target}: must be free, or an earlier demo, got something else; choose another --dir"
                )
            shutil.rmtree(target)
        _fill(target)
    except OSError as error:
        raise WorkspaceError(f"{target}: a demo cannot be made here: {error.strerror or error}") from error
    return target


def _fill(target: Path) -> None:
    template = resources.files("teams_runtime") / "templates" / "demo"
    target.mkdir(parents=True)
    (target / MARKER).write_text("`teams-runtime demo` made this folder and may replace it.\n", encoding="utf-8")
    for name, source in _files(template / "project"):
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(source.read_bytes())
    for name in (SCRIPT, CONFIG_NAME):
        text = (template / name).read_text(encoding="utf-8")
        (target / name).write_text(text.replace("@PYTHON@", sys.executable), encoding="utf-8")
    make_state_folder(WorkspacePaths(target))
    git = Git(target, os.environ)
    git.run("init", "--quiet", "--initial-branch=main")
    git.run("add", "--all")
    git.run("commit", "--quiet", "--message=A small package with a defect")


def _files(folder: Traversable, below: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the files of the scratch repository; `.txt` at the end of a name only hides it from our own tools."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        name = f"{below}{entry.name}"
        if entry.is_dir():
            yield from _files(entry, f"{name}/")
        else:
            yield name.removesuffix(".txt"), entry


def _request() -> tuple[str, str]:
    """The request's scope, which is the first line of its file, and its body."""
    text = (resources.files("teams_runtime") / "templates" / "demo" / "request.md").read_text(encoding="utf-8")
    scope, _, body = text.partition("\n")
    return scope.removeprefix("# "), body.strip()


def _prompt_row(manifest: CallManifest) -> dict[str, Any]:
    return {
        "role": manifest.role,
        "kind": str(manifest.kind),
        "characters": manifest.characters,
        "characters_full": manifest.characters_full,
    }


def _last_seq(service: TeamService, record: Record, role: str) -> int:
    """The event after which a role's newest prompt was built."""
    return max((one.seq for one in service.manifests.read(record.request_id) if one.role == role), default=1)


def _report(service: TeamService, record: Record, prompts: list[dict[str, Any]], seconds: float) -> Iterator[str]:
    head = record.head
    commit = head["commit"] or {}
    yield ""
    yield f"request {record.request_id}: {head['status']} after {record.seq} events, {seconds:.1f} seconds"
    yield f"  {head['scope']}"
    yield f"commit  {commit.get('sha')} on {commit.get('branch')}"
    for path in commit.get("paths", []):
        yield f"  {path}"
    yield ""
    yield "prompt characters, and how many they would be with the whole history"
    for number, row in enumerate(prompts, 1):
        size = size_text(row["characters"], row["characters_full"])
        yield f"  {number:>2}  {row['role']:<18}  {row['kind']:<18}  {size:>16}"
    yield ""
    yield "look closer:"
    yield f"  cd {shlex.quote(os.path.relpath(service.paths.root))}"
    yield f"  {program()} show {record.request_id}"
    yield f"  {program()} prompt {record.request_id} --role qa --at {_last_seq(service, record, 'qa')} --why"
    yield f"  git show {commit.get('branch')}"
