"""Histories of real teams, growing event by event: at every length the product agrees with an independent judge."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

from teams_runtime.shared.models import PromptContextRuntimeConfig
from teams_runtime.shared.prompt_context import project_request
from teams_runtime.tests.projection_oracle import fingerprint, judged_choice, judged_coverage, judged_role

HISTORIES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "histories"
CONFIGS = (
    PromptContextRuntimeConfig(),
    PromptContextRuntimeConfig(recent_events=2, max_events=4),
)
Event = dict[str, Any]


def said(role: str, status: str = "completed") -> Event:
    return {"type": "role_report", "actor": role, "summary": status, "payload": {"role": role, "status": status}}


def asked(role: str) -> Event:
    return {"type": "delegated", "actor": "orchestrator", "payload": {"target": role}}


SAMPLE: list[Event] = [
    {"type": "created", "actor": "requester", "payload": {"scope": "make the sum right"}},
    *(event for role in ("research", "planner", "designer", "architect") for event in (asked(role), said(role))),
    *(event for role in ("developer", "architect") for event in (asked(role), said(role, "failed"))),
    {"type": "waiting", "actor": "orchestrator", "payload": {"question": "go on?"}},
    {"type": "answered", "actor": "requester", "payload": {"role": "requester", "status": "answered", "text": "yes"}},
    *(event for _ in range(4) for role in ("developer", "qa") for event in (asked(role), said(role))),
    {"event_type": "role_report", "actor": "Version_Controller", "payload": {}},
    {"type": "completed", "actor": "orchestrator", "payload": {}},
]
"""A small team's whole request, written by hand, so that this runs where the histories are absent."""


class GrowingHistories(unittest.TestCase):
    def test_every_prefix_of_a_small_team_is_projected_as_judged(self) -> None:
        for config in (*CONFIGS, PromptContextRuntimeConfig(recent_events=1, max_events=3)):
            self.replay("sample", SAMPLE, config)

    def test_the_newest_word_of_the_human_outlives_the_tail(self) -> None:
        projection = project_request({"events": SAMPLE})
        answered = next(at for at, event in enumerate(SAMPLE) if event.get("type") == "answered")
        self.assertIn(
            (answered, "backfill:requester"), list(zip(projection.positions, projection.reasons, strict=True))
        )

    @unittest.skipUnless(HISTORIES.is_dir(), f"recorded histories are not here: {HISTORIES}")
    def test_every_prefix_of_every_recorded_history_is_projected_as_judged(self) -> None:
        files = sorted(HISTORIES.glob("*.jsonl"))
        self.assertTrue(files)
        for file in files:
            for line in file.read_text("utf-8").splitlines():
                record = json.loads(line)
                for config in CONFIGS:
                    self.replay(f"{file.name} {record['request_id']}", record["events"], config)

    def replay(self, name: str, events: list[Event], config: PromptContextRuntimeConfig) -> None:
        """Project every prefix; the judge reads each event once, as the history grows."""
        before = fingerprint(events)
        roles: list[str | None] = []
        for total in range(len(events) + 1):
            projection = project_request({"events": events[:total]}, config)
            shown = list(zip(projection.positions, projection.reasons, strict=True))
            chosen = judged_choice(roles, config.enabled, config.recent_events, config.max_events)
            where = f"{name}, first {total} events"
            self.assertEqual(chosen, shown, where)
            coverage = (projection.roles_covered, projection.roles_missing)
            self.assertEqual(judged_coverage(roles, chosen), coverage, where)
            if total < len(events):
                roles.append(judged_role(events[total]))
        self.assertEqual(before, fingerprint(events), name)


if __name__ == "__main__":
    unittest.main()
