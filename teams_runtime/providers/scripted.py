"""The provider that needs no account: it answers from a script, and what the script edits and runs is real.

It keeps no state: the same request gets the same answer, however often a run was interrupted, and edits that an
interrupted turn has made already are not made twice. A turn that no entry fits is an error, never a made-up answer.
"""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from teams_runtime.processes.supervisor import run_process
from teams_runtime.providers.base import Finding, Progress, SchemaDialect, TurnRequest, TurnResult
from teams_runtime.shared.errors import FailureKind, ProcessError, ProviderError
from teams_runtime.shared.models import RULE, NonEmptyText, Role, Value
from teams_runtime.shared.paths import STATE_NAME
from teams_runtime.shared.yaml_file import load_yaml_file

REQUEST_ID_MARK = "${request_id}"
"""Stands for the request's id anywhere in a script's answers."""
MAX_EDITED_BYTES = 64 * 1024 * 1024
"""How large a file may be that an action edits."""


class WriteAction(Value):
    """Write a whole file."""

    path: NonEmptyText
    """Relative to the worktree."""
    text: str
    """What the file holds afterwards."""


class ReplaceAction(Value):
    """Replace a text that stands once in a file."""

    path: NonEmptyText
    """Relative to the worktree."""
    old: NonEmptyText
    """What must stand in the file exactly once."""
    new: str
    """What stands there afterwards."""


class DeleteAction(Value):
    """Remove a file."""

    path: NonEmptyText
    """Relative to the worktree."""


