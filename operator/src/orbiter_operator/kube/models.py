"""What AgentTask and POSession have in common: agent, workspace, conditions, Events."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, ValidationError
from pydantic.alias_generators import to_camel

from orbiter_contracts.auth import Auth
from orbiter_contracts.bounds import MAX_SETUP_CHARACTERS, Moment, one_line

ConditionStatus = Literal["True", "False", "Unknown"]


def timestamp(moment: datetime) -> str:
    """Write a time as the API server reads it, in UTC and with milliseconds."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


Time = Annotated[Moment, PlainSerializer(timestamp, return_type=str)]
_MOST_CONDITIONS = 64


class KubeModel(BaseModel):
    """Base: frozen, camelCase outside and snake_case inside, unknown fields ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


_OBJECT_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)


def is_object_name(text: object) -> bool:
    """Whether a Secret, a ConfigMap or a claim may be called so; a path of the API may not."""
    return isinstance(text, str) and _OBJECT_NAME.fullmatch(text) is not None


def _object_name(text: str) -> str:
    if not is_object_name(text):
        raise ValueError(f"{one_line(text, 60)!r} {NO_NAME}")
    return text


NO_NAME = (
    "is no name of an object: write lower-case letters, digits, '-' and '.', beginning and ending "
    "with a letter or digit"
)
ObjectName = Annotated[str, AfterValidator(_object_name)]


class SecretRef(KubeModel):
    """Name of a Secret in the task's namespace. The operator never reads it."""

    name: ObjectName


class ConfigMapKey(KubeModel):
    """A key of a ConfigMap in the task's namespace."""

    name: ObjectName
    key: str


ProfileKind = Literal["AgentProfile", "ClusterAgentProfile"]


class ProfileRef(KubeModel):
    """Name of an AgentProfile in the task's namespace, or of one of the cluster's."""

    kind: ProfileKind = "AgentProfile"
    name: ObjectName


class FileSource(KubeModel):
    """Where the agent file of an Orbiter agent is."""

    config_map_key_ref: ConfigMapKey


class Agent(KubeModel):
    """Which agent works, and how. What is no value or model here stays as the API has it."""

    type: str = "claude"
    model: str | None = None
    max_turns: int | None = None
    max_cost_usd: float | None = Field(None, alias="maxCostUSD")
    auth: Auth = Auth()
    credentials_secret_ref: SecretRef | None = None
    env: tuple[dict[str, Any], ...] = ()
    mcp_servers: tuple[dict[str, Any], ...] = ()
    instructions: dict[str, Any] | None = None
    skills: tuple[dict[str, Any], ...] = ()
    system_prompt: str | None = None
    file_from: FileSource | None = None


class Git(KubeModel):
    """A repository to clone before the agent starts."""

    url: str
    ref: str | None = None
    branch: str | None = None
    push: Literal["Never", "Always"] = "Never"
    credentials_secret_ref: SecretRef | None = None


class Workspace(KubeModel):
    """The directory the agent works in. Volumes stay as the API has them."""

    git: Git | None = None
    persistent_volume_claim: dict[str, Any] | None = None
    empty_dir: dict[str, Any] | None = None
    setup: Annotated[str, Field(min_length=1, max_length=MAX_SETUP_CHARACTERS)] | None = None


class Condition(KubeModel):
    """One fact for programs."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""
    last_transition_time: Time
    observed_generation: int | None = None


class Frozen(BaseModel):
    """Base: frozen, so that it can be compared and never changes under a decision."""

    model_config = ConfigDict(frozen=True)


class Profiled(Frozen):
    """The profile of an object, as it is or was when its first attempt began.

    `reason` and `message` say why no attempt may begin with it yet. `raw` is its spec as the API
    has it: what is kept for the attempts that follow. `base` is the ClusterAgentProfile that a
    namespace's profile is laid over, where there is one.
    """

    name: str
    kind: ProfileKind = "AgentProfile"
    uid: str = ""
    generation: int = 0
    revision: str = ""
    raw: dict[str, Any] = {}
    base: "Profiled | None" = None
    reason: str | None = None
    message: str = ""

    @property
    def fixed_template(self) -> dict[str, Any] | None:
        """The podTemplate of the cluster's profile, which may say more than an object's own."""
        cluster = self.base if self.kind == "AgentProfile" else self
        return cluster.raw.get("podTemplate") if cluster else None


class ProfileBase(KubeModel):
    """The ClusterAgentProfile that a namespace's profile is laid over."""

    name: str
    generation: int


