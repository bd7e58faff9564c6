"""Files beside the record that a turn writes: the read-only copy for a role's worktree, and rejected answers."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from teams_runtime.shared.paths import STATE_NAME
from teams_runtime.store.records import Record
from teams_runtime.workflows.roles.prompt import RejectedAnswer


def place_record_copy(worktree: Path, record: Record) -> Path:
    """Put a read-only copy of the record where the notice of a compacted prompt says that it lies.

    The copy is complete up to the record's newest event; the original stays out of the role's reach.

    Returns:
        The copy's path, `<worktree>/.teams_runtime/requests/<request_id>.json`.
    """
    folder = worktree / STATE_NAME / "requests"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{record.request_id}.json"
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".copy-")
    os.close(descriptor)
    shutil.copyfile(record.path, name)
    Path(name).chmod(0o400)
    return Path(name).replace(target)


class RejectedAnswers:
    """The answers that broke their contract, kept so that a repair prompt can be shown again later.

    Args:
        folder: one request's artifact folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "rejected"

    def save(self, seq: int, attempt: int, rejected: RejectedAnswer) -> None:
        """Keep the answer of call `attempt` of the turn that began after event `seq`."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"text": rejected.text, "issues": list(rejected.issues)})
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=".rejected-")
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(text)
        Path(name).replace(self._file(seq, attempt))

    def load(self, seq: int) -> RejectedAnswer | None:
        """Return the newest rejected answer of the turn that began after event `seq`, or None."""
        found = sorted(self._folder.glob(f"{seq:06d}-*.json"))
        if not found:
            return None
        kept = json.loads(found[-1].read_text(encoding="ascii"))
        return RejectedAnswer(text=kept["text"], issues=tuple(kept["issues"]))

    def _file(self, seq: int, attempt: int) -> Path:
        return self._folder / f"{seq:06d}-{attempt}.json"
