"""Compose the parts of the runtime from one config, and nothing else."""

from __future__ import annotations

import hashlib
import logging
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from teams_runtime.git.repository import Repository
from teams_runtime.processes.descendants import end_orphans
from teams_runtime.processes.pipes import GRACE_SECONDS, KILL_SECONDS
from teams_runtime.processes.supervisor import child_environment
from teams_runtime.providers.base import Provider
from teams_runtime.providers.building import build_provider
from teams_runtime.runtime.base_runtime import RoleRuntime
from teams_runtime.runtime.calls import RuntimeParts
from teams_runtime.runtime.research_runtime import ResearchRuntime
from teams_runtime.runtime.sessions import SessionBook
from teams_runtime.runtime.version_control_runtime import VersionControlRuntime
from teams_runtime.shared.errors import ConfigError, InputError
from teams_runtime.shared.models import REQUESTER, ROLES, TeamRuntimeConfig, workspace_path
from teams_runtime.shared.own_files import check_own_folders, read_plain_file
from teams_runtime.shared.paths import CONFIG_NAME, WorkspacePaths
from teams_runtime.store.history import WHOLE_BYTES
from teams_runtime.store.records import Record, RecordStore
from teams_runtime.telemetry.manifests import ManifestLog
from teams_runtime.workflows.orchestration.request_run import RequestRun, RunObserver, RunParts
from teams_runtime.workflows.orchestration.runner import only_runner
from teams_runtime.workflows.roles.texts import MAX_CHARTER_CHARACTERS, RoleTexts, load_texts

logger = logging.getLogger(__name__)

MAX_REQUEST_CHARACTERS = 200_000
"""How long scope and body of one request may be together; longer material belongs into a file of the repository."""

MAX_CHARTER_BYTES = 4 * MAX_CHARTER_CHARACTERS
"""The most bytes that so many characters take in UTF-8."""

RUNTIMES: Mapping[str, type[RoleRuntime]] = {"research": ResearchRuntime, "version_controller": VersionControlRuntime}
"""The roles whose turns are run by a runtime of their own; every other role has the base runtime."""


class TeamService:
    """Everything that one workspace needs to work requests, built once from its config.

    Args:
        paths: the workspace.
        config: its config.
        clock: gives the time now, with a time zone.
        new_id: gives a new unique text of at least four hex digits.
        environment: the caller's environment variables; children get the allowed part of them.

    Raises:
        UserError: a part cannot be built: no script for the scripted provider, a charter that cannot be read, a
            repository that cannot be worked on.
    """

    def __init__(
        self,
        paths: WorkspacePaths,
        config: TeamRuntimeConfig,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        environment: Mapping[str, str],
    ) -> None:
        self.paths, self.config = paths, config
        self._clock, self._new_id = clock, new_id
        self._tools = tool_environment(environment, config.repository.environment)
        check_own_folders(paths)
        self.store = RecordStore(paths, clock=clock, new_id=new_id)
        self.repository = Repository.open(workspace_path(paths.root, config.repository.path))
        self.manifests = ManifestLog(paths.telemetry, clock)
        parts = RuntimeParts(
            texts=role_texts(paths, config),
            manifests=self.manifests,
            config_sha256=hashlib.sha256(config.model_dump_json().encode()).hexdigest(),
            sessions=SessionBook(paths, config.sessions, config.sprint.id, clock),
            environment=self._tools,
            max_repairs=config.workflow.limits.repairs,
            max_retries=config.workflow.limits.retries,
        )
        providers: dict[str, Provider] = {
            name: build_provider(name, config.providers, paths, environment)
            for name in {config.role(role).provider for role in ROLES}
        }
        self.runtimes: Mapping[str, RoleRuntime] = {
            role: RUNTIMES.get(role, RoleRuntime)(
                role,
                role_config=config.role(role),
                provider=providers[config.role(role).provider],
                parts=parts,
                prompt_context_config=config.prompt_context,
            )
            for role in ROLES
        }

    def submit(self, scope: str, *, body: str = "", profile: str | None = None) -> Record:
        """File a request and return its record.

        Raises:
            InputError: the scope is empty, or scope and body are longer than `MAX_REQUEST_CHARACTERS` together.
        """
        check_request_text(scope, body)
        base = self.repository.head()
        return self.store.create(
            self._request_id(scope),
            scope=scope,
            body=body,
            requester=REQUESTER,
            params={"profile": profile or self.config.workflow.profile},
            sprint_id=self.config.sprint.id,
            base={"commit": base.commit, "branch": base.branch},
        )

    def answer(self, request_id: str, choice: str, text: str = "") -> Record:
        """Record a person's answer to the question that a request waits with, and return the record.

        Args:
            request_id: which request.
            choice: one of the question's choices.
            text: what the person says besides; the roles see it as the requester's newest word.

        Raises:
            InputError: the request does not wait, the choice is none of its question's, the text is too long, or the
                record is not sound.
            RecordConflictError: somebody else answered first.
        """
        self._check_sound(request_id)
        record = self.store.load(request_id)
        question = record.head["question"]
        if question is None:
            raise InputError(
                f"{request_id}: there is no question to answer, the request is {record.head.get('status')}"
            )
        if choice not in question["choices"]:
            choices = " or ".join(question["choices"])
            raise InputError(f"{request_id}: the answer must be {choices}, got {choice!r}")
        if len(text) > MAX_REQUEST_CHARACTERS:
            raise InputError(f"the text must be at most {MAX_REQUEST_CHARACTERS} characters, got {len(text)}")
        payload = {"role": REQUESTER, "status": "answered", "choice": choice, "text": text}
        event = self.store.new_event(
            "answered",
            actor=REQUESTER,
            summary=f"a person answered: {choice}",
            payload=payload | {"question_seq": question["seq"]},
        )
        return self.store.append(request_id, event, expected_seq=record.seq)

    def advance(self, request_id: str, observer: RunObserver) -> Record:
        """Work a request until it is done or waits for a person; return its record.

        Programs that an earlier, killed run of the request left behind are ended first.

        Raises:
            InputError: another process is working on the request, or its record is not sound.
        """
        parts = RunParts(
            paths=self.paths,
            config=self.config,
            store=self.store,
            runtimes=self.runtimes,
            repository=self.repository,
            environment=self._tools,
            clock=self._clock,
        )
        with only_runner(self.paths, request_id):
            self._check_sound(request_id)
            self._end_leftovers(request_id)
            return RequestRun(parts, request_id, observer).advance()

    def _check_sound(self, request_id: str) -> None:
        """Refuse to go on from a record that does not say what happened: whoever changed it by hand may be wrong.

        Of a long record only its end is looked at, as every append does; `verify` reads the rest, which takes seconds.

        Raises:
            InputError: it is another program's, or not sound.
            RecordError: it cannot be read.
        """
        record = self.store.load(request_id)
        if not record.native:
            raise InputError(f"{record.path}: another program made this record; it is read and shown, never worked on")
        short = record.path.stat().st_size <= WHOLE_BYTES
        problems = self.store.verify(request_id).problems if short else ()
        if problems:
            raise InputError(f"{record.path}: the record is not sound, so nothing goes on from it: {problems[0]}")

    def _end_leftovers(self, request_id: str) -> None:
        """End what a runner that was killed has left at work in the request's worktree, before somebody works there."""
        place = self.paths.worktree(request_id)
        if place.is_dir():
            ended = end_orphans(place, GRACE_SECONDS, KILL_SECONDS)
            if ended:
                logger.warning("%s: %d processes of a run that was killed were ended", request_id, ended)

    def _request_id(self, scope: str) -> str:
        return f"{self._clock():%Y%m%d-%H%M%S}-{_slug(scope)}-{self._new_id()[:4]}"