class ProfileStatus(KubeModel):
    """Which profile an object has, and where it is kept as it was."""

    kind: ProfileKind = "AgentProfile"
    name: str
    generation: int
    revision: str
    base: ProfileBase | None = None

    @classmethod
    def of(cls, used: Profiled) -> Self:
        """What is said of this one."""
        return cls.model_validate(used, from_attributes=True)


class Refusal(Frozen):
    """The API server would not create a Job or a Deployment.

    `holder` says whose the object is that has its name already.
    """

    status: int
    reason: str
    message: str
    holder: str = ""


NOT_SERVED = "NamespaceNotServed"
"""Reason of what waits until workers may run in its namespace."""
NOTHING_TO_RESUME = "NothingToResume"
"""Reason of a refusal that is ours: what a task was to go on with cannot be copied."""
REFUSED_RETRY_SECONDS = 15.0
"""After how long what was refused is tried again: a quota, a permission, a name in use may pass."""


class RefusedError(Exception):
    """The API server would not create a Job, for a reason that trying again does not mend."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Event(Frozen):
    """Post a Kubernetes Event. Two with the same reason, attempt and number are one."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str
    attempt: int
    number: int = 0


class Status(KubeModel):
    """What both kinds' status have: conditions, and a way to be written."""

    observed_generation: int | None = None
    conditions: Annotated[tuple[Condition, ...], Field(max_length=_MOST_CONDITIONS)] = ()

    def condition(self, kind: str) -> Condition | None:
        """The condition of one type, or None."""
        return next((item for item in self.conditions if item.type == kind), None)

    def next_condition(
        self,
        kind: str,
        status: ConditionStatus,
        reason: str,
        message: str,
        now: datetime,
        generation: int,
        *,
        anew: bool = False,
    ) -> Condition:
        """The condition that follows the one of its type: its time stays while its status does.

        Args:
            kind: Its type.
            status: Whether it holds.
            reason: One CamelCase word for programs.
            message: A sentence for people.
            now: When it changes, if it does.
            generation: That of the spec it is computed from.
            anew: Whether its time counts from now in any case.
        """
        old = self.condition(kind)
        keep = old is not None and old.status == status and not anew
        return Condition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=old.last_transition_time if old is not None and keep else now,
            observed_generation=generation,
        )

    def to_api(self) -> dict[str, Any]:
        """The dict the API server takes; fields without a value are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


M = TypeVar("M", bound=KubeModel)


def read_model(model: type[M], raw: Any) -> tuple[M, str | None]:
    """Read a spec; an empty one and why, when it cannot be read."""
    try:
        return model.model_validate(raw), None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return model(), f"spec.{where}: {first['msg']}"


S = TypeVar("S", bound=Status)


def read_status(model: type[S], raw: Any) -> S:
    """Read a status, whatever a tenant has written into it.

    A field that cannot be read counts as missing: what follows from that is made up for by what is
    known of Jobs, Pods and queues.
    """
    names = {field.alias for field in model.model_fields.values()}
    fields = {name: raw[name] for name in names & raw.keys()} if isinstance(raw, dict) else {}
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        wrong = {found["loc"][0] for found in error.errors(include_url=False, include_input=False)}
    return model.model_validate({name: fields[name] for name in fields.keys() - wrong})
