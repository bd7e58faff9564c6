"""Real temporary repositories for the tests of git, and everything about a checkout that must not change."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path

from teams_runtime.git.commit import PreparedCommit, make_commit, prepare_commit
from teams_runtime.git.repository import Repository
from teams_runtime.git.worktree import Worktree, ensure_worktree

DATE = "2026-12-01T03:04:05.678Z"
AUTHOR = {"name": "Ada", "email": "ada@example.org"}
FILES = {"README.md": "hello\n", "src/a.py": "A = 1\n", "src/b.py": "B = 1\n", "docs/guide.md": "guide\n"}


class GitCase(unittest.TestCase):
    """A test with a folder, a home without any git config, and a repository of four files."""

    object_format = "sha1"

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="git case ")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.home = self.folder / "home"
        self.home.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        self.repo = self.make_repository("repo")

    def make_repository(self, name: str, files: Mapping[str, str] = FILES) -> Path:
        """Make a repository with one commit."""
        repo = self.folder / name
        repo.mkdir()
        self.git("init", "-q", "-b", "main", f"--object-format={self.object_format}", cwd=repo)
        write_files(repo, files)
        self.commit_all("first", cwd=repo)
        return repo

    def git(self, *arguments: str, cwd: Path | None = None, code: int = 0) -> str:
        """Run the real git as a user would, and return its output."""
        identity = ["-c", "user.name=User", "-c", "user.email=user@example.org"]
        result = subprocess.run(
            ["git", *identity, *arguments], cwd=cwd or self.repo, env=self.environment, capture_output=True, check=False
        )
        self.assertEqual(code, result.returncode, result.stderr)
        return os.fsdecode(result.stdout)

    def commit_all(self, message: str, cwd: Path | None = None) -> str:
        """Commit everything and return the id."""
        self.git("add", "-A", cwd=cwd)
        self.git("commit", "-q", "--no-verify", "-m", message, cwd=cwd)
        return self.git("rev-parse", "HEAD", cwd=cwd).strip()

    def open(self, path: Path | None = None) -> Repository:
        """Open the repository with the test's environment."""
        return Repository.open(path or self.repo, self.environment)

    def worktree(self, request_id: str = "r1", repo: Path | None = None) -> Worktree:
        """Make or find the worktree of a request."""
        repository = self.open(repo)
        return ensure_worktree(repository, self.folder / "state" / request_id, request_id, repository.head())

    def prepare(
        self, worktree: Worktree, owned: tuple[str, ...] = (".",), message: str = "Change it"
    ) -> PreparedCommit:
        """Prepare a commit of all owned changes."""
        return prepare_commit(worktree, owned, worktree.changes(owned).paths, message, AUTHOR, DATE)

    def commit(self, worktree: Worktree, *, hooks: bool = False, signing: bool = False) -> str:
        """Prepare and make a commit of everything."""
        return make_commit(worktree, self.prepare(worktree), allow_hooks=hooks, allow_signing=signing)

    def shown(self, commit: str) -> list[str]:
        """Return status letter and path of everything that a commit changed."""
        raw = self.git("show", "--no-renames", "--name-status", "-z", "--format=", commit).split("\0")
        return [f"{letter} {path}" for letter, path in zip(raw[::2], raw[1::2], strict=False)]

    def canary(self, name: str) -> tuple[Path, Path]:
        """Return a program and the file that it makes when it runs; it passes its input on."""
        programs = tempfile.TemporaryDirectory(prefix="canary-")  # no space: most settings are read by a shell
        self.addCleanup(programs.cleanup)
        program = Path(programs.name) / f"{name}.sh"
        mark = program.with_suffix(".ran")
        program.write_text(f"#!/bin/sh\ntouch '{mark}'\ncat\n")
        program.chmod(0o755)
        return program, mark

    def checkout_state(self, repo: Path | None = None) -> dict[str, str]:
        """Return the digest of every file of a checkout, of its index, config, HEAD, and of all refs but the team's."""
        repo = repo or self.repo
        kept = [path for path in repo.rglob("*") if ".git" not in path.relative_to(repo).parts]
        kept += [repo / ".git" / name for name in ("index", "config", "HEAD", "packed-refs")]
        kept += [path for path in (repo / ".git/refs").rglob("*") if "teams" not in path.parts]
        found = {str(path): _state(path) for path in kept if path.is_file() or path.is_symlink()}
        return found | {"paths": " ".join(sorted(map(str, kept)))}


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write text files, with their folders."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(text))


def _state(path: Path) -> str:
    stat = path.lstat()
    content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    return f"{stat.st_mode:o} {stat.st_mtime_ns} {hashlib.sha256(content).hexdigest()}"
