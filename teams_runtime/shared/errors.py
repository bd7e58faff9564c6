"""Every error that leaves a module of this package, in one tree.

```
TeamsRuntimeError               one sentence: where, what must hold, what was there
├── UserError                   the user can mend it: one line, exit code 2
│   ├── InputError              an argument, a scope, a request id
│   ├── WorkspaceError          no team_runtime.yaml found, or a folder that is in the way
│   ├── ConfigError             team_runtime.yaml; carries every problem of the file
│   ├── RecordError             one record file; others are not affected
│   │   ├── RecordNotFoundError
│   │   ├── RecordDamagedError  unreadable: never repaired by reading, never written over
│   │   └── RecordConflictError the record moved on since it was read (compare-and-set)
│   ├── OutputError             the standard output cannot be written
│   ├── EventRefusedError       an event that must not enter a record
│   └── GitError                git said no, or the repository is not one that can be worked on
├── ContractError               a role's answer does not keep its contract; carries the issues
├── ProviderError               a provider call failed; carries a `FailureKind`
└── ProcessError                a subprocess could not be started, or broke a bound
    ├── ProcessDeadlineError    it was still at work at its deadline
    └── ProcessCancelledError   its caller was asked to stop
```

What escapes and is not in this tree is a bug.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path


class TeamsRuntimeError(Exception):
    """The root; its text is one sentence that can be shown to a user as it is."""


class UserError(TeamsRuntimeError):
    """Something the user can mend; the command line prints the sentence and ends with exit code 2."""


class InputError(UserError):
    """An argument, a scope or a request id that cannot be used."""


class WorkspaceError(UserError):
    """No workspace was found, or a folder is in the way of a new one."""


class ConfigError(UserError):
    """The config file cannot be used; every problem found in it is told at once.

    Args:
        problems: one sentence a problem, each starting with `FILE:LINE:COL: ` (1-based), in file order.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class RecordError(UserError):
    """One record file cannot be used; other requests are not affected.

    Args:
        path: the record file.
        reason: what must hold and what was there; no event content.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class RecordNotFoundError(RecordError):
    """There is no record of that request id."""


class RecordDamagedError(RecordError):
    """The file is not a record that can be read; it is left exactly as it is."""


class RecordConflictError(RecordError):
    """The record holds more events than the caller had seen; load it again and decide anew."""


class OutputError(UserError):
    """The standard output cannot be written: the disk is full, the terminal is gone."""


class EventRefusedError(UserError):
    """An event that must not enter a record: not JSON, too large, or of no known shape."""


class GitError(UserError):
    """Git refused, or the repository is not in a state that can be worked on."""


class ContractError(TeamsRuntimeError):
    """A role's answer does not keep its contract.

    Args:
        issues: one sentence an issue, each starting with a JSON pointer into the answer (`""` is the whole answer).
    """

    def __init__(self, issues: Sequence[str]) -> None:
        super().__init__("; ".join(issues))
        self.issues = tuple(issues)


class FailureKind(StrEnum):
    """Why a turn failed; a closed list, the only thing that telemetry and logs say of a failure."""

    AUTH = "auth"
    QUOTA = "quota"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER = "server"
    NETWORK = "network"
    TIMEOUT = "timeout"
    CONTEXT_WINDOW = "context_window"
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    PROTOCOL = "protocol"
    REFUSED = "refused"
    INVALID_OUTPUT = "invalid_output"
    CLIENT_MISSING = "client_missing"
    CANCELLED = "cancelled"
    CONTRACT = "contract"


FAILURES: Mapping[FailureKind, tuple[bool, str]] = {
    FailureKind.AUTH: (False, "log in, or set the key; `teams-runtime doctor` names the command"),
    FailureKind.QUOTA: (False, "wait until the account's quota is renewed, or name another model or provider"),
    FailureKind.RATE_LIMIT: (True, "wait a while, then continue"),
    FailureKind.OVERLOADED: (True, "wait a while, then continue"),
    FailureKind.SERVER: (True, "look at the provider's status page, then continue"),
    FailureKind.NETWORK: (True, "check the network, the proxy and the provider's base_url, then continue"),
    FailureKind.TIMEOUT: (False, "raise the role's timeout_seconds, or make its work smaller"),
    FailureKind.CONTEXT_WINDOW: (False, "lower prompt_context.max_events, or name a model with a larger window"),
    FailureKind.BAD_REQUEST: (False, "correct the role's model, reasoning or provider settings"),
    FailureKind.NOT_FOUND: (False, "name a model that the provider has in the role's `model`"),
    FailureKind.PROTOCOL: (True, "check that base_url names the model's own server and that no proxy answers for it"),
    FailureKind.REFUSED: (False, "word the request in another way, or name another model"),
    FailureKind.INVALID_OUTPUT: (False, "name a model that keeps to a JSON answer"),
    FailureKind.CLIENT_MISSING: (False, "`teams-runtime doctor` says what to install"),
    FailureKind.CANCELLED: (False, "continue when you want it done"),
    FailureKind.CONTRACT: (False, "name a model that keeps to the contract, or correct the role's charter"),
}
"""For each kind: whether the same call may succeed when it is made again unchanged, and what the user does next."""


class ProviderError(TeamsRuntimeError):
    """A provider call failed; whether it may be made again follows from its kind (`FAILURES`).

    Args:
        kind: the class of the failure.
        message: one sentence, without prompt or answer text.
        remedy: one line that says what the user should do next; None is the kind's own.
        retry_after_seconds: how long the provider asked to wait before the next try; None when it did not say.
    """

    def __init__(
        self, kind: FailureKind, message: str, *, remedy: str | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable, usual = FAILURES[kind]
        self.remedy = usual if remedy is None else remedy
        self.retry_after_seconds = retry_after_seconds


class ProcessError(TeamsRuntimeError):
    """A subprocess could not be started, or broke a bound."""


class ProcessDeadlineError(ProcessError):
    """A subprocess was still at work at its deadline."""


class ProcessCancelledError(ProcessError):
    """A subprocess was still at work when its caller was asked to stop."""
