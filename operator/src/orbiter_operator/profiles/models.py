"""AgentProfile as the operator understands it.

crds/agentprofile.yaml is the authority on what each field means. All fields may be missing: what a
profile does not say is the task's to say.
"""

from collections.abc import Callable
from typing import Any

from pydantic import Field

from orbiter_operator.kube.models import (
    Agent,
    FileSource,
    Frozen,
    KubeModel,
    SecretRef,
    read_model,
)

DEFAULT = "default"
"""The profile of the tasks of a namespace that name none, where there is one of this name."""


class ProfileAgent(KubeModel):
    """The fields of an `Agent`, none of them filled in."""

    type: str | None = None
    model: str | None = None
    max_turns: int | None = None
    max_cost_usd: float | None = Field(None, alias="maxCostUSD")
    credentials_secret_ref: SecretRef | None = None
    env: tuple[dict[str, Any], ...] = ()
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
    pod_template: dict[str, Any] | None = None
    allow_overrides: tuple[str, ...] = ()

    def lets(self, field: str) -> bool:
        """Whether a task may say this field, although the profile does."""
        return field in self.allow_overrides or "*" in self.allow_overrides


Judge = Callable[[ProfileSpec], str | None]
"""Says why no worker may be made of a profile."""


class Profile(Frozen):
    """One AgentProfile, as it is or was. `error` says why no task can use it."""

    name: str
    uid: str
    generation: int
    raw: dict[str, Any]
    spec: ProfileSpec
    error: str | None = None

    @classmethod
    def read(cls, meta: Any, raw: Any, judge: Judge) -> "Profile":
        """Read one, whoever has written it.

        Args:
            meta: Its metadata.
            raw: Its spec.
            judge: Asked about it once.
        """
        raw = raw if isinstance(raw, dict) else {}
        spec, error = read_model(ProfileSpec, raw)
        return cls(
            name=meta["name"],
            uid=meta["uid"],
            generation=meta.get("generation", 1),
            raw=raw,
            spec=spec,
            error=error or judge(spec),
        )
