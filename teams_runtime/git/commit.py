"""A commit in two steps that a crash can come between: prepared and recorded, then made; never twice.

The commit is made from the recorded tree, message, author and date, so it has the same id whenever it is made. The
branch moves from the base to it, or not at all.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from teams_runtime.git.command import HOOKS_VERSION, SIGNING_NAMES, Git, version_text
from teams_runtime.git.repository import OBJECT_ID
from teams_runtime.git.worktree import Worktree, check_branch
from teams_runtime.shared.errors import GitError


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """Everything that decides what a commit is.

    Attributes:
        branch: the branch that it goes on.
        base: full id of its parent, which the branch must be at.
        tree: full id of its tree.
        paths: what it changes, sorted.
        message: its message.
        author: `{"name", "email"}` of author and committer.
        date: RFC 3339 time of both.
    """

    branch: str
    base: str
    tree: str
    paths: tuple[str, ...]
    message: str
    author: Mapping[str, str]
    date: str

    def payload(self) -> dict[str, Any]:
        """Return it as plain JSON values, as an event carries it."""
        return asdict(self) | {"paths": list(self.paths), "author": dict(self.author)}

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Self:
        """Return what `payload` gave; other keys are not looked at.

        Raises:
            GitError: a record holds something else than `payload` gives.
        """
        texts: dict[str, str] = {}
        for name in ("branch", "base", "tree", "message", "date"):
            value = payload.get(name)
            if not isinstance(value, str):
                raise GitError(f"the recorded commit's {name} must be a text, got {type(value).__name__}")
            texts[name] = value
        paths, author = payload.get("paths"), payload.get("author")
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise GitError("the recorded commit's paths must be a list of texts")
        if not isinstance(author, Mapping) or not all(isinstance(author.get(key), str) for key in ("name", "email")):
            raise GitError("the recorded commit's author must have a name and an email")
        if not all(OBJECT_ID.fullmatch(texts[name]) for name in ("base", "tree")):
            raise GitError("the recorded commit's base and tree must be full object ids")
        return cls(paths=tuple(paths), author=author, **texts)


def prepare_commit(
    worktree: Worktree,
    owned_paths: Iterable[str],
    paths: Iterable[str],
    message: str,
    author: Mapping[str, str],
    date: str,
) -> PreparedCommit:
    """Return the commit of the owned changes as they lie on the disk now; nothing but objects is written.

    Args:
        worktree: where the changes are.
        owned_paths: what may be committed.
        paths: what is thought to have changed; it must be exactly what did.
        message: the commit's message.
        author: `{"name", "email"}`, see `author_identity`.
        date: RFC 3339 time.

    Raises:
        GitError: nothing changed, the paths are not the changed ones, or the message cannot be one.
    """
    changes = worktree.changes(owned_paths)
    if not changes.paths:
        raise GitError(f"{worktree.path}: no owned path differs from the base, so there is nothing to commit")
    wrong = sorted(set(paths) ^ set(changes.paths))
    if wrong:
        shown = ", ".join(map(repr, wrong[:5]))
        raise GitError(f"{worktree.path}: the paths to commit must be the changed ones; {len(wrong)} differ: {shown}")
    prepared = PreparedCommit(worktree.branch, worktree.base, changes.tree, changes.paths, message, dict(author), date)
    _message_bytes(prepared)
    _identity(prepared)
    return prepared


def make_commit(worktree: Worktree, prepared: PreparedCommit, *, allow_hooks: bool, allow_signing: bool) -> str:
    """Make the commit, or find it already made, and return its full id.

    Args:
        worktree: the worktree it was prepared in.
        prepared: what was recorded.
        allow_hooks: whether the repository's pre-commit and commit-msg hooks run; they may refuse, never change.
        allow_signing: whether it is signed when the config says `commit.gpgSign`.

    Raises:
        GitError: the branch is somewhere else, a hook refused or changed something, or signing failed.
    """
    if prepared.branch != worktree.branch or prepared.base != worktree.base:
        raise GitError(f"{worktree.path}: the prepared commit is of branch {prepared.branch!r}, not of this worktree")
    check_branch(worktree)
    git = Git(worktree.path, worktree.git.source, {**worktree.git.variables, **_identity(prepared)})
    unsigned = _commit_object(git, prepared)
    tip = worktree.repository.commit(f"refs/heads/{prepared.branch}")
    if tip is None:
        raise GitError(
            f"{worktree.repository.root}: branch {prepared.branch!r} is gone; make it again at {prepared.base}"
        )
    if tip == prepared.base:
        if allow_hooks:
            _run_hooks(worktree, prepared)
        tip = _signed(git, prepared) if allow_signing and _wants_signing(git) else unsigned
        git.run("update-ref", "-m", "commit: teams_runtime", f"refs/heads/{prepared.branch}", tip, prepared.base)
    _verify(git, prepared, tip, unsigned)
    _match_index(git)
    return tip


def _commit_object(
    git: Git, prepared: PreparedCommit, *options: str, variables: Mapping[str, str] | None = None
) -> str:
    arguments = ("commit-tree", *options, prepared.tree, "-p", prepared.base, "-F", "-")
    made = git.run(*arguments, stdin=_message_bytes(prepared), variables=variables)
    return os.fsdecode(made.stdout).strip()


def _wants_signing(git: Git) -> bool:
    return git.config_value("commit.gpgSign", kind="bool") == "true"


def _signed(git: Git, prepared: PreparedCommit) -> str:
    secrets = {name: git.source[name] for name in SIGNING_NAMES if name in git.source}
    return _commit_object(git, prepared, "-S", variables=secrets)


def _verify(git: Git, prepared: PreparedCommit, tip: str, unsigned: str) -> None:
    """Check with git that the branch is at the prepared commit, signed or not."""
    now = git.text("rev-parse", "--verify", f"refs/heads/{prepared.branch}")
    if now != tip or _without_signature(git, now) != _without_signature(git, unsigned):
        raise GitError(
            f"{git.folder}: branch {prepared.branch!r} must be at {prepared.base} or the prepared commit, is at {now}; "
            "somebody else moved it: put it back"
        )


def _without_signature(git: Git, commit: str) -> bytes:
    """Return a commit object's text without its signature."""
    head, gap, message = git.run("cat-file", "commit", commit).stdout.partition(b"\n\n")
    kept: list[bytes] = []
    inside = False
    for line in head.split(b"\n"):
        inside = line.startswith(b"gpgsig") or (inside and line.startswith(b" "))
        if not inside:
            kept.append(line)
    return b"\n".join(kept) + gap + message


