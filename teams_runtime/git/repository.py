"""The user's repository: found, checked, and read; never changed here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from teams_runtime.git.command import DEFAULT_EMAIL, DEFAULT_NAME, Git, git_version
from teams_runtime.shared.errors import GitError
from teams_runtime.shared.paths import STATE_NAME

OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII)
"""A full object id, of SHA-1 or SHA-256; what is taken from a record as one must be one."""


@dataclass(frozen=True, slots=True)
class Base:
    """What a request starts from.

    Attributes:
        commit: full id of the commit.
        branch: the branch that was checked out, None when HEAD was detached.
    """

    commit: str
    branch: str | None


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository with a working folder and at least one commit; made by `Repository.open`.

    Attributes:
        root: top folder of the working tree, absolute.
        common: the folder that all its worktrees share (`.git`), absolute.
        git: how git is called there.
        version: the installed git's major and minor version.
    """

    root: Path
    common: Path
    git: Git = field(repr=False)
    version: tuple[int, int]

    @classmethod
    def open(cls, path: Path, environment: Mapping[str, str] | None = None) -> Repository:
        """Return the repository that `path` lies in: the folder itself or the nearest one above it.

        Args:
            path: a folder.
            environment: where the variables that git may see are taken from; None is this process's own.

        Raises:
            GitError: there is none, it is bare, it has no commit yet, its owner is not trusted, or git is missing.
        """
        if not path.is_dir():
            raise GitError(f"{path}: no such folder; name a git repository")
        git = Git(path.resolve(), dict(os.environ if environment is None else environment))
        version = git_version(git)
        common = Path(_find(git, path))
        if git.text("rev-parse", "--is-inside-work-tree") != "true":
            raise GitError(f"{path}: a bare repository, or the inside of one, has no files to work on; name a checkout")
        root = Path(git.text("rev-parse", "--show-toplevel"))
        repository = cls(root, common, Git(root, git.source), version)
        repository.head()
        return repository

    def head(self) -> Base:
        """Return what is checked out now.

        Raises:
            GitError: there is no commit yet.
        """
        commit = self.commit("HEAD")
        if commit is None:
            raise GitError(f"{self.root}: the repository has no commit yet; make a first one (git commit)")
        branch = self.git.run("symbolic-ref", "-q", "HEAD", accept=(0, 1))
        name = os.fsdecode(branch.stdout).removesuffix("\n").removeprefix("refs/heads/")
        return Base(commit, name if branch.exit_code == 0 else None)

    def uncommitted(self) -> int:
        """Return how many tracked files of the checkout differ from its commit, staged or not; nothing is changed."""
        status = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty")
        return self.git.without_local_programs().run(*status).stdout.count(b"\0")

    def commit(self, name: str) -> str | None:
        """Return the full id of the commit that `name` leads to, None when there is none."""
        found = self.git.run("rev-parse", "--verify", "-q", "--end-of-options", name + "^{commit}", accept=(0, 1))
        return os.fsdecode(found.stdout).strip() if found.exit_code == 0 else None

    def has_tree(self, tree: str) -> bool:
        """Return whether the tree of that full id is in the repository."""
        if not OBJECT_ID.fullmatch(tree):
            return False
        return self.git.run("cat-file", "-e", tree + "^{tree}", accept=(0, 1, 128)).exit_code == 0


def author_identity(repository: Repository) -> dict[str, str]:
    """Return `{"name", "email"}` of whoever the repository's config says, else the runtime's own."""
    name, email = (_one_line(repository.git.config_value(key)) for key in ("user.name", "user.email"))
    if name and email:
        return {"name": name, "email": email}
    return {"name": DEFAULT_NAME, "email": DEFAULT_EMAIL}


def check_owned_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """Return owned paths as git spells them: `/` between parts, none at the end, `.` for the whole tree.

    Raises:
        GitError: a path is absolute, leaves the repository, or lies in `.git` or in the runtime's own folder.

    >>> check_owned_paths(["./src/", "."])
    ('src', '.')
    """
    return tuple(_checked(path) for path in paths)


def owns(owned: Iterable[str], path: str) -> bool:
    """Tell whether `path` is one of the owned paths or lies below one; nothing is a pattern.

    >>> owns(["src"], "src/a.py"), owns(["src"], "src2/a.py"), owns(["*"], "a.py")
    (True, False, False)
    """
    return any(place == "." or path == place or path.startswith(place + "/") for place in owned)


def _checked(path: str) -> str:
    pure = PurePosixPath(path)
    inner = [part.casefold() for part in pure.parts]
    if not path or "\0" in path or pure.is_absolute() or ".." in inner:
        raise GitError(f"owned path {path!r}: must be relative to the repository and stay inside it")
    if ".git" in inner or STATE_NAME in inner:
        raise GitError(f"owned path {path!r}: .git and {STATE_NAME} are never owned")
    return str(pure)


def _find(git: Git, path: Path) -> str:
    try:
        return git.text("rev-parse", "--path-format=absolute", "--git-common-dir")
    except GitError as error:
        said = str(error)
    if "not a git repository" in said:
        raise GitError(f"{path}: not a git repository; name one, or make one (git init and a first commit)")
    if "dubious ownership" in said:
        raise GitError(
            f"{path}: the repository belongs to another user, so git refuses it; if you trust it: "
            f"git config --global --add safe.directory {str(git.folder)!r}"
        )
    raise GitError(said)


def _one_line(value: str | None) -> str:
    """Return an identity's part as git would keep it: one line, without the characters that frame it."""
    kept = "".join(letter for letter in value or "" if letter not in "<>" and letter.isprintable())
    return kept.strip()
