"""AgentProfile and ClusterAgentProfile as the operator understands them.

crds/agentprofile.yaml and crds/clusteragentprofile.yaml are the authority on what each field means.
All fields may be missing: what a profile does not say is the task's to say.
"""

from collections.abc import Callable
from typing import Any, Final

from pydantic import Field

from orbiter_contracts.auth import Auth
from orbiter_contracts.notify import Sinks
from orbiter_operator.kube.models import (
    Agent,
    FileSource,
    Frozen,
    KubeModel,
    ProfileKind,
    SecretRef,
    read_model,
)

DEFAULT = "default"
"""The profile of the tasks of a namespace that name none, where there is one of this name.

The cluster's of this name is beneath all that name no other of the cluster's.
"""
NAMESPACED: Final = "AgentProfile"
CLUSTER: Final = "ClusterAgentProfile"


class ProfileAgent(KubeModel):
    """The fields of an `Agent`, none of them filled in."""

    type: str | None = None
    model: str | None = None
    max_turns: int | None = None
    max_cost_usd: float | None = Field(None, alias="maxCostUSD")
    auth: Auth | None = None
    credentials_secret_ref: SecretRef | None = None
    env: tuple[dict[str, Any], ...] = ()
    mcp_servers: tuple[dict[str, Any], ...] = ()
    instructions: dict[str, Any] | None = None
    skills: tuple[dict[str, Any], ...] = ()
    system_prompt: str | None = None
    file_from: FileSource | None = None

    def alone(self, otherwise: str) -> Agent:
        """The agent of a task that says nothing itself; of type `otherwise` if it names none."""
        said = {name: value for name, value in self if value is not None}
        return Agent(**{"type": otherwise} | said)


class ProfileSpec(KubeModel):
    """What agents of this profile are, and which of it a task may say itself."""

    agent: ProfileAgent = ProfileAgent()
    timeout_seconds: int | None = None
    notify: Sinks = ()
    pod_template: dict[str, Any] | None = None
    allow_overrides: tuple[str, ...] = ()

    def lets(self, field: str) -> bool:
        """Whether a task may say this field, although the profile does."""
        return field in self.allow_overrides or "*" in self.allow_overrides


Judge = Callable[[ProfileKind, ProfileSpec], str | None]
"""Says why no worker may be made of a profile of this kind."""


class Profile(Frozen):
    """One profile, as it is or was. `error` says why no task can use it.

    `base` is the ClusterAgentProfile that a namespace's profile is laid over for a task.
    """

    kind: ProfileKind = NAMESPACED
    name: str
    uid: str
    generation: int
    raw: dict[str, Any]
    spec: ProfileSpec
    error: str | None = None
    base: "Profile | None" = None

    @property
    def title(self) -> str:
        """Its kind and name."""
        return f"{self.kind} {self.name}"

    @property
    def problem(self) -> str | None:
        """Why no worker can be made of it, or of what it is laid over."""
        return self.error or (self.base.error if self.base else None)

    @property
    def fixed_template(self) -> dict[str, Any] | None:
        """The podTemplate of the cluster's profile, which may say more than a task's."""
        cluster = self.base if self.kind == NAMESPACED else self
        return cluster.spec.pod_template if cluster else None

    @classmethod
    def read(cls, meta: Any, raw: Any, judge: Judge, kind: ProfileKind = NAMESPACED) -> "Profile":
        """Read one, whoever has written it.

        Args:
            meta: Its metadata.
            raw: Its spec.
            judge: Asked about it once.
            kind: Whose it is.
        """
        raw = raw if isinstance(raw, dict) else {}
        spec, error = read_model(ProfileSpec, raw)
        return cls(
            kind=kind,
            name=meta["name"],
            uid=meta["uid"],
            generation=meta.get("generation", 1),
            raw=raw,
            spec=spec,
            error=error or judge(kind, spec),
        )
