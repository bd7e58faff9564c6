"""Which provider a name of the config stands for, and what it is built from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from teams_runtime.providers.base import Provider
from teams_runtime.providers.scripted import ScriptedProvider, load_script
from teams_runtime.shared.errors import ConfigError
from teams_runtime.shared.models import ProvidersConfig, workspace_path
from teams_runtime.shared.paths import CONFIG_NAME, WorkspacePaths

Builder = Callable[[ProvidersConfig, WorkspacePaths, Mapping[str, str]], Provider]


def build_provider(
    name: str, config: ProvidersConfig, paths: WorkspacePaths, environment: Mapping[str, str]
) -> Provider:
    """Return the provider of that name; no program is started and no server is called.

    Args:
        name: one of the names that a role's `provider` may have.
        config: the settings of all providers.
        paths: the workspace.
        environment: the caller's environment.

    Raises:
        ConfigError: a setting that it cannot do without is missing, or a file that it names cannot be read.
    """
    return _BUILDERS[name](config, paths, environment)


def _scripted(config: ProvidersConfig, paths: WorkspacePaths, _: Mapping[str, str]) -> Provider:
    script = config.scripted.script
    if script is None:
        told = "providers.scripted.script must name a script file while roles use the provider 'scripted'"
        raise ConfigError([f"{CONFIG_NAME}: {told}"])
    return ScriptedProvider(load_script(workspace_path(paths.root, script)))


_BUILDERS: Mapping[str, Builder] = {
    "scripted": _scripted,
}
