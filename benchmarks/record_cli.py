"""A record of 100,000 events from the command line: show, prompt, append and verify, each a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.record_file import put, workspace

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

QUESTION = {"reason": "limit:reviews", "question": "go on?", "choices": ["continue", "stop"], "step": "review"}


def run() -> list[dict[str, Any]]:
    """Return the seconds that each verb takes, from the start of the process to its end."""
    with workspace() as (paths, store):
        prepare(paths.root)
        put(paths, "bench", EVENTS - 1)
        asked = store.new_event("waiting", actor="orchestrator", summary="waits", payload=QUESTION)
        store.append("bench", asked, expected_seq=EVENTS - 1)
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
