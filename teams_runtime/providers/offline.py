"""With `TEAMS_RUNTIME_OFFLINE=1` nothing but the scripted provider and servers on this machine can be called."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from teams_runtime.shared.errors import FailureKind, ProviderError

VARIABLE = "TEAMS_RUNTIME_OFFLINE"


def check_offline(environment: Mapping[str, str], address: str | None) -> None:
    """Refuse a call that could leave this machine while it must not.

    Args:
        environment: the caller's environment, which says whether calls may leave.
        address: where the model is served; None is the vendor's own address.

    Raises:
        ProviderError: calls must not leave, and `address` is not on this machine (kind `bad_request`).
    """
    if environment.get(VARIABLE, "") in {"", "0"} or (address is not None and is_loopback(address)):
        return
    where = "the vendor's own address" if address is None else repr(address)
    raise ProviderError(
        FailureKind.BAD_REQUEST,
        f"{VARIABLE} is set, so only servers on this machine may be called, and this call goes to {where}",
        remedy=f"unset {VARIABLE}, or name a base_url on 127.0.0.1",
    )


def is_loopback(address: str) -> bool:
    """Return whether a web address is on this machine, told from its text: no name is looked up.

    >>> is_loopback("http://127.0.0.1:8080/v1"), is_loopback("http://127.0.0.1.example.org")
    (True, False)
    """
    try:
        host = urlsplit(address).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
