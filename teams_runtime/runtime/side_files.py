"""Files beside the record that a turn writes: the read-only copy for a role's worktree, and rejected answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import IO

from teams_runtime.shared.errors import GitError, WorkspaceError
from teams_runtime.shared.own_files import make_own_folder, write_own_file
from teams_runtime.shared.paths import STATE_NAME
from teams_runtime.store.records import Record
from teams_runtime.workflows.roles.prompt import RejectedAnswer


def place_record_copy(worktree: Path, record: Record) -> Path:
    """Put a read-only copy of the record where the notice of a compacted prompt says that it lies.

    The copy is complete up to the record's newest event; the original stays out of the role's reach.

    Returns:
        The copy's path, `<worktree>/.teams_runtime/requests/<request_id>.json`.

    Raises:
        GitError: a role has put something else in its place, or it cannot be written.
    """

    def fill(stream: IO[bytes]) -> None:
        with record.path.open("rb") as source:
            shutil.copyfileobj(source, stream)

    try:
        target = make_own_folder(worktree, STATE_NAME, "requests") / f"{record.request_id}.json"
        write_own_file(target, fill, mode=0o400)
    except WorkspaceError as error:
        raise GitError(str(error)) from error
    return target


class RejectedAnswers:
    """The answers that broke their contract, kept so that a repair prompt can be shown again later.

    Args:
        folder: one request's artifact folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "rejected"

    def save(self, seq: int, attempt: int, rejected: RejectedAnswer) -> None:
        """Keep the answer of call `attempt` of the turn that began after event `seq`.

        Raises:
            WorkspaceError: it cannot be written.
        """
        blob = json.dumps({"text": rejected.text, "issues": list(rejected.issues)}).encode("ascii")
        state = self._folder.parents[2]
        make_own_folder(state, *self._folder.relative_to(state).parts)
        write_own_file(self._file(seq, attempt), lambda stream: stream.write(blob))

    def load(self, seq: int) -> RejectedAnswer | None:
        """Return the newest rejected answer of the turn that began after event `seq`, or None.

        Raises:
            WorkspaceError: the file is not one that `save` wrote.
        """
        found = sorted(self._folder.glob(f"{seq:06d}-*.json"))
        if not found:
            return None
        try:
            kept = json.loads(found[-1].read_text(encoding="ascii"))
            text, issues = kept["text"], kept["issues"]
            if not isinstance(text, str) or not all(isinstance(issue, str) for issue in issues):
                raise TypeError
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise WorkspaceError(f"{found[-1]}: must be a rejected answer as a run keeps it; remove it") from error
        return RejectedAnswer(text=text, issues=tuple(issues))

    def _file(self, seq: int, attempt: int) -> Path:
        return self._folder / f"{seq:06d}-{attempt}.json"
