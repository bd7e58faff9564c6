"""One line a physical call: which prompt it was, how it was built, how large it was, what became of it; never text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

LOCK_SECONDS = 30.0
MAX_REASON_CHARACTERS = 100
"""How much of a reason is kept; a foreign record's role name can be of any length."""


@dataclass(frozen=True, slots=True)
class CallManifest:
    """How one prompt was built and what its call came to.

    Attributes:
        request_id: the request.
        seq: the record's newest event when the prompt was built.
        role: who was asked.
        step: at which workflow step.
        visit: how many times the step has run, this time included (1-based).
        attempt: 0 for the turn's primary call, 1 and 2 for its repairs.
        kind: which of the four kinds of prompts.
        provider: who answered.
        model: model name; None is the provider's default.
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
    answer_characters: int | None
    duration_seconds: float
    outcome: str
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


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
        """Append one line; several processes may write at once, and a torn last line is closed first."""
        now = self._clock().astimezone(UTC)
        told = asdict(manifest) | {"reasons": [reason[:MAX_REASON_CHARACTERS] for reason in manifest.reasons]}
        line = json.dumps({"timestamp": now.isoformat(timespec="milliseconds"), **told}).encode("ascii") + b"\n"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(self._folder / ".lock", timeout=LOCK_SECONDS, mode=0o600):
            handle = os.open(self._folder / f"{now:%Y-%m-%d}.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(handle, "rb+") as file:
                if file.seek(0, os.SEEK_END) and os.pread(handle, 1, file.tell() - 1) != b"\n":
                    line = b"\n" + line
                file.write(line)

    def read(self, request_id: str) -> list[CallManifest]:
        """Return the manifests of a request, oldest first; a line that is no manifest is passed over."""
        return [manifest for manifest in self._all() if manifest.request_id == request_id]

    def _all(self) -> Iterator[CallManifest]:
        for path in sorted(self._folder.glob("*.jsonl")):
            for line in path.read_bytes().splitlines():
                manifest = _parse(line)
                if manifest is not None:
                    yield manifest


def _parse(line: bytes) -> CallManifest | None:
    try:
        told: Any = json.loads(line)
        values = {name: told[name] for name in _NAMES}
        return CallManifest(**values | {name: tuple(values[name]) for name in ("positions", "reasons")})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
