"""`list` shows every request of the workspace, newest first, a damaged record as a row of its own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from teams_runtime.cli.output import clipped, echo_json, echo_line, json_option, program
from teams_runtime.cli.service import open_store
from teams_runtime.cli.workspace import here
from teams_runtime.shared.paths import WorkspacePaths, find_workspace
from teams_runtime.store.records import DamagedRecord, RecordSummary
from teams_runtime.workflows.orchestration.runner import is_worked_on


@click.command("list")
@json_option
def list_requests(as_json: bool) -> None:
    """List the requests of this workspace."""
    paths = find_workspace(here())
    rows = open_store(paths).list()
    if as_json:
        echo_json({"requests": [_as_dict(row) for row in rows]})
        return
    if not rows:
        echo_line(f"no requests yet; `{program()} run SCOPE` files one")
    width = max((len(row.request_id) for row in rows), default=0)
    for row in rows:
        echo_line(f"{row.request_id:<{width}}  {_told(row, paths)}")


def _told(row: RecordSummary | DamagedRecord, paths: WorkspacePaths) -> str:
    if isinstance(row, DamagedRecord):
        return f"damaged      {row.reason}"
    stopped = row.native and row.status == "running" and not is_worked_on(paths, row.request_id)
    status = "interrupted" if stopped else row.status
    return f"{status:<11}  {row.current_role or '-':<18}  {row.seq:>4} events  {clipped(row.scope.strip(), 60)}"


def _as_dict(row: RecordSummary | DamagedRecord) -> dict[str, Any]:
    """A damaged record has the status `damaged` and a `reason`; every other row has none."""
    told = asdict(row) | {"path": str(row.path)}
    return told | {"status": "damaged"} if isinstance(row, DamagedRecord) else told
