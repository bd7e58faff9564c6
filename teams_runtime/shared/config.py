"""Reads `team_runtime.yaml` into a `TeamRuntimeConfig`, or tells everything that is wrong with it at once."""

from __future__ import annotations

from pathlib import Path

from teams_runtime.shared.models import TeamRuntimeConfig
from teams_runtime.shared.paths import CONFIG_NAME
from teams_runtime.shared.yaml_file import load_yaml_file


def load_team_runtime_config(root: Path) -> TeamRuntimeConfig:
    """Return the config of the workspace folder `root`; what the file leaves out has its default.

    Raises:
        ConfigError: the file is missing, cannot be read or breaks a rule. Every problem is told, in file order, as
            `team_runtime.yaml:LINE:COL: KEY must …, got VALUE`; lines and columns (in characters) count from 1.
    """
    return load_yaml_file(root / CONFIG_NAME, TeamRuntimeConfig, hint="; `teams-runtime init` makes one")