class Action(Value):
    """One thing that the role does before it answers; exactly one key."""

    write: WriteAction | None = None
    """Write a whole file."""
    replace: ReplaceAction | None = None
    """Replace a text that stands once in a file."""
    delete: DeleteAction | None = None
    """Remove a file."""
    run: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """Program and arguments, run in the worktree; its outcome is told by the progress only."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1 or self.run == ():
            raise PydanticCustomError(RULE, "must hold exactly one of write, replace, delete, run")
        return self


class ScriptTurn(Value):
    """What one turn, or one of its repairs, does and answers; exactly one of `answer` and `text`."""

    role: Role
    """Whose turn."""
    step: NonEmptyText | None = None
    """At which step; null fits every step of the role."""
    visit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """At which visit of the step, counted from 1; null fits every visit."""
    attempt: Annotated[int, Field(ge=0, le=2)] = 0
    """0 is the turn's first answer, 1 and 2 are its repairs."""
    actions: Annotated[tuple[Action, ...], Field(strict=False)] = ()
    """What is done before the answer, in this order."""
    answer: dict[str, Any] | None = None
    """The answer as an object; `request_id` and `role` are filled in where they are missing."""
    text: str | None = None
    """The answer as raw text."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.answer is None) == (self.text is None):
            raise PydanticCustomError(RULE, "must hold exactly one of answer, text")
        return self

    def fits(self, request: TurnRequest) -> bool:
        """Return whether this entry is for `request`."""
        asked = (request.role, request.step, request.visit, request.attempt)
        return asked == (self.role, self.step or request.step, self.visit or request.visit, self.attempt)

    def answer_for(self, request: TurnRequest) -> str:
        """Return the text that this entry answers to `request`."""
        if self.answer is None:
            return (self.text or "").replace(REQUEST_ID_MARK, request.request_id)
        answer = {"request_id": request.request_id, "role": request.role} | self.answer
        return json.dumps(answer, ensure_ascii=False, indent=1).replace(REQUEST_ID_MARK, request.request_id)


class Script(Value):
    """Everything that a scripted team answers."""

    turns: Annotated[tuple[ScriptTurn, ...], Field(strict=False)] = ()
    """Tried in order; the first that fits is taken."""


def load_script(path: Path) -> Script:
    """Return the script in a YAML or JSON file.

    Raises:
        ConfigError: it cannot be read or breaks a rule; every problem is told with its line and column.
    """
    return load_yaml_file(path, Script)


class ScriptedProvider:
    """Answers turns from a script.

    Args:
        script: the answers.
    """

    name = "scripted"
    schema_dialect: SchemaDialect = "none"

    def __init__(self, script: Script) -> None:
        self._script = script

    def run_turn(self, request: TurnRequest, progress: Progress) -> TurnResult:
        """Do what the fitting entry says and return its answer.

        Raises:
            ProviderError: no entry fits, an edit cannot be made, or the deadline has passed.
        """
        turn = self._turn(request)
        work = _Work(request, progress)
        for action in turn.actions:
            work.do(action)
        return TurnResult(text=turn.answer_for(request), denials=tuple(work.denials), tool_calls=len(turn.actions))

    def examine(self, *, writes: bool) -> Sequence[Finding]:  # noqa: ARG002
        """Say how many turns the script answers."""
        return (Finding("scripted script", "ok", f"it answers {len(self._script.turns)} turns"),)

    def _turn(self, request: TurnRequest) -> ScriptTurn:
        for turn in self._script.turns:
            if turn.fits(request):
                return turn
        asked = f"role {request.role}, step {request.step}, visit {request.visit}, attempt {request.attempt}"
        raise ProviderError(
            FailureKind.NOT_FOUND, f"the script has no answer for {asked}", remedy="add an entry to the script's turns"
        )


class _Work:
    """The actions of one turn, in its worktree and within its deadline."""

    def __init__(self, request: TurnRequest, progress: Progress) -> None:
        self._request = request
        self._progress = progress
        self._ends = time.monotonic() + request.deadline_seconds
        self.denials: list[str] = []

    def do(self, action: Action) -> None:
        """Do one action; what the role may not do becomes a denial."""
        if action.run is not None:
            self._run(action.run)
            return
        edit = action.write or action.replace or action.delete
        assert edit is not None, "an action holds exactly one key"  # noqa: S101
        try:
            place = self._place(edit.path)
            if place is None:
                return
            self._progress(f"edits {edit.path}")
            _edit(place, edit)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise _unusable(f"{edit.path!r} cannot be edited: {reason}") from error

    def _place(self, path: str) -> Path | None:
        """Return where an edit goes, or None, with a denial, where the role may not edit."""
        if self._request.write_access != "worktree":
            self.denials.append(f"edit of {path} refused: this step only reads")
            return None
        root = self._request.worktree.resolve()
        parts = PurePosixPath(path).parts
        try:
            folder = (root / path).parent.resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL character
            self.denials.append("edit refused: its path leads nowhere")
            return None
        hidden = {".git", STATE_NAME.casefold()} & {
            part.casefold() for part in (*parts, *folder.parts[len(root.parts) :])
        }
        if Path(path).is_absolute() or ".." in parts or hidden or not folder.is_relative_to(root):
            self.denials.append(f"edit of {path} refused: it must stay in the worktree, out of .git and {STATE_NAME}")
            return None
        place = folder / parts[-1]
        if place.is_symlink():
            self.denials.append(f"edit of {path} refused: it is a symbolic link")
            return None
        return place

    def _run(self, command: tuple[str, ...]) -> None:
        self._progress(f"runs {command[0]}")
        left = self._ends - time.monotonic()
        try:
            done = run_process(
                command,
                cwd=self._request.worktree,
                environment=self._request.environment,
                deadline_seconds=max(left, 0.0),
            )
        except ProcessError as error:
            raise _unusable(str(error)) from error
        if done.timed_out:
            seconds = self._request.deadline_seconds
            raise ProviderError(
                FailureKind.TIMEOUT,
                f"the turn was ended at its deadline of {seconds:g} seconds",
            )
        self._progress(f"{command[0]} ended with {done.exit_code}")


def _edit(place: Path, edit: WriteAction | ReplaceAction | DeleteAction) -> None:
    _check_kind(place, edit.path)
    if isinstance(edit, DeleteAction):
        place.unlink(missing_ok=True)
        return
    if isinstance(edit, WriteAction):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(edit.text, encoding="utf-8", newline="")
        return
    text = place.read_bytes().decode("utf-8")
    if _is_replaced(text, edit):
        return
    if text.count(edit.old) != 1:
        raise _unusable(f"{edit.path!r} must hold the text to replace once, holds it {text.count(edit.old)} times")
    place.write_bytes(text.replace(edit.old, edit.new).encode("utf-8"))


def _check_kind(place: Path, path: str) -> None:
    """Refuse what is no file, which could be waited for without end, and what is too large to be taken whole."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise _unusable(f"{path!r} cannot be edited: it is no regular file")
    if found.st_size > MAX_EDITED_BYTES:
        raise _unusable(f"{path!r} cannot be edited: it holds more than {MAX_EDITED_BYTES} bytes")


def _is_replaced(text: str, edit: ReplaceAction) -> bool:
    """Return whether the replacement was made before: the new text is there, and the old one at most inside it."""
    return (
        edit.new != "" and edit.new in text and text.count(edit.old) == text.count(edit.new) * edit.new.count(edit.old)
    )


def _unusable(message: str) -> ProviderError:
    return ProviderError(
        FailureKind.BAD_REQUEST, f"the script's action failed: {message}", remedy="correct the script's action"
    )
