"""What holds for every history and every config, found out by trying many: the product against an independent judge."""

from __future__ import annotations

import unittest
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teams_runtime.shared.models import PromptContextRuntimeConfig
from teams_runtime.shared.prompt_context import (
    evidence_role,
    newest_evidence,
    project_indexed,
    project_request,
    render_notice,
)
from teams_runtime.tests.projection_oracle import fingerprint, judged_choice, judged_coverage, judged_role

NAMES = st.sampled_from(["planner", "Planner", " qa ", "qa", "developer", "straße", "strasse", "r1", "r2", "r3", "r4"])
JUNK = st.sampled_from([None, 0, 1, False, True, "", "   ", "\t\n", [], ["qa"], {}, {"name": "qa"}, 1.5])
TYPES = st.sampled_from(["role_report", "note", "Role_Report", None, ["role_report"], 7])
STATUSES = st.sampled_from(["completed", "blocked"])
PAYLOADS = st.one_of(
    st.fixed_dictionaries({}, optional={"role": NAMES | JUNK, "status": STATUSES | JUNK, "text": st.text(max_size=5)}),
    JUNK,
)
EVENTS = st.one_of(
    st.fixed_dictionaries(
        {}, optional={"type": TYPES, "event_type": TYPES, "actor": NAMES | JUNK, "payload": PAYLOADS}
    ),
    st.builds(lambda role: {"type": "role_report", "actor": role, "payload": {}}, NAMES),
    st.builds(lambda role: {"actor": "runtime", "payload": {"role": role, "status": "completed"}}, NAMES),
    JUNK,
)
RECORDS = st.builds(lambda events: {"request_id": "req-1", "events": events, "status": "running"}, st.lists(EVENTS))
CONFIGS = st.builds(
    lambda enabled, recent, more: PromptContextRuntimeConfig(
        enabled=enabled, recent_events=recent, max_events=recent + more
    ),
    st.sampled_from([True, True, True, False]),
    st.integers(1, 6),
    st.integers(0, 6),
)
many = settings(max_examples=150, deadline=None)


class EveryHistory(unittest.TestCase):
    @many
    @given(EVENTS)
    def test_an_event_speaks_for_whom_the_judge_says(self, event: Any) -> None:
        self.assertEqual(judged_role(event), evidence_role(event))

    @many
    @given(RECORDS, CONFIGS)
    def test_positions_reasons_and_roles_are_those_of_the_judge(
        self, record: dict[str, Any], config: PromptContextRuntimeConfig
    ) -> None:
        roles = [judged_role(event) for event in record["events"]]
        chosen = judged_choice(roles, config.enabled, config.recent_events, config.max_events)
        projection = project_request(record, config)
        self.assertEqual(chosen, list(zip(projection.positions, projection.reasons, strict=True)))
        self.assertEqual(judged_coverage(roles, chosen), (projection.roles_covered, projection.roles_missing))

    @many
    @given(RECORDS, CONFIGS)
    def test_a_projection_is_bounded_ordered_and_keeps_the_tail(
        self, record: dict[str, Any], config: PromptContextRuntimeConfig
    ) -> None:
        projection = project_request(record, config)
        total, shown = len(record["events"]), projection.positions
        bound = config.max_events if config.enabled else total
        self.assertLessEqual(len(shown), bound)
        self.assertEqual(sorted(set(shown)), list(shown))
        self.assertLessEqual(set(range(max(0, total - config.recent_events), total)), set(shown))

    @many
    @given(RECORDS, CONFIGS)
    def test_selected_events_are_whole_and_the_record_is_untouched(
        self, record: dict[str, Any], config: PromptContextRuntimeConfig
    ) -> None:
        before = fingerprint(record)
        projection = project_request(record, config)
        (projection.notice(), render_notice(projection), projection.event_lines())
        self.assertEqual(before, fingerprint(record))
        for position, event in zip(projection.positions, projection.record["events"], strict=True):
            self.assertIs(record["events"][position], event)

    @many
    @given(RECORDS, CONFIGS)
    def test_a_role_that_spoke_is_missing_only_when_every_place_is_taken(
        self, record: dict[str, Any], config: PromptContextRuntimeConfig
    ) -> None:
        projection = project_request(record, config)
        if projection.roles_missing:
            self.assertEqual(config.max_events, projection.included_events)
        spoken = {role for event in record["events"] if (role := judged_role(event)) is not None}
        self.assertEqual(spoken, {*projection.roles_covered, *projection.roles_missing})

    @many
    @given(EVENTS, st.integers(0, 40), CONFIGS)
    def test_copies_of_one_event_are_told_apart_by_position(
        self, event: Any, count: int, config: PromptContextRuntimeConfig
    ) -> None:
        shown = project_request({"events": [event] * count}, config).positions
        whole = not config.enabled or count <= config.max_events
        self.assertEqual(tuple(range(0 if whole else count - config.recent_events, count)), shown)

    @many
    @given(RECORDS, CONFIGS)
    def test_the_same_record_and_config_give_the_same_bytes(
        self, record: dict[str, Any], config: PromptContextRuntimeConfig
    ) -> None:
        one, two = project_request(record, config), project_request(record, config)
        self.assertEqual(one.event_lines(), two.event_lines())
        self.assertEqual(render_notice(one).encode("ascii"), render_notice(two).encode("ascii"))

    @many
    @given(RECORDS, CONFIGS)
    def test_an_index_gives_the_projection_of_the_list(
        self, record: dict[str, Any], config: PromptContextRuntimeConfig
    ) -> None:
        events = record["events"]
        indexed = project_indexed(record, len(events), newest_evidence(events), events.__getitem__, config)
        self.assertEqual(project_request(record, config), indexed)

    @many
    @given(RECORDS, CONFIGS)
    def test_the_notice_accounts_for_every_event(
        self, record: dict[str, Any], config: PromptContextRuntimeConfig
    ) -> None:
        projection = project_request(record, config)
        omitted: list[int] = []
        for part in filter(None, projection.notice().get("omitted_positions", "").split(", ")):
            first, _, last = part.partition("-")
            omitted += range(int(first) - 1, int(last or first))
        self.assertEqual(list(range(len(record["events"]))), sorted([*omitted, *projection.positions]))


if __name__ == "__main__":
    unittest.main()
