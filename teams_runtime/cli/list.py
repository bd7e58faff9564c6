"""`list` shows every request of the workspace, newest first, a damaged record as a row of its own."""

from __future__ import annotations

from pathlib import Path

import click

from teams_runtime.cli.output import echo, echo_json, one_line
from teams_runtime.cli.service import open_store
from teams_runtime.shared.paths import find_workspace
from teams_runtime.store.records import DamagedRecord


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_requests(as_json: bool) -> None:
    """List the requests of this workspace."""
    rows = open_store(find_workspace(Path.cwd())).list()
    if as_json:
        echo_json({"requests": [row.as_dict() for row in rows]})
        return
    if not rows:
        echo("no requests yet; `teams-runtime run SCOPE` files one")
    width = max((len(row.request_id) for row in rows), default=0)
    for row in rows:
        if isinstance(row, DamagedRecord):
            echo(f"{row.request_id:<{width}}  damaged    {row.reason}")
        else:
            step = row.step or "-"
            echo(f"{row.request_id:<{width}}  {row.status or '-':<9}  {step:<18}  {row.events:>4} events  {one_line(row.scope, 60)}")
