"""One line a physical call: which prompt it was, how it was built, how large it was, what became of it; never text.

That no text gets in does not depend on care: a manifest has no field that could hold one. Names are held to a short
pattern, hashes to their digits, roles, kinds and reasons to lists, and everything else is a number.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from teams_runtime.shared.errors import FailureKind
from teams_runtime.shared.models import REQUESTER, ROLES
from teams_runtime.shared.paths import REQUEST_ID

LOCK_SECONDS = 30.0
KINDS = ("role_task", "contract_repair", "research_decision", "version_control")
"""The kinds of prompts."""
OUTCOMES = ("ok", "rejected", *FailureKind)
"""How a call can end: with an answer that keeps its contract, with one that breaks it, or without one."""
OTHER = "other"
"""Stands for a model that has no plain name, and for a backfilled role that is none of the team's."""

_WORD = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,99}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_REASON = re.compile(rf"all|tail|backfill:({'|'.join((*ROLES, REQUESTER, OTHER))})", re.ASCII)
_LARGEST = 10**15


@dataclass(frozen=True, slots=True)
class CallManifest:
    """How one prompt was built and what its call came to.

    What others may name freely is not taken as it is: a model without a plain name is `other`, and so is a backfilled
    role that is none of the team's.

    Attributes:
        request_id: the request.
        seq: the record's newest event when the prompt was built.
        role: who was asked.
        step: at which workflow step.
        visit: how many times the step has run, this time included (1-based).
        attempt: 0 for the turn's primary call, 1 and 2 for its repairs.
        retry: how many times the same call had been made before, after failures that may pass.
        kind: which of the four kinds of prompts.
        provider: who answered.
        model: the model that answered, as the provider told, else as the config names it; None is its default.
        policy: name of the projection's policy.
        positions: the events shown, by position (0-based).
        reasons: why each is shown: `all`, `tail` or `backfill:<role>`.
        total_events: events in the record.
        included_events: events in the prompt.
        template_sha256: hash of every fixed text in the prompt.
        config_sha256: hash of the config that the run had.
        prompt_sha256: hash of the prompt in UTF-8.
        characters: size of the prompt in characters.
        characters_full: the same with every event.
        answer_characters: size of the answer in characters; None when there was none.
        duration_seconds: wall-clock seconds of the call.
        outcome: `ok`, `rejected` (the answer broke its contract) or a `FailureKind`.
        input_tokens: as the provider counted them, cached ones included; None is unknown, here and below.
        cached_input_tokens: the part of them read from the provider's cache.
        output_tokens: tokens of the answer, reasoning included.
        reasoning_tokens: the part of them spent on reasoning.
        cost_usd: US dollars, as told by the provider.
        tool_calls: how many tools the model called.
        denials: how many things the role tried and was not allowed to do; None when no answer came.

    Raises:
        ValueError: a value is of another type or shape than its field allows; the message does not repeat it.
    """

    request_id: str
    seq: int
    role: str
    step: str
    visit: int
    attempt: int
    kind: str
    provider: str
    model: str | None
    policy: str
    positions: tuple[int, ...]
    reasons: tuple[str, ...]
    total_events: int
    included_events: int
    template_sha256: str
    config_sha256: str
    prompt_sha256: str
    characters: int
    characters_full: int
    duration_seconds: float
    outcome: str
    retry: int = 0
    answer_characters: int | None = None
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: int | None = None
    denials: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.model, str) and not _MODEL.fullmatch(self.model):
            object.__setattr__(self, "model", OTHER)
        if isinstance(self.reasons, tuple):
            object.__setattr__(self, "reasons", tuple(map(_plain_reason, self.reasons)))
        for name, fits in _FITS.items():
            if not fits(getattr(self, name)):
                raise ValueError(f"a manifest's {name} is not of the shape that its field allows")
        if not len(self.positions) == len(self.reasons) == self.included_events:
            raise ValueError("a manifest must have one position and one reason for each included event")


def _plain_reason(reason: object) -> object:
    odd = isinstance(reason, str) and reason.startswith("backfill:") and not _REASON.fullmatch(reason)
    return f"backfill:{OTHER}" if odd else reason


def _matches(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _one_of(words: tuple[str, ...]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in words


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _amount(value: object) -> bool:
    return type(value) in {int, float} and 0 <= value <= _LARGEST  # type: ignore[operator]


def _or_none(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or fits(value)


def _all(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, tuple) and all(map(fits, value))


_FITS: Mapping[str, Callable[[object], bool]] = {
    "request_id": _matches(REQUEST_ID),
    "role": _one_of(ROLES),
    "kind": _one_of(KINDS),
    "outcome": _one_of(OUTCOMES),
    **dict.fromkeys(("step", "provider", "policy"), _matches(_WORD)),
    "model": _or_none(_matches(_MODEL)),
    "positions": _all(_count),
    "reasons": _all(_matches(_REASON)),
    **dict.fromkeys(("template_sha256", "config_sha256", "prompt_sha256"), _matches(_SHA256)),
    **dict.fromkeys(
        ("seq", "visit", "attempt", "retry", "total_events", "included_events", "characters", "characters_full"), _count
    ),
    **dict.fromkeys(
        (
            *("answer_characters", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"),
            *("tool_calls", "denials"),
        ),
        _or_none(_count),
    ),
    "duration_seconds": _amount,
    "cost_usd": _or_none(_amount),
}
"""What each field allows."""

_LATER = ("retry", "tool_calls", "denials")
"""Fields that lines of earlier versions do not have."""
_NAMES = tuple(field.name for field in fields(CallManifest))


class ManifestLog:
    """The manifests of one workspace, in one JSON Lines file a day (UTC).

    Args:
        folder: where the files lie; made when the first line is written, readable by its owner only.
        clock: gives the time now, with a time zone.
    """

    def __init__(self, folder: Path, clock: Callable[[], datetime]) -> None:
        self._folder = folder
        self._clock = clock

    def write(self, manifest: CallManifest) -> None:
        """Append one line; several processes may write at once, and a torn last line is closed first.

        Raises:
            OSError: the line cannot be written.
        """
        now = self._clock().astimezone(UTC)
        told = {"timestamp": now.isoformat(timespec="milliseconds"), **asdict(manifest)}
        line = json.dumps(told).encode("ascii") + b"\n"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(self._folder / ".lock", timeout=LOCK_SECONDS, mode=0o600):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
            handle = os.open(self._folder / f"{now:%Y-%m-%d}.jsonl", flags, 0o600)
            with os.fdopen(handle, "rb+") as file:
                if file.seek(0, os.SEEK_END) and os.pread(handle, 1, file.tell() - 1) != b"\n":
                    line = b"\n" + line
                file.write(line)

    def read(self, request_id: str) -> list[CallManifest]:
        """Return the manifests of a request, oldest first; a line that is no manifest is passed over."""
        return [manifest for manifest in self._all() if manifest.request_id == request_id]

    def _all(self) -> Iterator[CallManifest]:
        for path in sorted(self._folder.glob("*.jsonl")):
            for line in _content(path).splitlines():
                manifest = _parse(line)
                if manifest is not None:
                    yield manifest


def _content(path: Path) -> bytes:
    """Return what a file holds; one that cannot be read holds nothing, telemetry is no reason to fail."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


def _parse(line: bytes) -> CallManifest | None:
    try:
        told: Any = json.loads(line)
        values = {name: told[name] for name in _NAMES if name in told or name not in _LATER}
        return CallManifest(**values | {name: tuple(values[name]) for name in ("positions", "reasons")})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
