"""What holds for every text and every answer, found out by trying many."""

from __future__ import annotations

import json
import unittest
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teams_runtime.shared.errors import ContractError
from teams_runtime.tests.role_answers import PARTS, REOPEN, answer, issues, parse
from teams_runtime.workflows.roles.contract import STEP_ROLES, VERDICT_STEPS
from teams_runtime.workflows.roles.parsing import RoleResult

many = settings(max_examples=200, deadline=None)
STEPS = st.sampled_from(sorted(STEP_ROLES))
TEXT = st.text(st.characters(codec=None), min_size=1, max_size=12).filter(lambda text: text.strip() and "<" not in text)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
TOKENS = ['{"', '":', '",', "{", "}", "[", "]", '"', "\\", "```json\n", "```", "\n", "\ud800", "\ufeff"]
WORDS = ["NaN", "1e999", "9" * 4400, "request_id", "null", json.dumps(answer("build"))]
PIECES = st.sampled_from(TOKENS + WORDS)
KEYS = st.sampled_from([*answer("qa"), "plan", "commit", "research", "error", "artifacts", "insights", "x"])


@st.composite
def valid_answers(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A step and an answer that keeps the contract there."""
    step = draw(STEPS)
    value = answer(step, summary=draw(TEXT), proposals=draw(st.dictionaries(TEXT, JSON, max_size=3)))
    value["insights"] = draw(st.lists(TEXT, max_size=3))
    value["artifacts"] = draw(
        st.lists(st.from_regex(r"[a-z0-9 -]{1,5}(/[a-z]{1,5})?", fullmatch=True).filter(str.strip), max_size=3)
    )
    if step not in ("research", "plan") and draw(st.booleans()):
        value["transition"] = {**REOPEN, "reason": draw(TEXT)}
        value |= {"verdict": "fail"} if step in VERDICT_STEPS else {}
    elif draw(st.booleans()):
        part = dict.fromkeys(PARTS.get(step, {}))
        part |= {"evidence_matrix": []} if "evidence_matrix" in part else {}
        value |= {"status": draw(st.sampled_from(["blocked", "failed"])), "error": draw(TEXT), **part}
    return step, value


class EveryText(unittest.TestCase):
    def outcome(self, text: str, step: str) -> None:
        try:
            self.assertIsInstance(parse(text, step), RoleResult)
        except ContractError as error:
            self.assertTrue(error.issues)
            for line in error.issues:
                self.assertRegex(line, r'^(""|/[^\n]*?): .')
                self.assertTrue(line.isprintable())

    @many
    @given(st.text(st.characters(codec=None)) | st.lists(PIECES, max_size=12).map("".join), STEPS)
    def test_a_text_is_an_answer_or_has_issues(self, text: str, step: str) -> None:
        self.outcome(text, step)

    @many
    @given(STEPS, st.dictionaries(KEYS, JSON | st.sampled_from([REOPEN, *PARTS.values()]), max_size=4))
    def test_a_value_is_an_answer_or_has_issues(self, step: str, changes: dict[str, Any]) -> None:
        self.outcome(json.dumps({**answer(step), **changes}), step)


class EveryValidAnswer(unittest.TestCase):
    @many
    @given(valid_answers(), st.booleans(), st.sampled_from([None, 2]))
    def test_it_is_taken_and_its_values_are_kept(
        self, valid: tuple[str, dict[str, Any]], ascii_only: bool, indent: int | None
    ) -> None:
        step, value = valid
        text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
        self.assertEqual([], issues(text, step))
        result = parse(f"```json\n{text}\n```", step)
        self.assertEqual(value["summary"], result.summary)
        for key in ("insights", "artifacts", "proposals"):
            self.assertEqual(value[key], result.payload[key])

    @many
    @given(valid_answers())
    def test_without_a_required_key_it_is_refused(self, valid: tuple[str, dict[str, Any]]) -> None:
        step, value = valid
        for key in ("request_id", "role", "status", "summary"):
            rest = {name: item for name, item in value.items() if name != key}
            self.assertEqual([f"/{key}: must be there, got nothing"], issues(rest, step))