def _match_index(git: Git) -> None:
    """Make the worktree's own index say what its HEAD says, as after any commit."""
    safe = git.without_local_programs()
    safe.run("read-tree", "HEAD")
    safe.run("update-index", "-q", "--refresh", accept=(0, 1))


def _run_hooks(worktree: Worktree, prepared: PreparedCommit) -> None:
    """Run pre-commit and commit-msg as git would; they see the prepared tree in the index they are given."""
    if worktree.repository.version < HOOKS_VERSION:
        raise GitError(f"{worktree.path}: hooks are allowed, which needs git {version_text(HOOKS_VERSION)} or newer")
    before = worktree.tree(prepared.paths)
    with tempfile.TemporaryDirectory(prefix="teams_runtime-") as name:
        message = Path(name) / "COMMIT_EDITMSG"
        message.write_bytes(_message_bytes(prepared))
        variables = {**worktree.git.variables, **_identity(prepared), "GIT_INDEX_FILE": str(Path(name) / "index")}
        git = Git(worktree.path, worktree.git.source, variables, hooks=True).without_local_programs()
        git.run("read-tree", prepared.tree)
        git.run("update-index", "-q", "--refresh", accept=(0, 1))
        git.run("hook", "run", "--ignore-missing", "pre-commit")
        if git.text("write-tree") != prepared.tree or worktree.tree(prepared.paths) != before:
            raise GitError(
                f"{worktree.path}: the pre-commit hook changed files, so what was judged is not what it wants"
            )
        git.run("hook", "run", "--ignore-missing", "commit-msg", "--", str(message))
        if message.read_bytes() != _message_bytes(prepared):
            raise GitError(f"{worktree.path}: the commit-msg hook changed the message; write it as the hook wants it")


def _message_bytes(prepared: PreparedCommit) -> bytes:
    """Return the message as git stores it: not empty, one newline at its end."""
    text = prepared.message.strip()
    if not text or "\0" in text:
        raise GitError("a commit message must have text, and no NUL character")
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError as error:
        raise GitError(f"a commit message must be text that UTF-8 can hold, character {error.start} is not") from error


def _identity(prepared: PreparedCommit) -> dict[str, str]:
    """Return the variables that fix who and when, of author and committer."""
    try:
        when = datetime.fromisoformat(prepared.date)
    except ValueError as error:
        raise GitError(f"a commit's date must be an RFC 3339 time, got {prepared.date!r}") from error
    stamp = f"@{int(when.replace(tzinfo=when.tzinfo or UTC).timestamp())} +0000"
    parts = {"NAME": prepared.author["name"], "EMAIL": prepared.author["email"], "DATE": stamp}
    return {f"GIT_{who}_{part}": value for who in ("AUTHOR", "COMMITTER") for part, value in parts.items()}
