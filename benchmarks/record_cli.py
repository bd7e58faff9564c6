"""A record of 100,000 events from the command line: show, prompt, append and verify, each a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.record_file import event, workspace
from benchmarks.record_file import history as lines_of
from teams_runtime.store.events import stored_event
from teams_runtime.store.folding import OWN_FOLDING
from teams_runtime.store.layout import lay_out, native_head

EVENTS = 100_000
VERBS = {
    "show": (("show", "bench"), 1.0),
    "show 3 events": (("show", "bench", "--events", "50000-50002"), 1.0),
    "prompt": (("prompt", "bench"), 1.0),
    "list": (("list",), 1.0),
    "verify": (("verify", "bench"), 5.0),
    "append (answer)": (("answer", "bench", "stop"), 1.0),
}
"""What is timed, with the bound in seconds; the last one appends, so it comes last."""


def run() -> list[dict[str, Any]]:
    """Return the seconds that each verb takes, from the start of the process to its end."""
    with workspace() as (paths, _):
        prepare(paths.root)
        paths.record("bench").write_bytes(waiting_record())
        rows = []
        for name, (arguments, bound) in VERBS.items():
            times = [seconds(paths.root, arguments) for _ in range(1 if "append" in name else 3)]
            rows.append({"name": f"{name}, {EVENTS} events", "value": min(times), "unit": "s", "bound": bound})
        return rows


def seconds(folder: Path, arguments: tuple[str, ...]) -> float:
    """Run a verb and return how long it took; an exit code that tells of an error stops the benchmark."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "teams_runtime", *arguments], cwd=folder, capture_output=True, check=False
    )
    took = time.perf_counter() - start
    if done.returncode not in {0, 5}:  # 5: the request is cancelled, which is what the answer asked for
        raise RuntimeError(done.stderr.decode())
    return took


def prepare(root: Path) -> None:
    """Make the folder a repository with a workspace in it."""
    (root / "team_runtime.yaml").write_text("providers: {scripted: {script: script.yaml}}\n")
    (root / "script.yaml").write_text("turns: []\n")
    git = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org")
    for arguments in (("init", "-q"), ("add", "team_runtime.yaml"), ("commit", "-q", "-m", "first")):
        subprocess.run([*git, *arguments], cwd=root, check=True)


def waiting_record() -> bytes:
    """Return a record whose newest event asks a person a question."""
    lines = list(lines_of(EVENTS - 1))
    question = {"reason": "limit:reviews", "question": "go on?", "choices": ["continue", "stop"], "step": "review"}
    asked = event(EVENTS) | {"type": "waiting", "actor": "orchestrator", "summary": "waits", "payload": question}
    lines.append(stored_event(asked, EVENTS).line)
    events = [json.loads(line) for line in lines]
    return lay_out(native_head("bench", OWN_FOLDING.fold(events)), lines, events, None)
