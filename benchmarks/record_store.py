"""Append and projection at 100 to 100,000 events, against the usual ways of keeping a history, all in one run.

`python -m benchmarks.record_store docs` also writes the table and the plot of `docs/record_bench.md`.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import shutil
import sqlite3
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from benchmarks.record_file import event, forget, history, put, workspace
from benchmarks.record_plot import write_docs
from teams_runtime.shared.paths import WorkspacePaths
from teams_runtime.shared.prompt_context import evidence_role, project_request
from teams_runtime.store.alternating import spare_path
from teams_runtime.store.records import Record, RecordStore

SIZES = (100, 1_000, 10_000, 100_000)
ROUNDS = 60
CHUNK = 256
BARE = ("bare write+fsync of the same bytes", "bare write+fsync to an open file")
Row = dict[str, Any]


def run() -> list[Row]:
    """Return every figure; those that the product promises have a bound."""
    rows: list[Row] = []
    for size in SIZES:
        with workspace() as (paths, store):
            rows += measure(paths, store, size)
    by_name = {row["name"]: row["value"] for row in rows}
    smallest, largest = SIZES[0], SIZES[-1]
    append = by_name[f"append, store, {largest} events"]
    bare = by_name[f"append, bare write+fsync of the same bytes, {largest} events"]
    to_open = by_name[f"append, bare write+fsync to an open file, {largest} events"]
    rows += [
        row(
            f"append at {largest} over append at {smallest}",
            append / by_name[f"append, store, {smallest} events"],
            "×",
            2,
        ),
        row(f"append at {largest} over a bare write+fsync of the same bytes", append / bare, "×", 3),
        row(f"append at {largest} over a bare write+fsync to an open file", append / to_open, "×"),
        listing(),
    ]
    return rows


def row(name: str, value: float, unit: str = "ms", bound: float | None = None) -> Row:
    """Return one figure."""
    return {"name": name, "value": value, "unit": unit, "bound": bound}


def measure(paths: WorkspacePaths, store: RecordStore, size: int) -> list[Row]:
    """Return the figures at one length."""
    path = put(paths, "bench", size)
    largest = size == SIZES[-1]
    rows = [*reads(store, path, size), *appends(store, path, size), *others(paths.root, size)]
    seconds = timed(lambda: store.verify("bench"), 1) / 1000
    return [*rows, row(f"verify, store, {size} events", seconds, "s", 5 if largest else None)]


def appends(store: RecordStore, path: Path, size: int) -> list[Row]:
    """Append in turn with the store and with a bare write of as many bytes, so that both meet the same machine."""
    numbers = itertools.count(size + 1)
    first = timed(partial(append_one, store, store.load("bench"), next(numbers)), 1)
    blob = os.urandom(written_bytes(store, path, next(numbers)))
    took: dict[str, list[float]] = {name: [] for name in ("store", *BARE)}
    growing = os.open(path.with_name("bare"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in range(ROUNDS):
        took["store"].append(timed(partial(append_one, store, store.load("bench"), next(numbers)), 1))
        took[BARE[0]].append(timed(partial(write_new, path.with_name(f"bare-{number}"), blob), 1))
        took[BARE[1]].append(timed(partial(write_open, growing, blob), 1))
    os.close(growing)
    rows = [row(f"append, {name}, {size} events", statistics.median(values)) for name, values in took.items()]
    return [*rows, row(f"first append, store, {size} events", first)]


def append_one(store: RecordStore, record: Record, number: int) -> None:
    """Append one event like those of the history."""
    given = event(number)
    made = store.new_event(given["type"], actor=given["actor"], summary=given["summary"], payload=given["payload"])
    store.append("bench", made, expected_seq=record.seq)


def written_bytes(store: RecordStore, path: Path, number: int) -> int:
    """Append once more and return how many bytes that wrote: the whole of a short record, the end of a long one."""
    if not spare_path(path).exists():
        return path.stat().st_size
    spare = path.with_name("before")
    shutil.copy(spare_path(path), spare)
    append_one(store, store.load("bench"), number)
    with spare.open("rb") as old, path.open("rb") as new:
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(chunks(old), chunks(new), strict=False)))
    spare.unlink()
    return path.stat().st_size - same * CHUNK


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield a file in short pieces."""
    return iter(lambda: file.read(CHUNK), b"")


