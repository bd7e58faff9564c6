"""A request's own worktree: made once, judged as often as needed, the user's checkout never touched.

What is judged is the content on the disk against the commit that the request started from. Neither the worktree's
index nor its HEAD is asked, so nothing that a role does with git can hide a change. A private index, kept between
calls in the worktree's own git folder, makes that quick.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from teams_runtime.git.command import Git, file_error, file_errors
from teams_runtime.git.repository import OBJECT_ID, Base, Repository, check_owned_paths, owns
from teams_runtime.shared.errors import GitError
from teams_runtime.shared.paths import STATE_NAME, check_request_id

LOCK_SECONDS = 60.0
BRANCH_FOLDER = "teams"
STAT_LINES = 100
_HALF_MADE = "initializing"
"""What git writes as the reason of the lock while it makes a worktree; it stays when that is killed."""
_SUBMODULE = "160000"
_CLOCK_MARGIN_NS = 1_000_000_000
"""More than the coarsest step of a file system's clock that matters here."""


_PLAIN = ("-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
"""Options of every comparison of two trees."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs from the base.

    Attributes:
        paths: changed owned paths, new and deleted ones included, sorted; a rename is two.
        outside: changed paths that are not owned, sorted; they are in no tree and no commit.
        stat: git's own table of the owned changes, at most 100 files.
        tree: full id of the tree: the base with the owned changes.
    """

    paths: tuple[str, ...]
    outside: tuple[str, ...]
    stat: str
    tree: str


@dataclass(frozen=True, slots=True)
class Worktree:
    """One request's worktree; made by `ensure_worktree`.

    Attributes:
        path: its folder, absolute.
        branch: the branch it is on, `teams/<request id>`.
        base: full id of the commit that it started from.
        folder: its own folder inside the repository's git folder.
        repository: the repository that it belongs to.
        git: how git is called there.
    """

    path: Path
    branch: str
    base: str
    folder: Path
    repository: Repository
    git: Git = field(repr=False)

    def tree(self, owned_paths: Iterable[str]) -> str:
        """Return the full id of the tree that the base becomes with the owned paths as they lie on the disk now.

        Raises:
            GitError: an owned change is a symlink that leads out of the tree, a submodule or a nested repository.
        """
        owned = check_owned_paths(owned_paths)
        with self.private_index() as git:
            return _tree(self, git, owned)[0]

    def changes(self, owned_paths: Iterable[str]) -> Changes:
        """Return what differs from the base, owned and not.

        Raises:
            GitError: as `tree`.
        """
        owned = check_owned_paths(owned_paths)
        with self.private_index() as git:
            tree, outside = _tree(self, git, owned)
        stat = self.git.run("diff-tree", *_PLAIN, f"--stat=100,70,{STAT_LINES}", self.base, tree).stdout
        return Changes(
            paths=self.changed_paths(self.base, tree),
            outside=tuple(sorted(outside)),
            stat=stat.decode("utf-8", "replace").rstrip("\n"),
            tree=tree,
        )

    def changed_paths(self, before: str, after: str) -> tuple[str, ...]:
        """Return the paths in which two trees, or commits, differ, sorted; a rename is two."""
        return tuple(sorted(_paths(self.git.run("diff-tree", *_PLAIN, "-z", "--name-only", before, after).stdout)))

    @property
    def settled(self) -> bool:
        """Whether the worktree has been said to hold what it should since it was made; see `settle`."""
        return self._settled.exists()

    def settle(self) -> None:
        """Say that the worktree holds what it should: one that is made again later will be unsettled."""
        with file_errors(self.path):
            self._settled.parent.mkdir(exist_ok=True)
            self._settled.write_bytes(b"")

    @property
    def _settled(self) -> Path:
        return self.folder / "teams_runtime" / "settled"

    def private_index(self) -> _PrivateIndex:
        """Give git with an index of our own that holds the base; for one caller at a time."""
        return _PrivateIndex(self)


class _PrivateIndex:
    def __init__(self, worktree: Worktree) -> None:
        self._worktree = worktree
        self._home = worktree.folder / "teams_runtime"
        self._lock = FileLock(str(self._home / "lock"), timeout=LOCK_SECONDS)

    def __enter__(self) -> Git:
        place = self._worktree.path
        with file_errors(place):
            self._home.mkdir(exist_ok=True)
            try:
                self._lock.acquire()
            except Timeout as error:
                raise GitError(f"{place}: another process has been at work here for {LOCK_SECONDS:g} s") from error
            try:
                return self._base_index()
            except BaseException:
                self._lock.release()
                raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._lock.release()
        if isinstance(error, OSError):
            raise file_error(self._worktree.path, error) from error

    def _base_index(self) -> Git:
        """Read the base into the index; what the last call learnt of unchanged files is kept, a broken index is not."""
        index = self._home / "index"
        index.with_name("index.lock").unlink(missing_ok=True)  # left by a kill: the lock is ours
        worktree = self._worktree
        git = Git(
            worktree.path, worktree.git.source, {**worktree.git.variables, "GIT_INDEX_FILE": str(index)}
        ).without_local_programs()
        try:
            git.run("read-tree", "-m", worktree.base)
        except GitError:
            _clear(index)
            git.run("read-tree", worktree.base)
        self._refresh(git)
        return git

    def _refresh(self, git: Git) -> None:
        """Compare files with the index, by content where they may have changed since the last time.

        Git looks at size and times in whole seconds, which a change can keep; only the time of the last change of
        the inode cannot be set back. The stamp is replaced last, so that a kill makes the next call look at more.
        """
        stamp = self._home / "stamp"
        since = stamp.stat().st_mtime_ns - _CLOCK_MARGIN_NS if stamp.exists() else 0
        fresh = stamp.with_name("stamp.new")
        fresh.write_bytes(b"")
        doubtful = _changed_since(git, since)
        if doubtful:
            git.run("update-index", "-z", "--index-info", stdin="".join(doubtful).encode("utf-8", "surrogateescape"))
        git.run("update-index", "-q", "--refresh", accept=(0, 1))
        fresh.replace(stamp)


def ensure_worktree(repository: Repository, path: Path, request_id: str, base: Base) -> Worktree:
    """Return the worktree of a request, made when it is not there; a second call, or a crash between, changes nothing.

    The branch `teams/<request id>` starts at the base. A worktree whose folder was deleted is made again from its
    branch. A branch of that name with other commits is somebody else's and is refused.

    Args:
        repository: the user's repository.
        path: the worktree's folder; nothing else may lie there.
        request_id: whose it is.
        base: what the request started from.

    Raises:
        GitError: something else is in the way, or git refuses.
    """
    branch = f"{BRANCH_FOLDER}/{check_request_id(request_id)}"
    if not OBJECT_ID.fullmatch(base.commit):
        raise GitError(f"{path}: the base must be the full id of a commit, the record has {base.commit!r}")
    with file_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = path.parent.resolve() / path.name
        folder = _ensure_folder(repository, path, branch, base)
        variables = {"GIT_DIR": str(folder), "GIT_WORK_TREE": str(path)}
        git = Git(path, repository.git.source, variables)
        worktree = Worktree(path, branch, base.commit, folder, repository, git)
        check_branch(worktree)
        _ignore_state(path)
    return worktree


def _ensure_folder(repository: Repository, path: Path, branch: str, base: Base) -> Path:
    """Return the folder in the repository that stands for the worktree at `path`; made once, whoever else tries."""
    lock = FileLock(str(path.with_name(path.name + ".lock")), timeout=LOCK_SECONDS, mode=0o600)
    try:
        with lock:
            folder = _registered(repository, path)
            if folder is None or not _usable(path, folder):
                folder = _add(repository, path, branch, base, folder)
            return folder
    except Timeout as error:
        raise GitError(f"{path}: another process has been making this worktree for {LOCK_SECONDS:g} s") from error


def _clear(place: Path) -> None:
    """Remove what is at a place of our own, whatever it is."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def check_branch(worktree: Worktree) -> None:
    """Raise GitError when the worktree is not on its own branch."""
    head = worktree.git.run("symbolic-ref", "-q", "HEAD", accept=(0, 1)).stdout
    name = os.fsdecode(head).removesuffix("\n").removeprefix("refs/heads/")
    if name != worktree.branch:
        found = f"on branch {name!r}" if name else "on no branch"
        raise GitError(f"{worktree.path}: must be on branch {worktree.branch!r}, is {found}; switch it back")


def _registered(repository: Repository, path: Path) -> Path | None:
    """Return the folder in the repository that stands for the worktree at `path`."""
    for pointer in sorted(repository.common.glob("worktrees/*/gitdir")):
        with suppress(OSError):
            target = os.fsdecode(pointer.read_bytes()).removesuffix("\n")
            place = pointer.parent / target  # newer gits may write a relative path
            if Path(os.path.normpath(place)) == path / ".git":
                return pointer.parent
    return None


def _usable(path: Path, folder: Path) -> bool:
    """Tell whether a registered worktree is whole: there, and not left half made by a crash."""
    pointer = path / ".git"
    if not pointer.is_file() or _locked(folder) == _HALF_MADE:
        return False
    target = os.fsdecode(pointer.read_bytes()).removeprefix("gitdir: ").removesuffix("\n")
    if (path / target).resolve() != folder.resolve():
        raise GitError(f"{path}: this folder belongs to another repository, to {target!r}; move it away")
    return True


def _locked(folder: Path) -> str | None:
    try:
        return (folder / "locked").read_text(errors="replace").strip()
    except FileNotFoundError:
        return None


def _add(repository: Repository, path: Path, branch: str, base: Base, folder: Path | None) -> Path:
    git = repository.git.without_local_programs()
    if folder is not None:
        _forget(git, path, folder)
    elif path.is_dir() and any(path.iterdir()):
        raise GitError(f"{path}: this folder is in the way of a worktree; move it away")
    tip = repository.commit(f"refs/heads/{branch}")
    if tip is None:
        git.run("worktree", "add", "-q", "--no-track", "-b", branch, "--", str(path), base.commit)
    elif tip == base.commit or folder is not None:
        git.run("worktree", "add", "-q", "--", str(path), branch)
    else:
        raise GitError(
            f"{repository.root}: branch {branch!r} is already there with other commits; rename it: "
            f"git branch -m {branch} NEW_NAME"
        )
    made = _registered(repository, path)
    if made is None:
        raise GitError(f"{path}: git made the worktree, but does not list it; look at: git worktree list")
    return made


def _forget(git: Git, path: Path, folder: Path) -> None:
    """Drop what git keeps of a worktree that is gone or half made, so that it can be made again."""
    reason = _locked(folder)
    if reason == _HALF_MADE:
        shutil.rmtree(path, ignore_errors=True)
    elif reason is not None:
        raise GitError(
            f"{path}: the worktree is gone but locked ({reason!r}); unlock it: git worktree unlock {str(path)!r}"
        )
    elif path.is_dir() and any(path.iterdir()):
        raise GitError(f"{path}: this folder is no longer the worktree that git lists; move it away")
    with suppress(OSError):
        path.rmdir()
    git.run("worktree", "remove", "--force", "--force", "--", str(path))


def _ignore_state(path: Path) -> None:
    """Make the runtime's folder in the worktree ignore itself; a link in its place is refused."""
    state = path / STATE_NAME
    if state.is_symlink() or (state.exists() and not state.is_dir()):
        raise GitError(f"{state}: must be a folder of the runtime's own; remove it from the repository")
    state.mkdir(exist_ok=True)
    ignore = state / ".gitignore"
    if ignore.is_symlink() or ignore.is_dir():
        raise GitError(f"{ignore}: must be a plain file; remove it from the repository")
    if not ignore.is_file() or ignore.read_bytes() != b"*\n":
        ignore.write_bytes(b"*\n")


def _changed_since(git: Git, since_ns: int) -> list[str]:
    """Return the index entries of the files whose inodes changed since then, as lines for `--index-info`."""
    found: list[str] = []
    for entry in _paths(git.run("ls-files", "-z", "--stage").stdout):
        header, _, path = entry.partition("\t")
        mode, object_id, _ = header.split(" ")
        with suppress(OSError):
            if mode != _SUBMODULE and os.lstat(f"{git.folder}/{path}").st_ctime_ns >= since_ns:
                found.append(f"{mode} {object_id}\t{path}\0")
    return found


@dataclass(frozen=True, slots=True)
class Difference:
    """One path that differs from what the private index holds."""

    path: str
    deleted: bool = False
    submodule: bool = False


def _tree(worktree: Worktree, git: Git, owned: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the tree with the owned changes, and the changed paths outside; `git` has the base in its index."""
    found = differences(worktree, git)
    inside = [change for change in found if owns(owned, change.path)]
    for change in inside:
        _check_kind(worktree, change)
    _check_submodules(worktree, git, owned)
    gone = [os.fsencode(change.path) for change in inside if change.deleted]
    if gone:
        nothing = b"0" * len(worktree.base)
        git.run("update-index", "-z", "--index-info", stdin=b"".join(b"0 %s\t%s\0" % (nothing, name) for name in gone))
    here = [os.fsencode(change.path) for change in inside if not change.deleted]
    if here:
        git.run("update-index", "-z", "--add", "--stdin", stdin=b"".join(name + b"\0" for name in here))
    return git.text("write-tree"), [change.path for change in found if not owns(owned, change.path)]


def differences(worktree: Worktree, git: Git) -> list[Difference]:
    """Return what differs from the base, sorted by path; never the runtime's own files."""
    raw = git.run("diff-files", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty").stdout
    fields = _paths(raw)
    found: list[Difference] = []
    for header, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, new_mode, old_id, _, status = header.removeprefix(":").split(" ")
        if old_mode == new_mode and _same_bytes(worktree.path / path, old_mode, old_id):
            continue
        found.append(Difference(path, status == "D", _SUBMODULE in {old_mode, new_mode}))
    others = _paths(git.run("ls-files", "-z", "--others", "--exclude-standard").stdout)
    found += [Difference(path, submodule=path.endswith("/")) for path in others]
    return sorted((change for change in found if _judged(change.path)), key=lambda change: os.fsencode(change.path))


def _judged(path: str) -> bool:
    return STATE_NAME not in path.split("/")


def _same_bytes(path: Path, mode: str, object_id: str) -> bool:
    """Tell whether a plain file holds exactly the recorded bytes, whatever line-ending rules make of them."""
    if not mode.startswith("100"):
        return False
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False  # a pipe would be waited for
        content = path.read_bytes()
    except OSError:
        return False  # git says what is wrong with it when it is added
    name = "sha1" if len(object_id) == 40 else "sha256"
    return hashlib.new(name, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == object_id


def _check_kind(worktree: Worktree, change: Difference) -> None:
    place = worktree.path / change.path
    if change.submodule:
        raise GitError(f"{place}: a submodule, or a git repository inside the worktree, was changed; put it back")
    if place.is_symlink() and not _leads_inside(worktree.path, place):
        raise GitError(
            f"{place}: the symbolic link must be relative and stay inside the repository, leads to "
            f"{str(place.readlink())!r}; remove it"
        )


def _leads_inside(root: Path, link: Path) -> bool:
    target = link.readlink()
    if target.is_absolute():
        return False
    top = root.resolve()
    place = Path(os.path.realpath(link.parent / target))
    return place == top or (place.is_relative_to(top) and place.relative_to(top).parts[0] != ".git")


def _check_submodules(worktree: Worktree, git: Git, owned: tuple[str, ...]) -> None:
    """Refuse an owned submodule with changes of its own: they would be lost without a word."""
    for entry in _paths(git.run("ls-files", "-z", "--stage").stdout):
        header, _, path = entry.partition("\t")
        if header.startswith(_SUBMODULE) and owns(owned, path) and _has_changes(git, worktree.path / path):
            raise GitError(f"{worktree.path / path}: there are changes inside the submodule; put it back")


def _has_changes(git: Git, folder: Path) -> bool:
    if not folder.is_dir() or not any(folder.iterdir()):
        return False
    if not (folder / ".git").exists():
        return True
    inner = Git(folder, git.source, {"GIT_CEILING_DIRECTORIES": str(folder.parent)}).without_local_programs()
    status = ("status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=dirty")
    return bool(inner.run(*status).stdout)


def _paths(raw: bytes) -> list[str]:
    """Split what git gave with -z."""
    return [os.fsdecode(part) for part in raw.split(b"\0") if part]
