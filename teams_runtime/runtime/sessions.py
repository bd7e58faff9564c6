"""Which provider conversation a role goes on with, and when it is left for a fresh one.

A conversation that goes on keeps every earlier prompt, so it piles up what the projection keeps out; the default scope
`turn` therefore starts afresh for each turn. Whatever the scope is, each turn gets its whole projected prompt, and
nothing here looks at `prompt_context`. A conversation that is left is not forgotten: its metadata goes to an archive.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock, Timeout
from pydantic import Field, NonNegativeInt

from teams_runtime.providers.base import TurnResult
from teams_runtime.shared.models import SessionsConfig, Value
from teams_runtime.shared.own_files import make_own_folder, write_own_file
from teams_runtime.shared.paths import WorkspacePaths

logger = logging.getLogger(__name__)

_SESSION_ID = r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$"
SessionId = Annotated[str, Field(pattern=_SESSION_ID)]
"""What a session id must look like to be handed to a client again."""
_LARGEST_BYTES = 16_384
"""More than any file of ours holds."""


class Session(Value):
    """The metadata of one conversation; never content."""

    session_id: SessionId
    """The provider's own name for it."""
    role: str
    """Whose it is."""
    provider: str
    """Who keeps it."""
    model: str | None
    """The model that the config named; null is the provider's default."""
    sprint_id: str
    """The sprint it was begun in."""
    request_id: str
    """The request it was begun for."""
    turns: NonNegativeInt
    """How many turns it has had."""
    input_tokens: NonNegativeInt
    """Input tokens of all its calls, as far as the provider told."""
    started_at: str
    """When it was begun, ISO 8601."""
    updated_at: str
    """When its newest turn ended, ISO 8601."""


class OpenSession:
    """The conversation of one turn, from its first call to its last.

    Attributes:
        kept: the conversation of earlier turns that it goes on with; None when it is a fresh one.
        session_id: what the next call goes on with; None starts afresh.
        input_tokens: input tokens of this turn's calls so far.
        left: why the conversation of earlier turns was left in this turn; None when it was not.
    """

    def __init__(self, kept: Session | None) -> None:
        self.kept = kept
        self.session_id = kept.session_id if kept else None
        self.input_tokens = 0
        self.left: str | None = None

    @property
    def resumed(self) -> bool:
        """Whether what an earlier turn said is still part of it."""
        return self.kept is not None

    def used(self, reply: TurnResult) -> None:
        """Take up the conversation that a call has answered in; a provider may have had to start a new one."""
        if self.kept is not None and reply.session_id != self.kept.session_id:
            logger.warning("the session of %s was not known to %s any more: a new one was begun", *self._names())
            self.leave("unknown_to_provider")
        self.session_id = reply.session_id
        self.input_tokens += reply.usage.input_tokens or 0

    def leave(self, reason: str) -> None:
        """Go on in a fresh conversation; the archive tells the reason, one word."""
        self.kept, self.session_id, self.input_tokens, self.left = None, None, 0, reason

    def _names(self) -> tuple[str, str]:
        assert self.kept is not None, "there is one to speak of"  # noqa: S101
        return self.kept.role, self.kept.provider


@dataclass(frozen=True, slots=True)
class Party:
    """Who talks with whom, and what about."""

    request_id: str
    role: str
    provider: str
    model: str | None