def _slug(scope: str) -> str:
    """Return the first words of a scope as part of an id.

    >>> _slug("Größe: splitting 10.00 between three people loses a cent")
    'groe-splitting-10-00'
    """
    plain = unicodedata.normalize("NFKD", scope[:200]).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain)
    return (("-".join(words) + "-")[:25].rpartition("-")[0] or "-".join(words)[:24]) or "request"


def check_request_text(scope: str, body: str) -> None:
    """Refuse a request that says nothing or too much.

    Raises:
        InputError: it does.
    """
    if not scope.strip():
        raise InputError("a request's scope must say what is wanted, got an empty text")
    size = len(scope) + len(body)
    if size > MAX_REQUEST_CHARACTERS:
        raise InputError(
            f"scope and body must be at most {MAX_REQUEST_CHARACTERS} characters together, got {size}; "
            "put longer material into a file of the repository and name it"
        )


def tool_environment(caller: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the variables that the tools of the roles and the verification command see; no key is among them.

    Args:
        caller: the caller's environment.
        names: what the config allows besides the usual ones (`repository.environment`).

    >>> tool_environment({"PATH": "/bin", "TEST_DSN": "x", "API_KEY": "secret"}, ["TEST_DSN"])
    {'PATH': '/bin', 'TEST_DSN': 'x', 'PYTHONDONTWRITEBYTECODE': '1'}
    """
    # Byte code beside the sources would be a change of the tree in a repository that does not ignore it.
    return child_environment(caller, names) | {"PYTHONDONTWRITEBYTECODE": "1"}


def role_texts(paths: WorkspacePaths, config: TeamRuntimeConfig) -> RoleTexts:
    """Return what the roles are told, with the workspace's own charters in place of the built-in ones.

    Raises:
        ConfigError: a charter file cannot be read as UTF-8 text.
    """
    overrides = {}
    for role in ROLES:
        charter = config.role(role).charter
        if charter is None:
            continue
        try:
            overrides[role] = read_plain_file(workspace_path(paths.root, charter), MAX_CHARTER_BYTES).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ConfigError([f"{CONFIG_NAME}: charter of {role}: {charter!r} must be readable: {reason}"]) from error
    return load_texts(overrides)