def write_new(path: Path, blob: bytes) -> None:
    """Write bytes to a new file and return when they are on the device."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    write_open(descriptor, blob)
    os.close(descriptor)


def write_open(descriptor: int, blob: bytes) -> None:
    """Write bytes to an open file and return when they are on the device."""
    os.write(descriptor, blob)
    os.fsync(descriptor)


def reads(store: RecordStore, path: Path, size: int) -> list[Row]:
    """From a file to a projection: by slices, from the device, and by parsing the whole."""
    bound = 1 if size == SIZES[-1] else None
    warm = statistics.median(timed(lambda: store.project("bench"), 1) for _ in range(ROUNDS))
    cold = []
    for _ in range(20):
        forget(path)
        cold.append(timed(lambda: store.project("bench"), 1))
    tracemalloc.start()
    store.project("bench")
    memory = tracemalloc.get_traced_memory()[1] / 1024
    tracemalloc.stop()
    repeat = 3 if size > 10_000 else 10
    whole: dict[str, Callable[[bytes], Any]] = {"json": json.loads, "msgspec": msgspec.json.decode}
    parsed = [
        row(f"projection, {name}, {size} events", timed(partial(project_whole, path, decode), repeat))
        for name, decode in whole.items()
    ]
    return [
        row(f"projection, store, {size} events", warm, bound=bound),
        row(f"projection, store with an empty page cache, {size} events", statistics.median(cold)),
        row(f"memory of a projection, store, {size} events", memory, "KiB"),
        *parsed,
    ]


def project_whole(path: Path, decode: Callable[[bytes], Any]) -> None:
    """Read and parse a whole record and project it."""
    project_request(decode(path.read_bytes()))


def others(folder: Path, size: int) -> list[Row]:
    """The usual ways of keeping a history."""
    lines = list(history(size))
    document = {"request_id": "bench", "events": [json.loads(line) for line in lines]}
    repeat = 2 if size > 10_000 else 10
    rows = [
        row(
            f"append, full rewrite with {name}, {size} events",
            timed(partial(rewrite, folder / "w.json", encode, document), repeat),
        )
        for name, encode in encoders().items()
    ]
    del document
    return [*rows, *jsonl(folder, lines, size), *sqlite(folder, lines, size)]


def encoders() -> dict[str, Callable[[Any], bytes]]:
    """The encoders to compare; orjson where it is installed."""
    found: dict[str, Callable[[Any], bytes]] = {
        "json": lambda document: json.dumps(document, separators=(",", ":")).encode(),
        "msgspec": msgspec.json.encode,
    }
    if find_spec("orjson") is None:
        return found
    return found | {"orjson": importlib.import_module("orjson").dumps}


def rewrite(path: Path, encode: Callable[[Any], bytes], document: object) -> None:
    """Replace a file with a whole new document, durably; the document is in memory already."""
    draft = path.with_suffix(".draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    write_open(descriptor, encode(document))
    os.close(descriptor)
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def jsonl(folder: Path, lines: list[str], size: int) -> list[Row]:
    """One JSON object a line in a file that is no JSON document."""
    path = folder / "history.jsonl"
    path.write_text("".join(line + "\n" for line in lines))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)

    def append() -> None:
        os.write(descriptor, lines[-1].encode() + b"\n")
        os.fsync(descriptor)

    def project() -> None:
        project_request({"events": [json.loads(line) for line in path.read_text().splitlines()]})

    rows = [
        row(f"append, JSONL, {size} events", median(append)),
        row(f"projection, JSONL, {size} events", timed(project, 2)),
    ]
    os.close(descriptor)
    return rows


def sqlite(folder: Path, lines: list[str], size: int) -> list[Row]:
    """A database whose file is no JSON document."""
    base = sqlite3.connect(folder / "history.sqlite", isolation_level=None)
    base.execute("pragma journal_mode=wal")
    base.execute("pragma synchronous=full")
    base.execute("create table event (seq integer primary key, role text, body text)")
    base.execute("create index by_role on event (role, seq)")
    base.execute("begin")
    base.executemany(
        "insert into event (role, body) values (?, ?)", ((evidence_role(json.loads(one)), one) for one in lines)
    )
    base.execute("commit")

    def append() -> None:
        base.execute("insert into event (role, body) values (?, ?)", ("qa", lines[-1]))

    def project() -> None:
        newest = base.execute("select max(seq) from event where role is not null group by role").fetchall()
        tail = base.execute("select seq, body from event order by seq desc limit 8").fetchall()
        for (seq,) in newest:
            tail += base.execute("select seq, body from event where seq = ?", (seq,)).fetchall()
        for _, body in tail:
            json.loads(body)

    rows = [
        row(f"append, SQLite, {size} events", median(append)),
        row(f"projection, SQLite, {size} events", median(project)),
    ]
    base.close()
    return rows


def listing() -> Row:
    """The list of 10,000 records."""
    with workspace() as (paths, store):
        for number in range(10_000):
            put(paths, f"request-{number:05d}", 3)
        return row("list of 10,000 records", timed(store.list, 3) / 1000, "s", 1)


def timed(call: Callable[[], object], times: int) -> float:
    """Return the milliseconds of one call: the least of `times`."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best * 1000


def median(call: Callable[[], object]) -> float:
    """Return the milliseconds of one call: the median of many."""
    return statistics.median(timed(call, 1) for _ in range(ROUNDS))


if __name__ == "__main__":
    figures = run()
    if "docs" in sys.argv[1:]:
        write_docs(figures, SIZES)
    sys.stdout.write("".join(f"{one['name']:<70} {one['value']:>10.3f} {one['unit']}\n" for one in figures))
