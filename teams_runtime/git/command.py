"""The one place that starts git, with everything off that a repository's own config could make it run.

A repository's config can name programs: hooks, `core.fsmonitor`, filters, external diffs, pagers, a signing program,
a remote helper. Here none of them runs, nothing is fetched or pushed, and nothing of the caller's `GIT_*` variables
is seen. Filters that the user set up for all repositories (global or system config, as Git LFS does) do run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from teams_runtime.processes.supervisor import ProcessResult, child_environment, run_process
from teams_runtime.shared.errors import GitError, ProcessError

MINIMUM_VERSION = (2, 31)
HOOKS_VERSION = (2, 36)
"""The first git that has `git hook run`."""
DEADLINE_SECONDS = 300.0
OUTPUT_LIMIT_BYTES = 256 * 1024 * 1024
DEFAULT_NAME = "teams_runtime"
DEFAULT_EMAIL = "teams-runtime@localhost"
EXTRA_NAMES = ("XDG_CONFIG_HOME",)
SIGNING_NAMES = ("GNUPGHOME", "GPG_TTY", "SSH_AUTH_SOCK")
"""What a signing program needs besides; given only where signing is allowed."""

HOOKS_OFF = {"core.hooksPath": os.devnull}
SAFE_CONFIG = {
    "core.fsmonitor": "false",
    "commit.gpgSign": "false",
    # Content: what is judged is what lies on the disk, whatever the machine's line-ending settings are.
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.safecrlf": "false",
    # No file may be marked as one not to look at.
    "core.ignoreStat": "false",
    # The team's worktree holds all files of the repository.
    "core.sparseCheckout": "false",
    # Text that goes in and comes out.
    "i18n.commitEncoding": "utf-8",
    "core.quotePath": "false",
    "color.ui": "false",
    # Nothing in the background, and objects on the disk before a ref names them.
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.fsync": "committed,reference",
}
"""Config of every call; it wins over every config file."""

_PROGRAM_KEY = re.compile(r"(?P<kind>filter|hook)\.(?P<name>.+)\.[^.]+", re.DOTALL)
_TRUSTED_SCOPES = ("system", "global")


@dataclass(frozen=True, slots=True)
class Git:
    """How git is called for one repository or worktree.

    Attributes:
        folder: where it runs; errors name it.
        source: the environment that the allowed variables are taken from.
        variables: further variables, such as `GIT_DIR`; they win.
        config: further config; it wins over every file.
        hooks: whether the repository's hooks may run.
    """

    folder: Path
    source: Mapping[str, str] = field(repr=False)
    variables: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    hooks: bool = False

    def run(
        self,
        *arguments: str | bytes,
        stdin: bytes | None = None,
        accept: Sequence[int] = (0,),
        variables: Mapping[str, str] | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> ProcessResult:
        """Run one git command.

        Args:
            arguments: the command and its arguments.
            stdin: what it reads.
            accept: exit codes that are answers, not failures.
            variables: variables for this call only.
            deadline_seconds: wall-clock seconds it may take.

        Raises:
            GitError: git is missing, was ended at its deadline, or said no; one line with git's own first error.
        """
        command = [os.fsdecode(argument) for argument in arguments]
        environment = {**self._environment(), **(variables or {})}
        try:
            result = run_process(
                ["git", "--no-pager", *command],
                cwd=self.folder,
                environment=environment,
                deadline_seconds=deadline_seconds,
                stdin=stdin,
                output_limit_bytes=OUTPUT_LIMIT_BYTES,
            )
        except ProcessError as error:
            raise GitError(f"{self.folder}: {error}; git {version_text(MINIMUM_VERSION)} or newer is needed") from error
        if result.timed_out:
            raise GitError(f"{self.folder}: git {command[0]} did not end within {deadline_seconds:g} seconds")
        if result.truncated:
            raise GitError(f"{self.folder}: git {command[0]} gave more than {OUTPUT_LIMIT_BYTES} bytes")
        if result.exit_code not in accept:
            raise GitError(f"{self.folder}: git {command[0]} failed: {_reason(result)}")
        return result

    def text(self, *arguments: str | bytes) -> str:
        """Run a command and return its output without the final newline."""
        return os.fsdecode(self.run(*arguments).stdout).removesuffix("\n")

    def config_value(self, key: str, *, kind: str | None = None) -> str | None:
        """Return what the config files say for `key`, None where they say nothing; `kind` is git's `--type`."""
        typed = [f"--type={kind}"] if kind else []
        files_only = {"GIT_CONFIG_COUNT": "0"}
        result = self.run("config", *typed, "-z", "--get", key, accept=(0, 1), variables=files_only)
        if result.exit_code:
            return None
        return os.fsdecode(result.stdout).removesuffix("\0")

    def without_local_programs(self) -> Git:
        """Return the same with every filter and configured hook off that the repository's own config names."""
        names = ("config", "-z", "--show-scope", "--name-only", "--get-regexp", r"^(filter|hook)\.")
        listing = self.run(*names, accept=(0, 1))
        fields = os.fsdecode(listing.stdout).split("\0")
        off = dict(self.config)
        for scope, key in zip(fields[::2], fields[1::2], strict=False):
            match = _PROGRAM_KEY.fullmatch(key)
            if match and match["kind"] == "filter" and scope not in _TRUSTED_SCOPES:
                off.update(_filter_off(match["name"]))
            elif match and match["kind"] == "hook" and not self.hooks:
                off[f"hook.{match['name']}.enabled"] = "false"
        return Git(self.folder, self.source, self.variables, off, self.hooks)

    def _environment(self) -> dict[str, str]:
        hooks = {} if self.hooks else HOOKS_OFF
        config = {**SAFE_CONFIG, **hooks, **self.config}
        numbered = {f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(config)}
        numbered |= {f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(config.values())}
        return {
            **child_environment(self.source, EXTRA_NAMES),
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_EDITOR": ":",
            "GIT_AUTHOR_NAME": DEFAULT_NAME,
            "GIT_AUTHOR_EMAIL": DEFAULT_EMAIL,
            "GIT_COMMITTER_NAME": DEFAULT_NAME,
            "GIT_COMMITTER_EMAIL": DEFAULT_EMAIL,
            "GIT_CONFIG_COUNT": str(len(config)),
            **numbered,
            **self.variables,
        }


