"""How long `teams-runtime --help` takes, as a multiple of importing click in a bare interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 11
"""How many times each command is started; the median counts."""
BOUND = 3.0
"""`--help` may take this many times as long as the import of click alone."""

CLICK = (sys.executable, "-c", "import click")
HELP = (sys.executable, "-m", "teams_runtime", "--help")


def run() -> list[dict[str, object]]:
    """Return the measured rows: `name`, `value`, `unit` and `bound` (the largest value that is well, or None)."""
    pairs = [(_milliseconds(CLICK), _milliseconds(HELP)) for _ in range(ROUNDS)]
    click = statistics.median(pair[0] for pair in pairs)
    shown = statistics.median(pair[1] for pair in pairs)
    return [
        {"name": "cli: python -c 'import click'", "value": round(click, 1), "unit": "ms", "bound": None},
        {"name": "cli: teams-runtime --help", "value": round(shown, 1), "unit": "ms", "bound": None},
        {"name": "cli: --help over import click", "value": round(shown / click, 2), "unit": "x", "bound": BOUND},
    ]


def _milliseconds(command: tuple[str, ...]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1000
