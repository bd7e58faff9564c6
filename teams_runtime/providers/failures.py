"""Foreign failures in this project's words: HTTP statuses, ended programs, and texts that may hold a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable

from teams_runtime.providers.base import TurnRequest
from teams_runtime.shared.errors import (
    FailureKind,
    ProcessCancelledError,
    ProcessDeadlineError,
    ProcessError,
    ProviderError,
)

EXCERPT_CHARACTERS = 200
"""How much of a foreign message is shown at most."""
_OVERFLOW = re.compile(
    r"context[ _-]?(window|length)|prompt is too long|input is too long|input_too_large|maximum context|too many tokens"
    r"|exceeds the maximum number of tokens|input token count",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[ _]quota|quota exceeded|exceeded your current quota|credit balance|billing", re.IGNORECASE
)
_STATUSES = {
    400: FailureKind.BAD_REQUEST,
    401: FailureKind.AUTH,
    402: FailureKind.QUOTA,
    403: FailureKind.AUTH,
    404: FailureKind.NOT_FOUND,
    407: FailureKind.NETWORK,
    408: FailureKind.NETWORK,
    413: FailureKind.CONTEXT_WINDOW,
    422: FailureKind.BAD_REQUEST,
    429: FailureKind.RATE_LIMIT,
    503: FailureKind.OVERLOADED,
    529: FailureKind.OVERLOADED,
}


def kind_of_status(status: int, text: str = "") -> FailureKind:
    """Return the kind of an HTTP error; `text` is the error's own message, which tells apart what a status cannot.

    >>> kind_of_status(429, "You exceeded your current quota").value, kind_of_status(502).value
    ('quota', 'server')
    """
    if status in {400, 413, 422} and _OVERFLOW.search(text):
        return FailureKind.CONTEXT_WINDOW
    if status in {400, 403, 429} and _QUOTA.search(text):
        return FailureKind.QUOTA
    if status in _STATUSES:
        return _STATUSES[status]
    return FailureKind.SERVER if status >= 500 else FailureKind.BAD_REQUEST


def is_overflow(text: str) -> bool:
    """Return whether a message says that the prompt does not fit the model's context window."""
    return _OVERFLOW.search(text) is not None


def excerpt(text: str, secrets: Iterable[str] = ()) -> str:
    r"""Return the beginning of a foreign message on one line, without control characters and without secrets.

    >>> excerpt("bad key sk-12345678\nsee there", ["sk-12345678"])
    'bad key *** see there'
    """
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    plain = "".join(character if character.isprintable() else " " for character in text[: 8 * EXCERPT_CHARACTERS])
    plain = " ".join(plain.split())
    return plain if len(plain) <= EXCERPT_CHARACTERS else plain[: EXCERPT_CHARACTERS - 1] + "…"


def context_window(request: TurnRequest, limit: str) -> ProviderError:
    """Return the failure of a prompt that does not fit; `limit` says how much fits, as far as that is known."""
    return ProviderError(
        FailureKind.CONTEXT_WINDOW, f"the prompt of {len(request.prompt)} characters does not fit: {limit}"
    )


def of_process(error: ProcessError, request: TurnRequest) -> ProviderError:
    """Return the failure that an ended conversation with a client comes to."""
    if isinstance(error, ProcessDeadlineError):
        return ProviderError(
            FailureKind.TIMEOUT, f"the call was ended at its deadline of {request.deadline_seconds:g} seconds"
        )
    if isinstance(error, ProcessCancelledError):
        return ProviderError(FailureKind.CANCELLED, "the call was cancelled")
    if "cannot be started" in str(error):
        return ProviderError(FailureKind.CLIENT_MISSING, str(error))
    return ProviderError(FailureKind.PROTOCOL, str(error))