class SessionBook:
    """The conversations of one workspace.

    Args:
        paths: the workspace.
        config: scope and bounds.
        sprint_id: the sprint that the team is in.
        clock: gives the time now, with a time zone.
    """

    def __init__(
        self, paths: WorkspacePaths, config: SessionsConfig, sprint_id: str, clock: Callable[[], datetime]
    ) -> None:
        self._paths, self._config, self._sprint_id, self._clock = paths, config, sprint_id, clock

    @contextmanager
    def open(self, party: Party) -> Iterator[OpenSession]:
        """Give a turn its conversation, and write down afterwards that it had a turn more.

        One conversation serves one turn at a time: a second turn that wants it meanwhile gets one of its own, which is
        not kept.

        Raises:
            WorkspaceError: a file of the book cannot be written.
        """
        if self._config.scope == "turn":
            yield OpenSession(None)
            return
        file = self._file(party)
        make_own_folder(self._paths.root, *file.parent.relative_to(self._paths.root).parts)
        lock = FileLock(file.with_suffix(".lock"), mode=0o600)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            logger.info("the session of %s is in use: this turn has one of its own", party.role)
            yield OpenSession(None)
            return
        try:
            before = self._current(file, party)
            session = OpenSession(before)
            try:
                yield session
            finally:
                self._keep(file, party, before, session)
        finally:
            lock.release()

    def _file(self, party: Party) -> Path:
        if self._config.scope == "request":
            return self._paths.request_sessions(party.request_id) / f"{party.role}.json"
        return self._paths.sessions / "sprint" / f"{party.role}.json"

    def _current(self, file: Path, party: Party) -> Session | None:
        """Return the conversation to go on with; one that does not fit any more is archived."""
        session = _read(file)
        if session is None:
            return None
        reason = self._reason_to_leave(session, party)
        if reason is None:
            return session
        logger.info("a fresh session for %s: %s", party.role, reason)
        self._archive(session, reason)
        file.unlink(missing_ok=True)
        return None

    def _reason_to_leave(self, session: Session, party: Party) -> str | None:
        config = self._config
        if (session.provider, session.role) != (party.provider, party.role):
            return "provider_changed"
        if session.model != party.model:
            return "model_changed"
        if config.scope == "sprint" and session.sprint_id != self._sprint_id:
            return "sprint_changed"
        if config.scope == "request" and session.request_id != party.request_id:
            return "request_changed"
        if config.max_turns is not None and session.turns >= config.max_turns:
            return "max_turns"
        if config.max_input_tokens is not None and session.input_tokens >= config.max_input_tokens:
            return "max_input_tokens"
        return None

    def _keep(self, file: Path, party: Party, before: Session | None, session: OpenSession) -> None:
        now = self._clock().astimezone(UTC).isoformat(timespec="milliseconds")
        if before is not None and session.left is not None:
            self._archive(before, session.left)
            file.unlink(missing_ok=True)
        if session.session_id is None or not re.fullmatch(_SESSION_ID, session.session_id):
            return
        base = session.kept or Session(
            session_id=session.session_id,
            role=party.role,
            provider=party.provider,
            model=party.model,
            sprint_id=self._sprint_id,
            request_id=party.request_id,
            turns=0,
            input_tokens=0,
            started_at=now,
            updated_at=now,
        )
        tokens = base.input_tokens + session.input_tokens
        _write(file, base.model_dump() | {"turns": base.turns + 1, "input_tokens": tokens, "updated_at": now})

    def _archive(self, session: Session, reason: str) -> None:
        """Keep the metadata of a conversation that is left."""
        now = self._clock().astimezone(UTC)
        folder = make_own_folder(self._paths.root, *(self._archives.relative_to(self._paths.root).parts))
        stem, number = f"{now:%Y%m%dT%H%M%S.%f}-{session.role}", 0
        while (file := folder / f"{stem}-{number}.json").exists():
            number += 1
        _write(file, session.model_dump() | {"ended_at": now.isoformat(timespec="milliseconds"), "reason": reason})

    @property
    def _archives(self) -> Path:
        return self._paths.sessions / "archive"


def _write(file: Path, values: dict[str, Any]) -> None:
    blob = json.dumps({"schema": 1, **values}, indent=1).encode("ascii") + b"\n"
    write_own_file(file, lambda stream: stream.write(blob))


def _read(file: Path) -> Session | None:
    """Return the conversation that a file tells of; a file that is not ours tells of none, and the log says so."""
    try:
        with file.open("rb") as stream:
            blob = stream.read(_LARGEST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning("%s cannot be read, a fresh session is begun: %s", file.name, error.strerror)
        return None
    try:
        told = json.loads(blob)
        return Session.model_validate({name: told[name] for name in Session.model_fields})
    except (ValueError, KeyError, TypeError, RecursionError):
        logger.warning("%s does not tell of a session, a fresh one is begun", file.name)
        return None
