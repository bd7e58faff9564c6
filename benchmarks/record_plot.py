"""The figures of `record_store` as Markdown tables and as one SVG plot, for `docs/`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parents[1] / "docs"
WIDTH, HEIGHT, LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 1080, 400, 60, 40, 280, 320
LOWEST, HIGHEST = 0.03, 5000.0
COLOURS = ("#0b6e4f", "#c1121f", "#e07a5f", "#8d5a97", "#3d5a80", "#999999", "#bbbbbb")
REWRITES = tuple(f"full rewrite with {encoder}" for encoder in ("json", "orjson", "msgspec"))
APPENDS = ("store", *REWRITES, "JSONL", "SQLite", "bare write+fsync of the same bytes")
READS = ("store", "json", "msgspec", "JSONL", "SQLite", "store with an empty page cache")

Table = dict[str, list[float]]


def write_docs(figures: Sequence[dict[str, Any]], sizes: Sequence[int]) -> None:
    """Write `record_bench.md` and `record_bench.svg`."""
    values = {row["name"]: row["value"] for row in figures}
    appends, reads = pick(values, "append", APPENDS, sizes), pick(values, "projection", READS, sizes)
    promised = [row for row in figures if row["bound"] is not None]
    text = "\n".join(
        (
            "# What an append and a projection cost",
            "",
            "Made by `python -m benchmarks.record_store docs`; `make bench` prints the same figures.",
            "All ways are measured in one run on one machine; times are milliseconds, medians.",
            "An event is about 1.9 KB, so 100,000 events are about 190 MB.",
            "",
            "![append and projection against the length of the history](record_bench.svg)",
            "",
            "## Append one event, durably",
            "",
            *table(appends, sizes),
            "",
            "The last row is no way of keeping a record: it is what a durable write of the same bytes costs.",
            "JSONL and SQLite keep a file that is no JSON document.",
            "",
            "## From the file to a projection",
            "",
            *table(reads, sizes),
            "",
            "## What is promised",
            "",
            "| figure | value | bound | unit |",
            "| --- | ---: | ---: | --- |",
            *(f"| {row['name']} | {row['value']:.3g} | {row['bound']} | {row['unit']} |" for row in promised),
            "",
        )
    )
    (DOCS / "record_bench.md").write_text(text, encoding="utf-8")
    (DOCS / "record_bench.svg").write_text(plot(appends, reads, sizes), encoding="utf-8")


def pick(values: dict[str, float], kind: str, ways: Sequence[str], sizes: Sequence[int]) -> Table:
    """Return the figures of one kind, one list a way."""
    found = {way: [values.get(f"{kind}, {way}, {size} events", math.nan) for size in sizes] for way in ways}
    return {way: row for way, row in found.items() if not any(map(math.isnan, row))}


def table(figures: Table, sizes: Sequence[int]) -> list[str]:
    """Return the lines of a Markdown table."""
    head = ["| way | " + " | ".join(f"{size:,}" for size in sizes) + " |", "| --- |" + " ---: |" * len(sizes)]
    return head + [
        "| " + way + " | " + " | ".join(f"{value:.3g}" for value in row) + " |" for way, row in figures.items()
    ]


def plot(appends: Table, reads: Table, sizes: Sequence[int]) -> str:
    """Return two plots side by side, both axes logarithmic."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *panel(LEFT, "append one event (ms)", appends, sizes),
        *panel(LEFT + 550, "file to projection (ms)", reads, sizes),
        "</svg>\n",
    ]
    return "\n".join(parts)


def panel(left: float, title: str, figures: Table, sizes: Sequence[int]) -> list[str]:
    """Return one plot with its grid, lines and names."""
    parts = [f'<text x="{left}" y="{TOP - 16}" font-size="13" font-weight="bold">{escape(title)}</text>']
    for power in range(-1, 4):
        y = height_of(10.0**power)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + PLOT_WIDTH}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(label(left - 6, y, f"{10.0**power:g}", "end"))
    columns = [left + PLOT_WIDTH * number / (len(sizes) - 1) for number in range(len(sizes))]
    for x, size in zip(columns, sizes, strict=True):
        parts.append(
            f'<text font-size="11" x="{x:.1f}" y="{TOP + PLOT_HEIGHT + 16}" text-anchor="middle">{size:,}</text>'
        )
    taken: list[float] = []
    for (way, row), colour in zip(figures.items(), COLOURS, strict=False):
        points = [(x, height_of(value)) for x, value in zip(columns, row, strict=True)]
        width = 3 if way == "store" else 1.5
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        y = free_height(points[-1][1], taken)
        parts.append(
            f'<text font-size="11" x="{left + PLOT_WIDTH + 6}" y="{y + 4:.1f}" fill="{colour}">{escape(way)}</text>'
        )
    return parts


def label(x: float, y: float, text: str, anchor: str, colour: str = "black") -> str:
    """Return a word beside a point."""
    place = f'x="{x:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}"'
    return f'<text font-size="11" {place} fill="{colour}">{escape(text)}</text>'


def height_of(value: float) -> float:
    """Return where a value stands on the vertical axis."""
    share = math.log(min(max(value, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return TOP + PLOT_HEIGHT * (1 - share)


def free_height(wanted: float, taken: list[float]) -> float:
    """Return the height nearest below `wanted` at which a name does not cover another one."""
    while any(abs(wanted - other) < 13 for other in taken):
        wanted += 1
    taken.append(wanted)
    return wanted
