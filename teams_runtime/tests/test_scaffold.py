"""The scaffold's config file and the JSON Schema that editors read."""

from __future__ import annotations

import doctest
import re
import tempfile
import unittest
from pathlib import Path
from typing import Any

from teams_runtime.cli import output
from teams_runtime.cli.init import SCHEMA_NAME, scaffold_config
from teams_runtime.shared import config, config_schema, models, yaml_tree
from teams_runtime.shared.config import load_team_runtime_config
from teams_runtime.shared.models import TeamRuntimeConfig
from teams_runtime.shared.paths import STATE_NAME
from teams_runtime.shared.yaml_tree import Node, Source, read_yaml


def scaffold_data() -> Any:
    node, _ = read_yaml(Source(scaffold_config()))
    assert isinstance(node, Node)
    return node.data()


class ScaffoldTest(unittest.TestCase):
    def test_its_values_are_the_defaults(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "team_runtime.yaml").write_text(scaffold_config(), encoding="utf-8")
        self.assertEqual(TeamRuntimeConfig(), load_team_runtime_config(folder))

    def test_every_key_is_spelled_out(self) -> None:
        """The file shows the whole config: nothing is left to be guessed."""
        defaults = TeamRuntimeConfig().model_dump(mode="json")
        self.assertEqual(defaults, scaffold_data())
        self.assertEqual(list(defaults), list(scaffold_data()))

    def test_every_key_has_a_comment(self) -> None:
        lines = scaffold_config().splitlines()
        for line in lines:
            if re.match(r" +\w+: \S", line):
                with self.subTest(line):
                    self.assertRegex(line, r"  # \w")
        sections = [number for number, line in enumerate(lines) if re.match(r"\w", line)]
        self.assertEqual([], [lines[number] for number in sections if not lines[number - 1].startswith("# ")])

    def test_its_first_line_names_the_schema_for_editors(self) -> None:
        first = f"# yaml-language-server: $schema={STATE_NAME}/{SCHEMA_NAME}"
        self.assertEqual(first, scaffold_config().splitlines()[0])


class SchemaTest(unittest.TestCase):
    def test_every_key_is_described_on_one_line(self) -> None:
        schema = config_schema.config_schema()
        self.assertEqual("https://json-schema.org/draft/2020-12/schema", schema["$schema"])
        for part in (schema, *schema["$defs"].values()):
            for key, described in part["properties"].items():
                with self.subTest(part=part["title"], key=key):
                    text = (
                        described.get("description")
                        or config_schema.schema_at({**schema, **part}, [key])["description"]
                    )
                    self.assertRegex(text, r"\A\S[^\n]+\.\Z")

    def test_it_allows_no_other_key(self) -> None:
        schema = config_schema.config_schema()
        for part in (schema, *schema["$defs"].values()):
            self.assertFalse(part["additionalProperties"], part["title"])
            self.assertNotIn("\n", part["description"])

    def test_it_says_what_every_value_must_be(self) -> None:
        """A key of a new kind needs a sentence: this fails when `requirement` knows none."""
        schema = config_schema.config_schema()
        for part in (schema, *schema["$defs"].values()):
            for key in part["properties"]:
                with self.subTest(part=part["title"], key=key):
                    self.assertTrue(config_schema.requirement(config_schema.schema_at({**schema, **part}, [key])))


class ExamplesTest(unittest.TestCase):
    def test_the_examples_in_the_docstrings_hold(self) -> None:
        for module in (config, config_schema, models, output, yaml_tree):
            with self.subTest(module.__name__):
                self.assertEqual(0, doctest.testmod(module).failed)
