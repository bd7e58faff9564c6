"""Everything that one request keeps on disk, so that it can be shown before it goes; nothing goes by itself."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from teams_runtime.shared.errors import RecordError
from teams_runtime.shared.paths import WorkspacePaths
from teams_runtime.store.alternating import held_path, spare_path
from teams_runtime.store.writing import Disk, draft_path


@dataclass(frozen=True, slots=True)
class Footprint:
    """What pruning one request takes away.

    Attributes:
        request_id: the request.
        files: the record, its second copy, its artifacts, its sessions; the record first.
        bytes: their size together.
    """

    request_id: str
    files: tuple[Path, ...]
    bytes: int


def footprint(paths: WorkspacePaths, request_id: str) -> Footprint:
    """Return what lies on disk for a request; its worktree and branch are git's and stay."""
    record = paths.record(request_id)
    beside = (record, spare_path(record), draft_path(record), held_path(record))
    inside = [sorted(path for path in folder.rglob("*") if not path.is_dir()) for folder in _folders(paths, request_id)]
    files = tuple(path for path in (*beside, *chain(*inside)) if path.is_file() or path.is_symlink())
    return Footprint(request_id, files, sum(path.lstat().st_size for path in files))


def remove(paths: WorkspacePaths, request_id: str, disk: Disk) -> None:
    """Remove all of it; the caller holds the request's locks, whose files go last.

    The second copy goes before the record, and the artifacts after it: wherever this is cut off, what is left is a
    whole record, or files that nothing names.

    Raises:
        RecordError: a file cannot be removed.
    """
    record = paths.record(request_id)
    try:
        for path in (spare_path(record), draft_path(record), held_path(record), record):
            disk.remove(path)
        disk.sync_folder(record.parent)
        for folder in _folders(paths, request_id):
            if folder.is_dir() and not folder.is_symlink():
                shutil.rmtree(folder)
        disk.remove(paths.run_lock(request_id))
        disk.remove(paths.record_lock(request_id))
    except OSError as error:
        raise RecordError(record, f"cannot be removed: {error.strerror}") from error


def _folders(paths: WorkspacePaths, request_id: str) -> tuple[Path, ...]:
    return paths.artifacts(request_id), paths.request_sessions(request_id)
