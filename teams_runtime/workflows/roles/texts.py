"""The Markdown that every role is given: its charter and the house rules; a project may bring charters of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from teams_runtime.shared.errors import InputError
from teams_runtime.shared.models import ROLES
from teams_runtime.shared.prompt_context import event_json

MAX_CHARTER_CHARACTERS = 20_000
"""How long a project's own charter may be; it stands in every prompt of its role."""

_PACKAGE = "teams_runtime.workflows.roles"


@dataclass(frozen=True, slots=True)
class RoleTexts:
    """The charters that are in force, and the house rules.

    Attributes:
        charters: one a role.
        house_rules: the same for every role.
    """

    charters: Mapping[str, str]
    house_rules: str

    def charter(self, role: str) -> str:
        """Return the role's charter."""
        return self.charters[role]

    def sha256(self, role: str) -> str:
        """Return the hex digest over the role's charter and the house rules."""
        return hashlib.sha256(event_json([self.charter(role), self.house_rules]).encode()).hexdigest()


def load_texts(overrides: Mapping[str, str]) -> RoleTexts:
    r"""Return the built-in texts, with the charters in `overrides` (role: Markdown text) in place of the built-in ones.

    White space around a text is dropped, and line ends are made `\n`.

    Raises:
        InputError: an override names no role, is blank, or is longer than `MAX_CHARTER_CHARACTERS`.

    >>> load_texts({"qa": "Test it."}).charter("qa")
    'Test it.'
    """
    own = {role: _checked(role, text) for role, text in overrides.items()}
    charters = {role: own.get(role) or _built_in(f"charters/{role}.md") for role in ROLES}
    return RoleTexts(charters, _built_in("house_rules.md"))


def _checked(role: str, text: str) -> str:
    if role not in ROLES:
        raise InputError(f"a charter must be for one of the roles {', '.join(ROLES)}, got {role!r}")
    tidy = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").strip()
    if not tidy or len(tidy) > MAX_CHARTER_CHARACTERS:
        raise InputError(
            f"the charter of {role} must be a text of 1 to {MAX_CHARTER_CHARACTERS} characters, got {len(tidy)}"
        )
    return tidy


def _built_in(name: str) -> str:
    return files(_PACKAGE).joinpath(name).read_text(encoding="utf-8").strip()
