"""The projection of a list of events: time and peak memory at 100 and at 10,000 events."""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from teams_runtime.shared.prompt_context import newest_evidence, project_indexed, project_request, render_notice

ROLES = ("research", "planner", "designer", "architect", "developer", "qa", "version_controller")


def record(total: int) -> dict[str, Any]:
    """Return a record of `total` events of about 1 KB: every third a report, the first roles silent in the tail."""
    events = []
    for seq in range(1, total + 1):
        role = ROLES[seq // 3 % len(ROLES)] if seq < total // 2 else ROLES[-1]
        report = {"role": role, "status": "completed", "insights": ["x" * 80] * 10}
        payload = report if seq % 3 == 0 else {"target": role, "step": "build", "context": {"output_tail": "y" * 800}}
        kind = "role_report" if seq % 3 == 0 else "delegated"
        event = {"id": f"e{seq}", "seq": seq, "timestamp": "2026-12-01T03:04:05.678Z", "type": kind}
        events.append({**event, "actor": role if seq % 3 == 0 else "orchestrator", "summary": "s", "payload": payload})
    return {"schema": 1, "request_id": "bench", "scope": "s", "events": events, "status": "running"}


def median_ms(call: Callable[[], object], runs: int) -> float:
    """Return the median of `runs` calls in milliseconds, after a few to warm up."""
    for _ in range(5):
        call()
    gc.collect()
    spent = []
    for _ in range(runs):
        start = time.perf_counter_ns()
        call()
        spent.append(time.perf_counter_ns() - start)
    return statistics.median(spent) / 1e6


def peak_kib(call: Callable[[], object]) -> float:
    """Return the most memory that one call holds at a time, in KiB."""
    call()
    tracemalloc.start()
    call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1024


def run() -> list[dict[str, Any]]:
    """Measure; the bounds on time are those that the project promises."""
    small, large = record(100), record(10_000)
    events = large["events"]
    newest = newest_evidence(events)
    at_100 = median_ms(lambda: project_request(small), 1000)
    at_10k = median_ms(lambda: project_request(large), 200)
    indexed = median_ms(lambda: project_indexed(large, len(events), newest, events.__getitem__), 1000)
    walk = median_ms(lambda: [event.get("type") for event in events], 200)
    projection = project_request(large)
    rendered = median_ms(lambda: (projection.event_lines(), render_notice(projection)), 500)
    rows = [
        ("select from 100 events", at_100, "ms", 0.3),
        ("select from 10,000 events", at_10k, "ms", 5.0),
        ("10,000 events against 100", at_10k / at_100, "times", 200.0),
        ("10,000 events against reading each one's type", at_10k / walk, "times", 25.0),
        ("select from 10,000 events, newest evidence known", indexed, "ms", 0.3),
        ("render what was selected of 10,000 events", rendered, "ms", None),
        ("peak memory of one selection from 10,000 events", peak_kib(lambda: project_request(large)), "KiB", 64.0),
    ]
    return [{"name": name, "value": value, "unit": unit, "bound": bound} for name, value, unit, bound in rows]
