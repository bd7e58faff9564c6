"""Which events of a request a prompt shows: the recent tail, and the newest older evidence of every other role.

Pure: the same record and config give the same projection; nothing given is changed, nothing is read or written. The
rules, with an exact example, are in `docs/specification.md`.

Two ways lead to the same projection. `project_request` reads a whole list of events. `project_indexed` needs only their
number and the position of every role's newest evidence, so that a store that keeps both can skip the rest of the
history. Both meet in `select`, which is the whole policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from teams_runtime.shared.errors import InputError
from teams_runtime.shared.models import PromptContextRuntimeConfig
from teams_runtime.shared.paths import STATE_NAME, check_request_id

SELECTION_POLICY = "recent_tail_plus_latest_role_evidence"
"""Name of the policy; it changes when the same record and config could give another projection."""

NOTICE_SENTENCE = (
    "The omitted events did happen and may still matter: "
    "open the canonical request record only when a decision needs one of them."
)
"""What a compacted prompt says below the notice."""

StoredLines = Callable[[int], str]
"""Gives the stored JSON text of the event at a position (0-based), on one line."""

_ROLE_REPORT = "role_report"
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
_BREAKS_A_LINE = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which positions are shown, and why.

    Attributes:
        positions: 0-based, ascending.
        reasons: one a position: `all`, `tail` or `backfill:<role>`.
        roles_covered: roles with evidence among the positions, sorted.
        roles_missing: roles with evidence, but no place, sorted.
    """

    positions: tuple[int, ...]
    reasons: tuple[str, ...]
    roles_covered: tuple[str, ...]
    roles_missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """What one turn's prompts show of a record.

    Two projections are equal when they show the same of the same. The hash leaves the record's content out.

    Attributes:
        record: shallow copy of the record in which `events` holds the selected events: the stored objects, whole.
        selection: which positions were selected, and why.
        total_events: how many events the record holds; 0 when `events` is not a list.
        config: the config that was applied.
    """

    record: dict[str, Any] = field(hash=False, repr=False)
    selection: Selection
    total_events: int
    config: PromptContextRuntimeConfig
    _stored_lines: StoredLines | None = field(default=None, compare=False, repr=False)

    @property
    def positions(self) -> tuple[int, ...]:
        """The selected positions, 0-based and ascending."""
        return self.selection.positions

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why each position was selected: `all`, `tail` or `backfill:<role>`."""
        return self.selection.reasons

    @property
    def roles_covered(self) -> tuple[str, ...]:
        """Roles with evidence among the selected events, sorted."""
        return self.selection.roles_covered

    @property
    def roles_missing(self) -> tuple[str, ...]:
        """Roles with evidence, but no place, sorted."""
        return self.selection.roles_missing

    @property
    def included_events(self) -> int:
        """How many events are selected."""
        return len(self.selection.positions)

    @property
    def omitted_events(self) -> int:
        """How many events are left out."""
        return self.total_events - self.included_events

    @property
    def compacted(self) -> bool:
        """Whether any event is left out."""
        return self.omitted_events > 0

    def notice(self) -> dict[str, Any]:
        """Return what a prompt says about the events left out: counts, policy, path, positions; no content.

        `{}` when nothing is left out. `canonical_request` is None when the record's id is no valid request id, so that
        a record made by others can put no text of its own here. `omitted_positions` counts from 1, like `seq`.
        """
        if not self.compacted:
            return {}
        return {
            "compacted": True,
            "total_events": self.total_events,
            "included_events": self.included_events,
            "omitted_events": self.omitted_events,
            "recent_events": self.config.recent_events,
            "max_events": self.config.max_events,
            "selection": SELECTION_POLICY,
            "canonical_request": _canonical_request(self.record.get("request_id")),
            "omitted_positions": _gaps(self.positions, self.total_events),
        }

    def event_lines(self) -> tuple[str, ...]:
        """Return the selected events as JSON text, one line each.

        The text is the stored one where the store gives it, else compact ASCII. When `events` is not a list, the one
        line is that value as it is.
        """
        events = self.record["events"]
        if not isinstance(events, list):
            return (event_json(events),)
        if self._stored_lines is None:
            return tuple(map(event_json, events))
        return tuple(one_line(self._stored_lines(position)) for position in self.positions)


def project_request(
    record: Mapping[str, Any],
    config: PromptContextRuntimeConfig | None = None,
    *,
    stored_lines: StoredLines | None = None,
) -> Projection:
    """Return what prompts show of `record`; a missing config means the defaults.

    `events` that is missing or null holds no events. When it is not a list, nothing is projected: the value stays as it
    is and every count is 0.

    >>> report = {"type": "role_report", "actor": "planner", "payload": {}}
    >>> project_request({"events": [report, *[{"type": "note"}] * 20]}).reasons[:2]
    ('backfill:planner', 'tail')
    """
    events = record.get("events")
    if events is None:
        events = []
    config = config or PromptContextRuntimeConfig()
    if not isinstance(events, list):
        return Projection({**record, "events": events}, select(0, {}, config), 0, config, stored_lines)
    return project_indexed(
        record, len(events), newest_evidence(events), events.__getitem__, config, stored_lines=stored_lines
    )


def project_indexed(
    record: Mapping[str, Any],
    total: int,
    newest: Mapping[str, int],
    event_at: Callable[[int], Any],
    config: PromptContextRuntimeConfig | None = None,
    *,
    stored_lines: StoredLines | None = None,
) -> Projection:
    """Return the projection of a history of which only the selected events are read.

    Args:
        record: the record; its own `events` are not looked at.
        total: how many events the history holds.
        newest: what `newest_evidence` gives for the whole history.
        event_at: gives the event at a position (0-based); called for selected positions only.
        config: None means the defaults.
        stored_lines: gives an event's stored text; called for selected positions only, and only for `event_lines`.
    """
    config = config or PromptContextRuntimeConfig()
    selection = select(total, newest, config)
    events = [event_at(position) for position in selection.positions]
    return Projection({**record, "events": events}, selection, total, config, stored_lines)


def select(total: int, newest: Mapping[str, int], config: PromptContextRuntimeConfig) -> Selection:
    """Apply the policy to a history of `total` events.

    Args:
        total: how many events the history holds.
        newest: for each role with evidence, the position (0-based) of the newest; see `newest_evidence`.
        config: the caps.

    A role's newest evidence is all that the policy can ever choose for it, so the rest of the history does not matter.

    >>> select(30, {"planner": 3, "qa": 29}, PromptContextRuntimeConfig(recent_events=2, max_events=4)).positions
    (3, 28, 29)
    """
    if not config.enabled or total <= config.max_events:
        return Selection(tuple(range(total)), ("all",) * total, tuple(sorted(newest)), ())
    tail_start = total - config.recent_events
    room = config.max_events - config.recent_events
    older = sorted(((position, role) for role, position in newest.items() if position < tail_start), reverse=True)
    backfill = older[:room][::-1]
    missing = {role for _, role in older[room:]}
    return Selection(
        positions=(*(position for position, _ in backfill), *range(tail_start, total)),
        reasons=(*(f"backfill:{role}" for _, role in backfill), *("tail",) * config.recent_events),
        roles_covered=tuple(sorted(newest.keys() - missing)),
        roles_missing=tuple(sorted(missing)),
    )


def newest_evidence(events: Iterable[object]) -> dict[str, int]:
    """Return, for each role with evidence, the position (0-based) of the newest; in no promised order."""
    return {role: position for position, event in enumerate(events) if (role := evidence_role(event)) is not None}


def evidence_role(event: object) -> str | None:
    """Return the role that `event` speaks for, or None when it is no role's evidence.

    Evidence is a `role_report`, in `type` or in the older `event_type`, or any event whose payload names both a role
    and a status. The role is `payload.role`, else `actor`. Only a string that is not blank is a name or a status, and
    names are trimmed and case-folded; every other value (0, true, a list) counts as if it were not there.

    >>> evidence_role({"type": "role_report", "actor": "orchestrator", "payload": {"role": " QA "}})
    'qa'
    >>> evidence_role({"type": "note", "actor": "qa", "payload": {"role": "qa", "status": ["completed"]}})
    """
    if not isinstance(event, dict):
        return None
    payload = event.get("payload")
    if not isinstance(payload, dict):
        payload = {}
    role = payload.get("role")
    if event.get("type") == _ROLE_REPORT or event.get("event_type") == _ROLE_REPORT:
        return _name(role) or _name(event.get("actor"))
    if not role:  # most events of a history leave here
        return None
    return _name(role) if _name(payload.get("status")) else None


def render_notice(projection: Projection) -> str:
    """Return the notice as a prompt shows it: a fenced JSON block and one sentence; `""` when nothing is left out."""
    if not projection.compacted:
        return ""
    return f"```json\n{json.dumps(projection.notice(), indent=2)}\n```\n{NOTICE_SENTENCE}\n"


def log_line(projection: Projection, request_id: str, purpose: str) -> str:
    """Return the one log line of a compacted prompt: id, purpose, counts, no content; `""` when nothing is left out.

    An id that is no valid request id is shown as `invalid`.
    """
    if not projection.compacted:
        return ""
    return (
        f"prompt_context compacted request_id={_checked_id(request_id) or 'invalid'} purpose={purpose} "
        f"total_events={projection.total_events} included_events={projection.included_events} "
        f"omitted_events={projection.omitted_events}"
    )


def event_json(value: Any) -> str:
    r"""Return `value` as compact JSON text: ASCII, one line, keys in their own order.

    Lone surrogates, control characters and line separators come out as escapes. Integers of any length and nesting of
    any depth are written in full, where the standard library would refuse them. NaN and the infinities are written as
    Python writes them, since records made by others may hold them.

    Raises:
        TypeError: the value holds something that JSON has no form for.
        ValueError: the value holds itself.

    >>> print(event_json({"summary": "two\nlines", "tokens": 10**30}))
    {"summary":"two\nlines","tokens":1000000000000000000000000000000}
    """
    try:
        return _ENCODER.encode(value)
    except (ValueError, RecursionError):  # an integer past the digit limit, or nesting past the recursion limit
        return _encode_step_by_step(value)


def one_line(text: str) -> str:
    r"""Return JSON text on one line and fit for UTF-8; its value and its spelling stay.

    A line break that stands between tokens becomes a space. Line separators of other kinds and lone surrogates can only
    stand inside a string, where their escape means the same.

    >>> print(one_line('{"a":\n 1}'))
    {"a":  1}
    """
    return _BREAKS_A_LINE.sub(_escape, text)


def _name(value: object) -> str | None:
    return value.strip().casefold() or None if isinstance(value, str) else None


def _checked_id(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return check_request_id(value)
    except InputError:
        return None


def _canonical_request(value: object) -> str | None:
    request_id = _checked_id(value)
    return None if request_id is None else f"./{STATE_NAME}/requests/{request_id}.json"


def _gaps(positions: Sequence[int], total: int) -> str:
    """Return the 1-based ranges that `positions` (0-based, ascending) leave out of `total`, like `1-34, 36`."""
    edges = zip((-1, *positions), (*positions, total), strict=True)
    gaps = [(before + 2, after) for before, after in edges if after - before > 1]
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in gaps)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return " " if character in "\n\r" else f"\\u{ord(character):04x}"


class _Token(NamedTuple):
    """Finished text on the work list; `closes` is the id of the container that ends with it."""

    text: str
    closes: int = 0


def _encode_step_by_step(value: Any) -> str:
    """Encode with a work list in place of recursion; slower, and without the two limits of the fast way."""
    parts: list[str] = []
    open_ids: set[int] = set()
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, _Token):
            parts.append(item.text)
            open_ids.discard(item.closes)
        elif isinstance(item, (dict, list, tuple)):
            if id(item) in open_ids:
                raise ValueError("an event that holds itself has no JSON form")
            open_ids.add(id(item))
            todo.extend(reversed(_opened(item)))
        else:
            parts.append(_scalar(item))
    return "".join(parts)


def _opened(container: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> list[Any]:
    """Return the tokens and the values of one container, one level deep."""
    if isinstance(container, dict):
        inner = [part for key, value in container.items() for part in (_Token(","), _Token(_key(key) + ":"), value)]
        return [_Token("{"), *inner[1:], _Token("}", id(container))]
    inner = [part for value in container for part in (_Token(","), value)]
    return [_Token("["), *inner[1:], _Token("]", id(container))]


def _key(key: Any) -> str:
    if isinstance(key, str):
        return _ENCODER.encode(key)
    if key is None or isinstance(key, (int, float)):
        return f'"{_scalar(key)}"'
    raise TypeError(f"a JSON key must be a string, got {type(key).__name__}")


def _scalar(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(Decimal(value))  # exact at any length; `str(int)` stops at a limit that is global to the process
    return _ENCODER.encode(value)
