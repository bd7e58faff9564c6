"""What an answer must be, as models, JSON Schema and prompt text: the three must say the same."""

from __future__ import annotations

import json
import re
import unittest
from collections.abc import Iterator
from typing import Any

from teams_runtime.shared.models import ROLES
from teams_runtime.tests.role_answers import CONTEXTS, PARTS, REOPEN, answer, issues
from teams_runtime.workflows.roles.contract import (
    ANSWERS,
    ROLE_KINDS,
    STEP_ROLES,
    VERDICT_STEPS,
    PromptKind,
    answer_schema,
    contract_text,
    placeholders,
)

KEYWORDS = {"$schema", "$defs", "$ref", "description", "type", "anyOf", "enum", "const", "pattern", "items", "minItems"}
KEYWORDS |= {"properties", "required", "additionalProperties"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def fits(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    """Whether a value fits a schema, as far as our schemas go; a keyword we do not use is an error."""
    assert set(schema) <= KEYWORDS, set(schema) - KEYWORDS
    if "$ref" in schema:
        return fits(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, root)
    if "anyOf" in schema:
        return any(fits(option, value, root) for option in schema["anyOf"])
    if "type" in schema and not isinstance(value, TYPES[schema["type"]]):
        return False
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        return False
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, list):
        return len(value) >= schema.get("minItems", 0) and all(fits(schema["items"], item, root) for item in value)
    if isinstance(value, dict):
        inner = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False
        return (
            set(schema.get("required", ())) <= set(value)
            and (not closed or set(value) <= set(inner))
            and all(fits(inner[key], item, root) for key, item in value.items() if key in inner)
        )
    return True


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """Every object schema below a node."""
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for value in node.values():
            yield from objects(value)
    if isinstance(node, list):
        for value in node:
            yield from objects(value)


def full(step: str) -> dict[str, Any]:
    """A valid answer in which no key is left out."""
    transition = {"outcome": "complete", **dict.fromkeys(("target_step", "reopen_category")), "reason": ""}
    filled: dict[str, Any] = {"insights": [], "artifacts": [], "proposals": {}, "error": None}
    part = {"verdict": None} if STEP_ROLES[step] == "architect" else {}
    return {**part, **answer(step), **filled, "transition": {**transition, "unresolved_items": []}}


class Schema(unittest.TestCase):
    def test_it_takes_a_valid_answer_of_every_step(self) -> None:
        for step, role in STEP_ROLES.items():
            schema = answer_schema(role, ROLE_KINDS[role])
            for value in (answer(step), full(step)):
                with self.subTest(step, keys=len(value)):
                    self.assertEqual([], issues(value, step))
                    self.assertTrue(fits(schema, value, schema))

    def test_it_refuses_what_the_models_refuse(self) -> None:
        schema = answer_schema("qa", PromptKind.ROLE_TASK)
        row = {"criterion": "c", "evidence": "e", "result": "ok"}
        changes: dict[str, Any]
        for changes in (
            {"role": "planner"}, {"status": "done"}, {"summary": " "}, {"insights": "x"}, {"proposals": []},
            {"verdict": "maybe"}, {"evidence_matrix": [row]}, {"transition": {"outcome": "next"}}, {"extra": 1},
            {"transition": {"outcome": "complete", "next": "x"}}, {"insights": [""]},
        ):  # fmt: skip
            with self.subTest(changes):
                self.assertFalse(fits(schema, answer("qa", **changes), schema))
                self.assertNotEqual([], issues(answer("qa", **changes), "qa"))

    def test_a_closed_schema_names_and_requires_every_key_of_every_object(self) -> None:
        for step, role in STEP_ROLES.items():
            schema = answer_schema(role, ROLE_KINDS[role], closed=True)
            for found in objects(schema):
                with self.subTest(step, keys=list(found["properties"])):
                    self.assertEqual(list(found["properties"]), found["required"])
                    self.assertFalse(found["additionalProperties"])
            self.assertTrue(fits(schema, full(step), schema))

    def test_proposals_are_open_unless_the_schema_is_closed(self) -> None:
        value = {**full("build"), "proposals": {"later": ["cache"]}}
        for closed in (False, True):
            schema = answer_schema("developer", PromptKind.ROLE_TASK, closed=closed)
            self.assertEqual(not closed, fits(schema, value, schema))

    def test_it_is_plain_json_that_refers_to_nothing_outside(self) -> None:
        for role in ROLES:
            text = json.dumps(answer_schema(role, ROLE_KINDS[role]))
            self.assertTrue(all(ref.startswith("#/$defs/") for ref in re.findall(r'"\$ref": "([^"]*)"', text)))
            self.assertIn("https://json-schema.org/draft/2020-12/schema", text)
            self.assertNotIn('"default"', text)

    def test_a_key_called_title_is_no_title_of_the_schema(self) -> None:
        schema = answer_schema("planner", PromptKind.ROLE_TASK)
        self.assertEqual(["title", "detail"], list(schema["$defs"]["PlanStep"]["properties"]))


class ContractText(unittest.TestCase):
    def test_it_is_short_and_the_same_for_every_prompt_of_a_role(self) -> None:
        for role in ROLES:
            with self.subTest(role):
                text = contract_text(role, ROLE_KINDS[role])
                self.assertLessEqual(len(text), 1600)
                self.assertEqual(text, contract_text(role, PromptKind.CONTRACT_REPAIR))

    def test_it_names_exactly_the_keys_of_the_model(self) -> None:
        for role in ROLES:
            with self.subTest(role):
                schema = ANSWERS[role].model_json_schema()
                keys = {key for found in objects(schema) for key in found.get("properties", {})}
                self.assertEqual(keys, set(re.findall(r'"(\w+)":', contract_text(role, ROLE_KINDS[role]))))

    def test_its_shape_is_an_answer_once_a_choice_is_made_and_placeholders_are_filled(self) -> None:
        for step, role in STEP_ROLES.items():
            with self.subTest(step):
                shape = contract_text(role, ROLE_KINDS[role]).split("\n\n")[1]
                shape = re.sub(r'("\w+"|true)( or\s+("\w+"|false))+', r"\1", shape)
                value = json.loads(re.sub(r"<the id[^>]*>", "req-1", re.sub(r"<(?!the id)[^<>]*>", "text", shape)))
                value |= {
                    key: PARTS[step][key] for key in value.keys() & {"commit", "verdict"} & PARTS.get(step, {}).keys()
                }
                self.assertEqual([], issues(value, step))

    def test_no_first_step_offers_a_reopen(self) -> None:
        for role in ROLES:
            offered = "reopen" in contract_text(role, ROLE_KINDS[role]).replace("reopen_category", "")
            self.assertEqual(role not in ("research", "planner"), offered)

    def test_placeholders_are_phrases_so_that_no_tag_or_usage_line_is_one(self) -> None:
        for role in ROLES:
            tokens = placeholders(role)
            self.assertGreaterEqual(len(tokens), 5)
            self.assertTrue(all(" " in token for token in tokens))

    def test_a_purpose_that_no_prompt_of_the_role_has_is_a_mistake_of_the_caller(self) -> None:
        for role, purpose in (("qa", PromptKind.RESEARCH_DECISION), ("research", PromptKind.ROLE_TASK)):
            for ask in (contract_text, answer_schema):
                with self.subTest(role, ask=ask.__name__), self.assertRaises(ValueError):
                    ask(role, purpose)


class Tables(unittest.TestCase):
    def test_every_role_has_a_step_and_a_kind(self) -> None:
        self.assertEqual(set(ROLES), set(STEP_ROLES.values()))
        self.assertEqual(set(ROLES), set(ROLE_KINDS))
        self.assertEqual({"role_task", "research_decision", "version_control"}, set(ROLE_KINDS.values()))

    def test_a_verdict_is_asked_for_where_the_role_can_give_one(self) -> None:
        for step in VERDICT_STEPS:
            self.assertIn("verdict", ANSWERS[STEP_ROLES[step]].model_fields)

    def test_the_answers_of_these_tests_hold(self) -> None:
        self.assertEqual([], issues(answer("review", verdict="fail", transition=REOPEN), "review"))
        self.assertEqual({"qa", "version_control"}, set(CONTEXTS))
