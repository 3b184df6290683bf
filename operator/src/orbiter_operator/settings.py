"""Every knob of the operator, in one validated place.

`__main__` loads it once and hands the values on; no other module reads the environment. Each field
is the environment variable `ORBITER_<NAME>`; `orbiter-operator --help` prints this list.
"""

import os
import re
import socket
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from orbiter_contracts import AGENT_TYPES
from orbiter_contracts.artifacts import RETENTION_SECONDS
from orbiter_contracts.object_store import SECRET, StoreAddress
from orbiter_contracts.redis_url import read_redis_url

PREFIX = "ORBITER_"
_FIELD = re.compile(r"spec(\.[a-zA-Z]+(\[\]|\[worker\])?)+")
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


def _own_identity() -> str:
    host = socket.gethostname()
    return host if os.environ.get("KUBERNETES_SERVICE_HOST") else f"{host}-{os.getpid()}"


def _own_namespace() -> str:
    try:
        with open(_SERVICE_ACCOUNT, encoding="utf-8") as file:  # noqa: PTH123 - start-up path
            return file.read().strip()
    except OSError:
        return "default"


class Settings(BaseSettings):
    """What the operator is told by its environment."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    redis_url: str = Field(
        "redis://127.0.0.1:6379/0",
        description="Redis or Valkey of the queues, for instance redis://operator:PASSWORD@host:6379"
        "/0, or redis+sentinel://operator:PASSWORD@host1:26379,host2:26379/mymaster/0",
    )
    redis_master_key: str = Field(
        "",
        repr=False,
        description="What the passwords of the sessions' own Redis users follow from; the "
        "operator's user has to manage users. Empty: all sessions share the user of po-url",
    )
    redis_password_generation: int = Field(
        1,
        ge=1,
        description="One more makes all those passwords new; the ones before open until no worker "
        "has them",
    )
    redis_quota_bytes: int = Field(
        128 * 1024 * 1024,
        ge=0,
        description="Bytes in Redis beyond which who hands in a namespace's work may add no more, "
        "and beyond twice which its workers may not either; 0: no limit. Needs a master key",
    )
    key_prefixes: bool = Field(
        False,
        description="Whether each namespace but ORBITER_ADOPT_NAMESPACE has keys of its own in "
        "Redis, behind {NAMESPACE}:",
    )
    watch_namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Namespaces to serve, separated by commas; empty means the whole cluster"
    )
    max_concurrent_jobs: int = Field(
        20, ge=1, description="Jobs that may run at the same time in one namespace"
    )
    max_concurrent_jobs_by_namespace: dict[str, int] = Field(
        default_factory=dict, description='Other limits by namespace, as JSON: {"team-a": 5}'
    )
    worker_images: dict[str, str] = Field(
        default_factory=lambda: {"claude": "localhost/orbiter/worker-claude:dev"},
        description='Worker image by agent type, as JSON: {"claude": "registry/worker-claude:1"}',
    )
    worker_image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        "IfNotPresent", description="imagePullPolicy of workers"
    )
    redis_secret_name: str = Field(
        "orbiter-redis",
        description="Secret with developer-url, and with po-url where sessions share a user",
    )
    redis_ca_key: str = Field(
        "",
        description="Key of that Secret with the certificate of Redis' CA, which workers find as "
        "/etc/orbiter/redis/ca.crt; empty mounts none",
    )
    redis_ca_file: str = Field(
        "/etc/orbiter/redis/ca.crt",
        description="Where the operator finds that certificate, for the namespaces' Secrets",
    )
    worker_namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Namespaces that the chart has made ready for workers; the operator, when it "
        "manages users, puts the Secrets with their URLs there; commas between",
    )
    namespace_selector: str = Field(
        "",
        description="Label selector of further such namespaces, which the operator makes ready "
        "as a whole, for instance team=yes; empty: none",
    )
    namespace_objects: str = Field(
        "/etc/orbiter/namespace",
        description="Directory with the objects of such a namespace: namespace.json, and "
        "namespace-NAME.json for one that has its own",
    )
    former_redis_users: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Redis users that an earlier version of the chart has made; the operator ends "
        "them once nobody has them any more; commas between",
    )
    former_redis_secret: str = Field(
        "orbiter-redis",
        description="Secret with their URLs in ORBITER_WORKER_NAMESPACES, which goes with them",
    )
    former_redis_passwords: str = Field(
        "orbiter-redis-auth",
        description="Secret with their passwords, as NAME-password, in the Lease's namespace",
    )
    former_redis_quiet_seconds: int = Field(
        3600, ge=0, description="Seconds nobody has to have needed one of them before it ends"
    )
    worker_service_account: str = Field(
        "orbiter-worker", description="ServiceAccount of workers (no token is mounted)"
    )
    allowed_service_accounts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="ServiceAccounts a podTemplate may choose, with their tokens; commas between",
    )
    allowed_aws_role_arns: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Roles of AWS that a task may name in agent.auth.bedrock; commas between"
    )
    pod_template_fields: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="More fields a podTemplate may have, like spec.dnsConfig; commas between",
    )
    priority_classes: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="PriorityClasses a podTemplate may choose; commas between"
    )
    queue_priority_classes: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Kueue's WorkloadPriorityClasses a task may choose; commas between"
    )
    runtime_classes: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="RuntimeClasses a podTemplate may choose; commas between"
    )
    tolerations: tuple[dict[str, Any], ...] = Field(
        (), description='Tolerations a podTemplate may have, as JSON: [{"key": "gpu"}]'
    )
    protected_secrets: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="More Secrets no spec may name, commas between; NAME* means all that begin so",
    )
    worker_resources: dict[str, Any] = Field(
        default_factory=lambda: {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"memory": "2Gi"},
        },
        description="Resources of the worker's container, as JSON",
    )
    worker_pod_template: dict[str, Any] = Field(
        default_factory=dict, description="Partial pod template under every worker's, as JSON"
    )
    artifacts_store: StoreAddress | None = Field(
        None,
        description='S3-compatible store of artifacts, as JSON: {"endpoint": "https://s3.host", '
        '"bucket": "agents", "region": "us-east-1", "prefix": ""}; without one small ones are kept',
    )
    artifacts_insecure: bool = Field(
        False, validate_default=True, description="Whether its endpoint may be http://"
    )
    artifacts_transcripts: bool = Field(True, description="Whether whole transcripts go there")
    artifacts_secret_name: str = Field(
        SECRET, description="Secret of the tasks' namespaces with its access-key-id and secret key"
    )
    artifacts_retention_seconds: int = Field(
        RETENTION_SECONDS, ge=1, description="Seconds Redis keeps small artifacts"
    )
    adopt_namespace: str = Field(
        "", description="Where entries without a task become AgentTasks; empty leaves them alone"
    )
    adopt_agent: dict[str, Any] = Field(
        default_factory=lambda: {"type": "claude"},
        description="spec.agent of adopted AgentTasks, as JSON",
    )
    image_pull_timeout_seconds: int = Field(
        300, ge=1, description="Seconds an image may fail to be pulled before the attempt fails"
    )
    job_ttl_seconds: int = Field(3600, ge=0, description="Seconds that a finished Job is kept")
    task_ttl_seconds: int | None = Field(
        None, ge=0, description="Seconds that a finished task is kept that does not say it itself"
    )
    adopt_ttl_seconds: int | None = Field(None, ge=0, description="The same of adopted AgentTasks")
    termination_grace_seconds: int = Field(
        60, ge=10, description="Seconds between SIGTERM and SIGKILL of a worker"
    )
    resync_seconds: int = Field(
        600, ge=10, description="Seconds between two full comparisons with cluster and queues"
    )
    otlp_endpoint: str = Field(
        "",
        pattern=r"^(https?://[^\s?#]+)?$",
        description="OpenTelemetry collector that each task's trace is sent to, OTLP over HTTP, "
        "for instance http://collector.monitoring:4318; OTEL_EXPORTER_OTLP_HEADERS and its like "
        "count. Empty: no traces",
    )
    lease_name: str = Field("orbiter-operator", description="Lease that makes one replica active")
    lease_namespace: str = Field(
        default_factory=_own_namespace, description="Namespace of the Lease; the operator's own"
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
    metrics_port: int = Field(9090, ge=0, le=65535, description="Port of /metrics; 0 picks one")
    health_port: int = Field(
        8080, ge=0, le=65535, description="Port of /healthz and /readyz; 0 picks one"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error"
    )

    @field_validator(
        *("watch_namespaces", "worker_namespaces", "allowed_service_accounts", "protected_secrets"),
        *("pod_template_fields", "priority_classes", "runtime_classes", "former_redis_users"),
        *("queue_priority_classes", "allowed_aws_role_arns"),
        mode="before",
    )
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("pod_template_fields")
    @classmethod
    def _known_paths(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for path in value:
            if not _FIELD.fullmatch(path):
                raise ValueError(
                    f"{path!r} is no path of a podTemplate's field; write for instance "
                    "spec.dnsConfig, spec.volumes[].configMap or spec.containers[worker].ports"
                )
        return value

    @field_validator("worker_images")
    @classmethod
    def _known_images(cls, value: dict[str, str]) -> dict[str, str]:
        for kind in value:
            _refuse_unknown(kind)
        return value

    @field_validator("adopt_agent")
    @classmethod
    def _known_agent(cls, value: dict[str, Any]) -> dict[str, Any]:
        _refuse_unknown(value.get("type", AGENT_TYPES[0]))
        return value

    @field_validator("redis_url")
    @classmethod
    def _readable(cls, value: str) -> str:
        read_redis_url(value)
        return value

    @field_validator("artifacts_insecure")
    @classmethod
    def _wanted(cls, value: bool, info: ValidationInfo) -> bool:
        store = info.data.get("artifacts_store")
        if store is not None and store.insecure and not value:
            raise ValueError(f"{store.endpoint} has no TLS; use https://, or say true here")
        return value

    @cached_property
    def redis_address(self) -> str:
        """The Redis URL without user, password and options, for logs and status."""
        return read_redis_url(self.redis_url).shown

    def job_limit(self, namespace: str) -> int:
        """How many Jobs may run at the same time in `namespace`."""
        return self.max_concurrent_jobs_by_namespace.get(namespace, self.max_concurrent_jobs)


def _refuse_unknown(kind: object) -> None:
    if kind not in AGENT_TYPES:
        raise ValueError(f"unknown agent type {kind!r}; write one of {', '.join(AGENT_TYPES)}")
