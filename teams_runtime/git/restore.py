"""Put the owned files of a worktree back to a tree that was judged before: what only reads must change nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from teams_runtime.git.repository import check_owned_paths, owns
from teams_runtime.git.worktree import Worktree, differences


def restore_tree(worktree: Worktree, tree: str, owned_paths: Iterable[str]) -> tuple[str, ...]:
    """Make the owned files on the disk what they are in `tree`; ignored files and submodules stay as they are.

    Args:
        worktree: where.
        tree: full id of a tree that `Worktree.tree` gave.
        owned_paths: what may be put back.

    Returns:
        The paths that were put back or removed, sorted; none when nothing differed.

    Raises:
        GitError: git cannot write one of them.
    """
    owned = check_owned_paths(owned_paths)
    with worktree.private_index() as git:
        git.run("read-tree", "--reset", tree)
        git.run("update-index", "-q", "--refresh", accept=(0, 1))
        changed = [change.path for change in differences(worktree, git) if owns(owned, change.path.rstrip("/"))]
        known = set(git.run("ls-files", "-z").stdout.split(b"\0"))
        back = [path for path in changed if os.fsencode(path) in known]
        for path in changed:
            if os.fsencode(path) not in known:
                _remove(worktree.path, worktree.path / path)
        if back:
            names = b"".join(os.fsencode(path) + b"\0" for path in back)
            git.run("checkout-index", "--force", "-z", "--stdin", stdin=names)
    return tuple(changed)


def _remove(top: Path, place: Path) -> None:
    """Remove a new file or nested repository, and the folders that it leaves empty."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    for folder in place.parents:
        if folder == top:
            return
        with suppress(OSError):
            folder.rmdir()
