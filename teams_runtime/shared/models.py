"""The values that the parts hand to each other: the config tree, built once and never changed."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

ROLES = ("research", "planner", "designer", "architect", "developer", "qa", "version_controller")
"""Every role of the team, in the order in which a request first meets them."""

REQUESTER = "requester"
"""The role that a human's word counts for, so that the newest one always survives in prompts."""

WRITING_ROLES = ("developer",)
"""The roles that change files of the worktree; the others only read."""

Role = Literal["research", "planner", "designer", "architect", "developer", "qa", "version_controller"]
Profile = Literal["full", "lean"]
ProviderName = Literal["scripted", "codex", "claude", "acp", "api"]
ApiVendor = Literal["openai", "anthropic", "google", "compatible"]
SessionScope = Literal["turn", "request", "sprint"]
RULE = "rule"
"""Type of the pydantic errors whose message is one of this module's own sentences."""

MAX_TIMEOUT_SECONDS = 604_800
"""Seven days; no single call or command may be given longer."""


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise PydanticCustomError(RULE, "must hold no NUL character")
    return value


def _printable(value: str) -> str:
    if not value.isprintable():
        raise PydanticCustomError(RULE, "must hold only printable characters")
    return value


def stays_inside(value: str) -> bool:
    """Return whether a relative path stays in its folder, read as text only: no link is followed.

    >>> stays_inside("charters/qa.md"), stays_inside("../qa.md"), stays_inside("/qa.md")
    (True, False, False)
    """
    path = PurePosixPath(value)
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return False
    return not path.is_absolute()


def _in_workspace(value: str) -> str:
    if not stays_inside(value):
        raise PydanticCustomError(RULE, "must be a relative path that stays in the workspace")
    return value


def _in_repository(value: str) -> str:
    if not stays_inside(value) or ".git" in PurePosixPath(value.casefold()).parts:
        raise PydanticCustomError(RULE, "must be a relative path that stays in the repository and out of .git")
    return value


def _variable_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value, re.ASCII):
        raise PydanticCustomError(RULE, "must be the name of an environment variable")
    return value


def _web_address(value: str) -> str:
    try:
        address = urlsplit(value)
        odd = address.port == 0 or address.username is not None or address.query or address.fragment
    except ValueError:
        odd, address = True, urlsplit("")
    if odd or address.scheme not in {"http", "https"} or not address.hostname or not value.isprintable():
        raise PydanticCustomError(RULE, "must be an http or https address without user, query and fragment")
    return value


