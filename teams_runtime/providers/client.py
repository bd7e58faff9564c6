"""What all agent clients share: where their program is, which variables they see, and a home of their own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from teams_runtime.processes.supervisor import child_environment
from teams_runtime.shared.errors import FailureKind, ProviderError

NETWORK_NAMES = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
)
"""The variables by which a client finds its way through a company's network; its tools do not get them."""
SESSION_DAYS = 30
"""How long the files of a client's conversations are kept in its home."""
_DAY_SECONDS = 86_400


def client_environment(tools: Mapping[str, str], caller: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the variables that a client may see: those of its tools, the way to the network, and `names`.

    Args:
        tools: the variables that the role's tools may see (`TurnRequest.environment`).
        caller: the caller's whole environment.
        names: what the client needs besides: its key, what the config allows.

    >>> client_environment({"PATH": "/bin"}, {"KEY": "secret", "OTHER_KEY": "secret"}, ["KEY"])
    {'PATH': '/bin', 'KEY': 'secret'}
    """
    wanted = {*NETWORK_NAMES, *names}
    return {**tools, **{name: value for name, value in caller.items() if name in wanted}}


def probe_environment(caller: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables for looking at a client outside of a turn."""
    return client_environment(child_environment(caller), caller, names)


def find_program(name: str, command: str | None, bundled: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the absolute path of a client's program: the configured one, else the extra's, else that on PATH.

    Args:
        name: the provider's name, which is its program's and its extra's too.
        command: what the config names: a path, or a name that is looked up on PATH; None where it names nothing.
        bundled: the program that the installed extra ships; None where it is not installed.
        environment: whose PATH is searched.

    Raises:
        ProviderError: there is none (kind `client_missing`).
    """
    path = environment.get("PATH", "")
    if command is not None:
        found = shutil.which(str(Path(command).expanduser()), path=path)
        if found is None:
            raise ProviderError(
                FailureKind.CLIENT_MISSING,
                f"providers.{name}.command must name a program that can be run, got {command!r}",
                remedy=f"correct providers.{name}.command in team_runtime.yaml",
            )
        return Path(found).absolute()
    if bundled is not None and bundled.is_file():
        return bundled.absolute()
    found = shutil.which(name, path=path)
    if found is None:
        raise ProviderError(
            FailureKind.CLIENT_MISSING,
            f"the {name} client is not installed",
            remedy=f"pip install 'teams-runtime[{name}]'",
        )
    return Path(found).absolute()


def prepare_home(home: Path, conversations: str) -> None:
    """Make a client's home, for its owner only, and remove the files of old conversations from it.

    Args:
        home: the folder.
        conversations: glob, relative to it, of the files that its conversations leave behind.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    oldest = time.time() - SESSION_DAYS * _DAY_SECONDS
    for file in home.glob(conversations):
        if file.is_file() and not file.is_symlink() and file.stat().st_mtime < oldest:
            file.unlink(missing_ok=True)
