"""The projection once more, written naively and on purpose without a look at the product's code: the tests' judge."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

Chosen = list[tuple[int, str]]


def judged_role(event: Any) -> str | None:
    """Return whom an event speaks for, rule by rule, in the order of the specification."""
    if type(event) is not dict:
        return None

    def word(value: Any) -> str:
        return value.strip().casefold() if type(value) is str else ""

    payload = event["payload"] if type(event.get("payload")) is dict else {}
    is_report = "role_report" in [event.get("type"), event.get("event_type")]
    is_signed = word(payload.get("role")) != "" and word(payload.get("status")) != ""
    if not is_report and not is_signed:
        return None
    for candidate in (payload.get("role"), event.get("actor")):
        if word(candidate):
            return word(candidate)
    return None


def judged_choice(roles: list[str | None], enabled: bool, recent: int, most: int) -> Chosen:
    """Return (position, reason) of the events that must be shown, given whom each event speaks for."""
    total = len(roles)
    if not enabled or total <= most:
        return [(position, "all") for position in range(total)]
    chosen = [(position, "tail") for position in range(total - recent, total)]
    represented = {roles[position] for position, _ in chosen if roles[position] is not None}
    position = total - recent - 1
    while position >= 0 and len(chosen) < most:
        role = roles[position]
        if role is not None and role not in represented:
            represented.add(role)
            chosen.append((position, f"backfill:{role}"))
        position -= 1
    return sorted(chosen)


def judged_coverage(roles: list[str | None], chosen: Chosen) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the roles that speak among the chosen events, and those that speak only among the others; sorted."""
    covered = {role for position, _ in chosen if (role := roles[position]) is not None}
    spoken = {role for role in roles if role is not None}
    return tuple(sorted(covered)), tuple(sorted(spoken - covered))


def fingerprint(value: Any) -> str:
    """Return a hash of everything a record holds; pickle also tells 1 from True and one lone surrogate from another."""
    return hashlib.sha256(pickle.dumps(value)).hexdigest()
