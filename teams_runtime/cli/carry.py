"""`export` writes a record to a plain file, `import` makes a record of one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from teams_runtime.cli.output import echo_json, echo_line, json_option
from teams_runtime.cli.service import open_store
from teams_runtime.shared.errors import InputError
from teams_runtime.shared.paths import find_workspace


@click.command()
@click.argument("request_id")
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@json_option
def export(request_id: str, file: Path | None, as_json: bool) -> None:
    """Write a record to FILE, by default `REQUEST_ID.json` in this folder; - is standard output.

    The file is one JSON object with every event as it is spelled in the record. An existing file is never replaced.
    """
    store = open_store(find_workspace(Path.cwd()))
    request_id = store.resolve(request_id)
    blob = store.plain_bytes(request_id)
    if file is not None and str(file) == "-":
        sys.stdout.buffer.write(blob)
        return
    target = file or Path(f"{request_id}.json")
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(blob)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from error
    if as_json:
        echo_json({"request_id": request_id, "file": str(target), "bytes": len(blob)})
    else:
        echo_line(f"{target}: {len(blob):,} bytes; artifacts are not in it")


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--id", "request_id", metavar="ID", help="The id of a record that holds none; else the file's name.")
@json_option
def take_in(file: Path, request_id: str | None, as_json: bool) -> None:
    """Make a record of FILE: one that `export` wrote, or a record of another program, which is only read."""
    record = open_store(find_workspace(Path.cwd())).take_in(file, request_id)
    if as_json:
        echo_json({"request_id": record.path.stem, "events": record.seq, "native": record.native})
    else:
        told = "" if record.native else "; another program made it: it is read and shown, never lengthened"
        echo_line(f"{record.path}: {record.seq} events{told}")
