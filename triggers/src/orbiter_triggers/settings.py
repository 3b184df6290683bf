"""Every setting of the program, in one validated place. Each field is `ORBITER_<NAME>`.

Those that the operator has too have its names, so that the chart says them once.
"""

import os
import socket
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from orbiter_triggers.command import PREFIX

_SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


def _own_identity() -> str:
    host = socket.gethostname()
    return host if os.environ.get("KUBERNETES_SERVICE_HOST") else f"{host}-{os.getpid()}"


def _own_namespace() -> str:
    try:
        with open(_SERVICE_ACCOUNT, encoding="utf-8") as file:  # noqa: PTH123 - start-up path
            return file.read().strip()
    except OSError:
        return "default"


class ReplicaSettings(BaseSettings):
    """What programs are told of which one replica is active."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    watch_namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Namespaces to serve, separated by commas; empty means the whole cluster"
    )
    lease_name: str = Field("orbiter-triggers", description="Lease that makes one replica active")
    lease_namespace: str = Field(
        default_factory=_own_namespace, description="Namespace of the Lease; the program's own"
    )
    lease_duration_seconds: int = Field(
        10, ge=3, description="Seconds a replica stays active without renewing the Lease"
    )
    lease_renew_seconds: float = Field(
        2.5, gt=0, description="Seconds between two renewals, and between two tries of a standby"
    )
    identity: str = Field(
        default_factory=_own_identity,
        description="This replica's name in the Lease; the pod's name",
    )
    resync_seconds: int = Field(
        600, ge=10, description="Seconds between two full comparisons with the cluster"
    )
    metrics_port: int = Field(9090, ge=0, le=65535, description="Port of /metrics; 0 picks one")
    health_port: int = Field(
        8080, ge=0, le=65535, description="Port of /healthz and /readyz; 0 picks one"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error"
    )

    @field_validator("watch_namespaces", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value


class Settings(ReplicaSettings):
    """What the controller is told by its environment."""

    redis_url: str = Field(
        "", description="Redis, for the events of webhooks; empty: none are received"
    )
    webhook_master_key: str = Field("", description="What the secrets of webhooks follow from")
    webhook_generation: int = Field(1, ge=1, description="Of these secrets")
    webhook_url: str = Field(
        "", description="Where the receiver is reached, for instance https://hooks.example.com"
    )