@contextmanager
def file_errors(place: Path) -> Iterator[None]:
    """Tell what the file system refuses in the block as a GitError that names the file, else `place`."""
    try:
        yield
    except OSError as error:
        raise file_error(place, error) from error


def file_error(place: Path, error: OSError) -> GitError:
    """Return a failure of the file system as a GitError that names the file, else `place`."""
    named = error.filename if isinstance(error.filename, str) else place
    return GitError(f"{named}: {error.strerror or type(error).__name__}; look at the file and put it in order")


def git_version(git: Git) -> tuple[int, int]:
    """Return the major and minor version of the installed git.

    Raises:
        GitError: it is missing, or older than the oldest that works.
    """
    said = git.text("version")
    match = re.search(r"(\d+)\.(\d+)", said)
    found = (int(match[1]), int(match[2])) if match else (0, 0)
    if found < MINIMUM_VERSION:
        raise GitError(f"git {version_text(MINIMUM_VERSION)} or newer is needed, found {said!r}; install a newer git")
    return found


def version_text(version: tuple[int, int]) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, version))


def _filter_off(name: str) -> dict[str, str]:
    programs = {f"filter.{name}.{part}": "" for part in ("clean", "smudge", "process")}
    return {**programs, f"filter.{name}.required": "false"}


def _reason(result: ProcessResult) -> str:
    """Return git's own first error line, printable, without its label."""
    lines = [line.strip() for line in (result.stderr or result.stdout).decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line]
    errors = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    if not lines:
        return f"exit code {result.exit_code}"
    line = (errors or lines)[0]
    shown = re.sub(r"^(fatal|error): ", "", line)
    return "".join(letter if letter.isprintable() else "?" for letter in shown)[:500]