NonEmptyText = Annotated[str, Field(min_length=1), AfterValidator(_without_nul)]
ShortName = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_printable)]
WorkspaceFile = Annotated[NonEmptyText, AfterValidator(_in_workspace)]
RepositoryPath = Annotated[NonEmptyText, AfterValidator(_in_repository)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
VariableName = Annotated[str, AfterValidator(_variable_name)]
Seconds = Annotated[float, Field(gt=0, le=MAX_TIMEOUT_SECONDS)]


class Value(BaseModel):
    """A frozen, strict value: no coercion, no unknown key; the sentence under a field is its description."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class PromptContextRuntimeConfig(Value):
    """How a request's events are projected into prompts.

    Raises:
        pydantic.ValidationError: a value is of the wrong type (a bool is no integer), not positive, or
            `max_events` is less than `recent_events`.
    """

    enabled: bool = True
    """Whether prompts show a projection; false shows every event in every prompt."""
    recent_events: PositiveInt = 8
    """How many of the newest events a compacted prompt always shows."""
    max_events: Annotated[PositiveInt, Field(validate_default=True)] = 16
    """How many events a compacted prompt shows at most; a history of no more events is shown whole."""

    @field_validator("enabled", mode="before")
    @classmethod
    def _boolean(cls, value: Any) -> Any:
        if type(value) is not bool:
            raise PydanticCustomError(RULE, "prompt_context.enabled must be a boolean")
        return value

    @field_validator("recent_events", "max_events", mode="before")
    @classmethod
    def _positive_integer(cls, value: Any, info: ValidationInfo) -> Any:
        if type(value) is not int or value <= 0:
            raise PydanticCustomError(RULE, f"prompt_context.{info.field_name} must be a positive integer")
        return value

    @field_validator("max_events")
    @classmethod
    def _room_for_the_tail(cls, value: int, info: ValidationInfo) -> int:
        tail = info.data.get("recent_events", value)  # absent when it has an error of its own
        if value < tail:
            raise PydanticCustomError(
                RULE,
                "prompt_context.max_events must be greater than or equal to recent_events",
                {"other": "recent_events", "other_value": tail},
            )
        return value


class SessionsConfig(Value):
    """How long a provider's conversation with a role lasts."""

    scope: SessionScope = "turn"
    """`turn` starts afresh for every turn, `request` for every request, `sprint` for every sprint."""
    max_turns: PositiveInt | None = None
    """Turns after which a conversation is left for a fresh one; null is no bound."""
    max_input_tokens: PositiveInt | None = None
    """Input tokens, as counted by the provider over all its calls, after which it is left; null is no bound."""


class SprintConfig(Value):
    """The sprint that the team is in."""

    id: ShortName = "sprint-1"
    """Name of the current sprint."""


class LimitsConfig(Value):
    """Hard limits that no role's answer can pass; a limit reached makes the request wait for a person."""

    reviews: PositiveInt = 3
    """How many times one request may be reviewed."""
    reopens: PositiveInt = 3
    """How many times roles may send one request back to an earlier step."""
    advice: PositiveInt = 2
    """How many advice steps one request may take."""
    repairs: Annotated[int, Field(ge=0, le=2)] = 2
    """How many times one turn's answer may be sent back for repair."""
    retries: Annotated[int, Field(ge=0, le=10)] = 3
    """How many times one call is made again after a failure that may pass, such as a rate limit."""


class BudgetsConfig(Value):
    """What one request may spend; null is no bound. A budget spent makes the request wait for a person."""

    turns: PositiveInt | None = 40
    """Turns of all roles together."""
    calls: PositiveInt | None = 120
    """Physical provider calls, repairs included."""
    tokens: PositiveInt | None = None
    """Input plus output tokens, as counted by the providers; calls whose count is unknown add nothing."""
    cost_usd: PositiveFloat | None = None
    """US dollars, as told by the providers; calls whose cost is unknown add nothing."""
    minutes: PositiveFloat | None = 240.0
    """Minutes of work: the sum of the durations of the turns, without the time spent waiting for people."""


class WorkflowConfig(Value):
    """Which steps a request takes and how far it may go."""

    profile: Profile = "full"
    """`full` has every role; `lean` is plan, build, qa, version_control."""
    limits: LimitsConfig = LimitsConfig()
    """Hard limits on the loops of one request."""
    budgets: BudgetsConfig = BudgetsConfig()
    """What one request may spend."""


class RoleConfig(Value):
    """Who answers for a role."""

    provider: ProviderName = "scripted"
    """Name of the provider that answers; `scripted` replays a script file."""
    model: Annotated[NonEmptyText | None, Field(validate_default=True)] = None
    """Model name, as the provider spells it; null is the provider's default. With `api` it is `VENDOR:MODEL`."""
    reasoning: Literal["low", "medium", "high"] | None = None
    """Reasoning effort, for providers that take one."""
    timeout_seconds: Seconds = 1800.0
    """Seconds after which one call of this role is ended, together with all its processes."""
    charter: WorkspaceFile | None = None
    """Markdown file, relative to the workspace, that replaces the role's built-in charter."""

    @field_validator("model")
    @classmethod
    def _names_a_vendor(cls, value: str | None, info: ValidationInfo) -> str | None:
        vendor, _, model = (value or "").partition(":")
        if info.data.get("provider") == "api" and (vendor not in get_args(ApiVendor) or not model):
            vendors = ", ".join(get_args(ApiVendor))
            raise PydanticCustomError(
                RULE, f"must be VENDOR:MODEL for the provider 'api', with one of the vendors {vendors}"
            )
        return value


class ScriptedProviderConfig(Value):
    """The provider that needs no account: it replays answers, and edits, from a file."""

    script: WorkspaceFile | None = None
    """Script file (YAML or JSON), relative to the workspace; required by the first turn that is scripted."""


class ClientConfig(Value):
    """An agent client that is installed on this machine."""

    command: NonEmptyText | None = None
    """The client's program; null takes that of the installed extra, else the one on PATH."""
    base_url: WebAddress | None = None
    """Where the model is served; null is the vendor's own address."""
    environment: Annotated[tuple[VariableName, ...], Field(strict=False)] = ()
    """Names of further variables that the client may see, but not the tools that it runs."""
    network: bool = False
    """Whether the tools of a role may reach the network."""
    allow_unsandboxed: bool = False
    """Whether roles that write may run where the client's sandbox does not work."""


class CodexProviderConfig(ClientConfig):
    """The Codex client."""

    api_key_env: VariableName = "OPENAI_API_KEY"
    """Name of the variable that holds the key; where it is not set, the client's own login counts."""
    mode: Literal["auto", "app-server", "exec"] = "auto"
    """How the client is talked with; `auto` is app-server, else exec."""


class ClaudeProviderConfig(ClientConfig):
    """The Claude Code client."""

    api_key_env: VariableName = "ANTHROPIC_API_KEY"
    """Name of the variable that holds the key; where it is not set, the client's own login counts."""


class AcpProviderConfig(Value):
    """Any agent that speaks the Agent Client Protocol."""

    command: Annotated[tuple[NonEmptyText, ...], Field(strict=False)] = ()
    """Program and arguments that start the agent; required by roles that use it."""
    environment: Annotated[tuple[VariableName, ...], Field(strict=False)] = ()
    """Names of the variables that the agent may see: its key and its addresses."""
    allow_unsandboxed: bool = False
    """Whether roles that write may use it: nothing but the agent itself keeps it inside the worktree."""


class ApiVendorConfig(Value):
    """One vendor of API models."""

    base_url: WebAddress | None = None
    """Where the model is served; null is the vendor's own address."""
    api_key_env: VariableName | None = None
    """Name of the variable that holds the key; null sends none."""


class ApiProviderConfig(Value):
    """Models behind an API, for roles that only read."""

    openai: ApiVendorConfig = ApiVendorConfig(api_key_env="OPENAI_API_KEY")
    """OpenAI."""
    anthropic: ApiVendorConfig = ApiVendorConfig(api_key_env="ANTHROPIC_API_KEY")
    """Anthropic."""
    google: ApiVendorConfig = ApiVendorConfig(api_key_env="GEMINI_API_KEY")
    """Google."""
    compatible: ApiVendorConfig = ApiVendorConfig()
    """Any server that speaks OpenAI's chat API, such as Ollama or vLLM; it needs a base_url."""
    tool_calls: PositiveInt = 40
    """How many times a role may read the repository in one call."""


class ProvidersConfig(Value):
    """Settings of each provider."""

    scripted: ScriptedProviderConfig = ScriptedProviderConfig()
    """Settings of the scripted provider."""
    codex: CodexProviderConfig = CodexProviderConfig()
    """Settings of the Codex client."""
    claude: ClaudeProviderConfig = ClaudeProviderConfig()
    """Settings of the Claude Code client."""
    acp: AcpProviderConfig = AcpProviderConfig()
    """Settings of the agent that speaks the Agent Client Protocol."""
    api: ApiProviderConfig = ApiProviderConfig()
    """Settings of the API models."""


class RepositoryConfig(Value):
    """The git repository that the team works on."""

    path: NonEmptyText = "."
    """Folder of the repository, relative to the workspace."""
    owned_paths: Annotated[tuple[RepositoryPath, ...], Field(min_length=1, strict=False)] = (".",)
    """Literal paths, relative to the repository, that the team may change; nothing else is ever committed."""
    verification_command: Annotated[tuple[NonEmptyText, ...], Field(strict=False)] = ()
    """Program and arguments that test the repository, run in the worktree before each QA turn; empty runs nothing."""
    verification_timeout_seconds: Seconds = 600.0
    """Seconds after which the verification command is ended and counts as failed."""
    environment: Annotated[tuple[VariableName, ...], Field(strict=False)] = ()
    """Names of further variables that the verification command and the tools of the roles may see."""


class VersionControlConfig(Value):
    """How commits are made."""

    allow_hooks: bool = False
    """Whether the repository's own commit hooks may run."""
    allow_signing: bool = False
    """Whether commits are signed when the repository's git config asks for it."""


def _check_role(role: str, config: RoleConfig, providers: ProvidersConfig, place: tuple[str, ...]) -> None:
    """Refuse a provider that cannot serve a role; `place` is where the role's config stands."""
    told = None
    if config.provider == "api" and role in WRITING_ROLES:
        told = f"must be a provider that works in files (scripted, codex, claude or acp) for the {role}, who writes"
    elif config.provider == "api" and str(config.model).startswith("compatible:"):
        if providers.api.compatible.base_url is None:
            told = "needs providers.api.compatible.base_url while a model is named compatible:..."
    elif config.provider == "acp" and not providers.acp.command:
        told = "needs providers.acp.command, the program that starts the agent"
    elif config.provider == "acp" and role in WRITING_ROLES and not providers.acp.allow_unsandboxed:
        told = (
            f"needs providers.acp.allow_unsandboxed: true for the {role}, who writes, as such an agent has no sandbox"
        )
    if told is not None:
        raise PydanticCustomError(RULE, told, {"at": (*place, "provider"), "got": config.provider})


class TeamRuntimeConfig(Value):
    """Everything in `team_runtime.yaml`; every section may be left out."""

    sprint: SprintConfig = SprintConfig()
    """The sprint that the team is in."""
    sessions: SessionsConfig = SessionsConfig()
    """How long a provider's conversation with a role lasts."""
    prompt_context: PromptContextRuntimeConfig = PromptContextRuntimeConfig()
    """How a request's events are projected into prompts."""
    workflow: WorkflowConfig = WorkflowConfig()
    """Steps, limits and budgets."""
    default_role: RoleConfig = RoleConfig()
    """Who answers for every role that `roles` does not name."""
    roles: dict[Role, RoleConfig] = Field(default_factory=dict)
    """Who answers for one role; a role named here takes nothing from `default_role`."""
    providers: Annotated[ProvidersConfig, Field(validate_default=True)] = ProvidersConfig()
    """Settings of each provider."""
    repository: RepositoryConfig = RepositoryConfig()
    """The git repository that the team works on."""
    version_control: VersionControlConfig = VersionControlConfig()
    """How commits are made."""

    @field_validator("providers")
    @classmethod
    def _serve_their_roles(cls, value: ProvidersConfig, info: ValidationInfo) -> ProvidersConfig:
        default, roles = info.data.get("default_role"), info.data.get("roles")
        if default is None or roles is None:  # they have errors of their own
            return value
        for role in ROLES:
            place = ("roles", role) if role in roles else ("default_role",)
            _check_role(role, roles.get(role, default), value, place)
        return value

    def role(self, role: str) -> RoleConfig:
        """Return who answers for `role`: its own entry, else the default."""
        return self.roles.get(role, self.default_role)  # type: ignore[call-overload, no-any-return]


class ArtifactRef(Value):
    """Where bulky material lies, named by an event instead of being carried by it."""

    path: str
    """Path relative to the workspace."""
    sha256: str
    """Hex digest of the file."""
    bytes: int
    """Size of the file in bytes."""


def workspace_path(root: Path, relative: str) -> Path:
    """Return a config path below the workspace folder, made absolute."""
    return Path(os.path.realpath(root / relative))  # a loop of links is told by whoever opens it
