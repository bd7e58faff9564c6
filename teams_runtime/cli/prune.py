"""`prune` shows what requests take on disk, and removes them when it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import click

from teams_runtime.cli.output import echo_json, echo_line, json_option
from teams_runtime.cli.service import now, open_store
from teams_runtime.cli.workspace import here
from teams_runtime.shared.errors import InputError
from teams_runtime.shared.paths import find_workspace
from teams_runtime.store.fold import ENDED
from teams_runtime.store.pruning import Footprint
from teams_runtime.store.records import RecordStore, RecordSummary

MOST_DAYS = 36_500
"""A hundred years: no request is older, and no calendar ends."""


@click.command()
@click.argument("request_ids", nargs=-1)
@click.option(
    "--older-than",
    "days",
    type=click.IntRange(min=0, max=MOST_DAYS),
    metavar="DAYS",
    help="Ended requests untouched for so long.",
)
@click.option("--yes", is_flag=True, help="Remove what is shown; without it nothing is removed.")
@json_option
def prune(request_ids: tuple[str, ...], days: int | None, yes: bool, as_json: bool) -> None:
    """Show what REQUEST_IDS, or ended requests of some age, take on disk; with --yes remove them for good.

    A record goes with its artifacts. Worktrees and branches are git's: they stay until git removes them.
    """
    if not request_ids and days is None:
        raise InputError("prune needs request ids, or --older-than DAYS")
    paths = find_workspace(here())
    store = open_store(paths)
    names = [store.resolve(one) for one in request_ids] if request_ids else _ended(store, days or 0)
    prints = [store.remove(name) if yes else store.footprint(name) for name in dict.fromkeys(names)]
    if as_json:
        echo_json({"removed": yes, "requests": [_as_dict(one) for one in prints]})
        return
    for one in prints:
        echo_line(f"{one.request_id}: {one.bytes:,} bytes in {len(one.files)} files")
        for file in one.files:
            echo_line(f"  {file}")
        if paths.worktree(one.request_id).exists():
            echo_line(f"  stays: {paths.worktree(one.request_id)} and the branch teams/{one.request_id}")
    echo_line(f"{len(prints)} requests {'removed' if yes else 'would be removed; --yes removes them'}")


def _ended(store: RecordStore, days: int) -> Sequence[str]:
    """Return the requests that ended and were not touched for so many days, oldest first; never a damaged one."""
    limit = now() - timedelta(days=days)
    rows = [row for row in store.list() if isinstance(row, RecordSummary) and row.native and row.status in ENDED]
    return [row.request_id for row in reversed(rows) if datetime.fromisoformat(row.updated_at) <= limit]


def _as_dict(one: Footprint) -> dict[str, object]:
    return {"request_id": one.request_id, "bytes": one.bytes, "files": [str(file) for file in one.files]}
