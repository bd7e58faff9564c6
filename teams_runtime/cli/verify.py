"""`verify` reads records whole and tells everything that is wrong with them; nothing on disk is changed."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from teams_runtime.cli.output import echo_json, echo_line, json_option
from teams_runtime.cli.service import open_store
from teams_runtime.cli.workspace import here
from teams_runtime.shared.paths import find_workspace
from teams_runtime.store.checking import Verdict, verify_file
from teams_runtime.store.folding import OWN_FOLDING

EXIT_UNSOUND = 1


@click.command()
@click.argument("request", required=False)
@json_option
def verify(request: str | None, as_json: bool) -> None:
    """Check the record of REQUEST, a request id or any record file; every record when it is left out.

    Exit code 0: all are sound; 1: something is wrong, and the lines say what.
    """
    verdicts = _verdicts(request)
    if as_json:
        echo_json({"records": [asdict(one) | {"path": str(one.path), "sound": one.sound} for one in verdicts]})
    else:
        for verdict in verdicts:
            _tell(verdict)
    sys.exit(0 if all(verdict.sound for verdict in verdicts) else EXIT_UNSOUND)


def _verdicts(request: str | None) -> list[Verdict]:
    if request is not None and ("/" in request or request.endswith(".json")):
        return [verify_file(Path(request), OWN_FOLDING, in_store=False)]
    store = open_store(find_workspace(here()))
    names = [row.request_id for row in store.list()] if request is None else [store.resolve(request)]
    return [store.verify(name) for name in names]


def _tell(verdict: Verdict) -> None:
    word = "sound" if verdict.sound else "NOT SOUND"
    echo_line(f"{verdict.path}: {word}, {verdict.events} events")
    for problem in verdict.problems:
        echo_line(f"  wrong: {problem}")
    for note in verdict.notes:
        echo_line(f"  note:  {note}")
