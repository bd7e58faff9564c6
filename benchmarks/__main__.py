"""Run every benchmark, print one table, end with exit code 1 when a value is over its bound.

A benchmark is a module of this package with `run() -> list[dict]`. A row holds `name`, `value`, `unit` and `bound`: the
value must not be greater than the bound; None is no bound. Names given as arguments run those modules only.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable
from typing import Any

import benchmarks


def found() -> list[str]:
    """Return the names of the benchmark modules, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__")


def measured(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rows of the named modules that have a `run`, each with its `module`."""
    rows = []
    for name in names:
        run = getattr(importlib.import_module(f"benchmarks.{name}"), "run", None)
        if run is not None:
            rows += [{"module": name, **row} for row in run()]
    return rows


def over(row: dict[str, Any]) -> bool:
    """Return whether the row's value is over its bound."""
    return row["bound"] is not None and row["value"] > row["bound"]


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| benchmark | value | bound | unit | |", "| --- | ---: | ---: | --- | --- |"]
    for row in rows:
        bound = "" if row["bound"] is None else f"{row['bound']:.4g}"
        mark = "OVER ITS BOUND" if over(row) else ""
        lines.append(f"| {row['module']}: {row['name']} | {row['value']:.4g} | {bound} | {row['unit']} | {mark} |")
    return "\n".join(lines)


def main(names: list[str]) -> int:
    """Run the named benchmarks, all when none is named; return the exit code."""
    known = found()
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    rows = measured(names or known)
    print(table(rows))
    return 1 if any(map(over, rows)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
