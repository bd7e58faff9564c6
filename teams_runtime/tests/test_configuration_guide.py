"""`docs/configuration_guide.md` says what the config really does."""

from __future__ import annotations

import json
import re
import tempfile
import unittest
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from teams_runtime.shared.config import load_team_runtime_config
from teams_runtime.shared.errors import ConfigError
from teams_runtime.shared.models import TeamRuntimeConfig
from teams_runtime.tests.test_cli_main import teams_runtime

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "configuration_guide.md"


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of a config as `section.key` with its value; an empty mapping is a value."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


class GuideTest(unittest.TestCase):
    def setUp(self) -> None:
        self.text = GUIDE.read_text(encoding="utf-8")

    def test_its_tables_name_every_key_with_its_default(self) -> None:
        rows = re.findall(r"^\| `([\w.]+)` \|.*\| `([^`]+)` \|$", self.text, flags=re.MULTILINE)
        expected = dict(flat(TeamRuntimeConfig().model_dump(mode="json")))
        self.assertEqual(expected, {key: json.loads(default) for key, default in rows})

    def test_it_names_the_keys_that_config_check_prints(self) -> None:
        line = next(line for line in self.text.splitlines() if line.startswith("With `--json` it prints"))
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "team_runtime.yaml").write_text("", encoding="utf-8")
        printed = json.loads(teams_runtime("config", "check", "--json", folder=folder).stdout)
        self.assertEqual(list(printed), re.findall(r'"(\w+)"', line))

    def test_its_example_of_errors_is_what_is_printed(self) -> None:
        example, printed = (re.search(rf"```{kind}\n(.*?)```", self.text, flags=re.DOTALL) for kind in ("yaml", "text"))
        assert example is not None
        assert printed is not None
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "team_runtime.yaml").write_text(example[1], encoding="utf-8")
        with self.assertRaises(ConfigError) as caught:
            load_team_runtime_config(folder)
        self.assertEqual(printed[1].splitlines(), list(caught.exception.problems))
