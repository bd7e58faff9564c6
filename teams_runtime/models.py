"""The one facade: the values that users of the package build or receive."""

from teams_runtime.shared.models import PromptContextRuntimeConfig, TeamRuntimeConfig

__all__ = ["PromptContextRuntimeConfig", "TeamRuntimeConfig"]
