"""The pod of a worker, as a dict. Pure: the same agent and settings always give the same template.

What makes a worker safe (no root, no capabilities, read-only root file system, no service account
token) is the default here; the user's template is laid over it, and the restricted Pod Security
Standard of the namespace and `rules` decide how far that may go. What identifies the worker is
set last.
"""

from typing import Any, NamedTuple

from orbiter_contracts import object_store
from orbiter_contracts.artifacts import RETENTION_SECONDS
from orbiter_contracts.environment import HANDOVER_DIR, SECRET_ENV
from orbiter_contracts.object_store import StoreAddress
from orbiter_operator.kube.models import Agent, Workspace
from orbiter_operator.kube.names import SESSION_SECRETS, WORKER
from orbiter_operator.pods import overlay as laid
from orbiter_operator.pods.agent import (
    CREDENTIALS,
    SKILLS,
    WORKSPACE,
    agent_variables,
    agent_volumes,
    secret_variable,
    way_variables,
)
from orbiter_operator.pods.auth import mount_token
from orbiter_operator.pods.git_containers import (
    HANDOVER_MOUNT,
    git_containers,
    git_environment,
    git_volumes,
)
from orbiter_operator.pods.git_skills import skill_mounts, skill_volumes
from orbiter_operator.pods.overlay import (
    merge,
    with_defaults,
    with_installations,
    with_tolerations,
)
from orbiter_operator.settings import Settings

Object = dict[str, Any]
DEVELOPER_KEY = "developer-url"
PO_KEY = "po-url"
"""Keys of the Redis Secret: each type of worker has a user of its own."""
_UID = 1000
IDENTITY = (
    *("REDIS_URL", "WORKER_ID", "WORKER_TYPE", "USER_ID", "SESSION_ID", "SNAPSHOT_KEY"),
    *("SESSION_RECORD_PREFIX", "SESSION_USERS", "KEY_PREFIX", "REDIS_SCRIPTS"),
    *("TASK_ENTRY_ID", "TASK_RECORD", "TASK_NAME", "TASK_ATTEMPT"),
    *("CHECKPOINT_SECONDS", "DISRUPTION_POLICY", "DISRUPTION_NOTE"),
    *(HANDOVER_DIR, *object_store.VARIABLES),
)
"""Variables that say who the worker is and which keys are its own: nobody else sets them."""


class WorkerDefaults(NamedTuple):
    """What the operator's settings say about every worker."""

    images: dict[str, str]
    pull_policy: str
    redis_secret: str
    service_account: str
    resources: Object
    grace_seconds: int
    job_ttl_seconds: int
    adopt_namespace: str = ""
    protected_secrets: tuple[str, ...] = ()
    allowed_service_accounts: tuple[str, ...] = ()
    allowed_roles: tuple[str, ...] = ()
    redis_ca_key: str = ""
    template_fields: tuple[str, ...] = ()
    priority_classes: tuple[str, ...] = ()
    queue_priority_classes: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()
    tolerations: tuple[Object, ...] = ()
    redis_functions: bool = False
    store: StoreAddress | None = None
    stores_transcripts: bool = False
    store_secret: str = object_store.SECRET
    artifact_seconds: int = RETENTION_SECONDS
    task_ttl_seconds: int | None = None
    pod_template: Object | None = None

    @classmethod
    def of(cls, settings: Settings) -> "WorkerDefaults":
        """What these settings say."""
        return cls(
            images=settings.worker_images,
            pull_policy=settings.worker_image_pull_policy,
            redis_secret=settings.redis_secret_name,
            redis_ca_key=settings.redis_ca_key,
            service_account=settings.worker_service_account,
            resources=settings.worker_resources,
            grace_seconds=settings.termination_grace_seconds,
            job_ttl_seconds=settings.job_ttl_seconds,
            adopt_namespace=settings.adopt_namespace,
            protected_secrets=settings.protected_secrets,
            allowed_service_accounts=settings.allowed_service_accounts,
            allowed_roles=settings.allowed_aws_role_arns,
            template_fields=settings.pod_template_fields,
            priority_classes=settings.priority_classes,
            queue_priority_classes=settings.queue_priority_classes,
            runtime_classes=settings.runtime_classes,
            tolerations=settings.tolerations,
            redis_functions=bool(settings.redis_master_key),
            store=settings.artifacts_store,
            stores_transcripts=settings.artifacts_transcripts,
            store_secret=settings.artifacts_secret_name,
            artifact_seconds=settings.artifacts_retention_seconds,
            task_ttl_seconds=settings.task_ttl_seconds,
            pod_template=settings.worker_pod_template,
        )

    @property
    def own_secrets(self) -> tuple[str, ...]:
        """Secrets of Orbiter itself, which no spec may name; `NAME*` are all that begin so."""
        own = (self.redis_secret, self.store_secret, f"{SESSION_SECRETS}*")
        return (*own, *self.protected_secrets)


def worker_template(
    agent: Agent,
    workspace: Workspace,
    overlay: Object,
    labels: dict[str, str],
    environment: dict[str, str],
    defaults: WorkerDefaults,
    *,
    redis_secret: tuple[str, str] | None = None,
    restart: str = "Never",
    artifacts: bool = False,
    transcript: tuple[str, ...] = (),
    fixed: Object | None = None,
) -> Object:
    """The pod template of a worker with the user's template laid over it.

    Args:
        agent: Which agent, and how.
        workspace: Where it works.
        overlay: Partial pod template of the user.
        labels: Labels the operator finds its pods by; they stay.
        environment: Variables that identify the worker; they stay.
        defaults: What is the same for all workers.
        redis_secret: Name and key of the Secret with the worker's Redis URL; None: the one that all
            developer workers share.
        restart: The pod's restartPolicy; it stays.
        artifacts: Whether it keeps some, and so needs to know of the store.
        transcript: Whose its transcript is, as `StoreAddress.transcript` takes it; () for nobody's.
        fixed: The podTemplate of the cluster's profile.

    Returns:
        A PodTemplateSpec whose container is named `worker`.
    """
    merged = lay_over(agent, workspace, overlay, defaults, fixed)
    merged["metadata"]["labels"] = (merged["metadata"].get("labels") or {}) | labels
    merged["spec"]["restartPolicy"] = restart
    merged["spec"]["tolerations"] = with_tolerations(merged["spec"].get("tolerations") or [])
    grace = str(merged["spec"].get("terminationGracePeriodSeconds", defaults.grace_seconds))
    told = environment | {"TERMINATION_GRACE_SECONDS": grace} | git_environment(workspace)
    if defaults.redis_functions:
        told["REDIS_SCRIPTS"] = "Functions"  # their users may not send any
    if transcript and defaults.store and defaults.stores_transcripts:
        told[object_store.TRANSCRIPT] = defaults.store.transcript(*transcript)
    if stores := artifacts or object_store.TRANSCRIPT in told:
        told |= object_store.environment(defaults.store, defaults.artifact_seconds)
    identity: list[Object] = [{"name": name, "value": value} for name, value in told.items()]
    identity += way_variables(agent)
    # Last, because a variable may contain those before it: `$(REDIS_URL)` in another's value.
    secret, key = redis_secret or (defaults.redis_secret, DEVELOPER_KEY)
    identity.append(secret_variable("REDIS_URL", secret, key, optional=False))
    for name, key in object_store.SECRET_KEYS.items() if stores and defaults.store else ():
        identity.append(secret_variable(name, defaults.store_secret, key, optional=True))
    for container in merged["spec"]["containers"]:
        if container["name"] == WORKER:
            container["env"] = _identified(agent, container, identity)
            if init := git_containers(agent, workspace, container):
                others = merged["spec"].get("initContainers") or []
                merged["spec"]["initContainers"] = [*others, *init]
    if defaults.redis_ca_key:
        laid.mount_redis_ca(merged["spec"], defaults.redis_secret, defaults.redis_ca_key)
    mount_token(merged["spec"], agent)
    return merged


def lay_over(
    agent: Agent,
    workspace: Workspace,
    overlay: Object,
    defaults: WorkerDefaults,
    fixed: Object | None = None,
) -> Object:
    """Over ours the installation's, that of the cluster's profile, the user's: nobody's yet."""
    base: Object = {
        "metadata": {"labels": {}},
        "spec": {
            "serviceAccountName": defaults.service_account,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": defaults.grace_seconds,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _UID,
                "runAsGroup": _UID,
                "fsGroup": _UID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(agent, workspace, defaults)],
            "volumes": _volumes(agent, workspace),
        },
    }
    merged: Object = merge(with_installations(base, defaults.pod_template, fixed), overlay)
    for container in merged["spec"].get("containers") or ():
        if container["name"] == WORKER:
            container["resources"] = with_defaults(container.get("resources"), defaults.resources)
    return merged


def _identified(agent: Agent, container: Object, identity: list[Object]) -> list[Object]:
    """The container's variables and behind them those that say who the worker is."""
    names = {item["name"] for item in identity} | {SECRET_ENV}
    kept = [item for item in container.get("env") or () if item["name"] not in names]
    secret = _from_secrets(agent, [*kept, *identity], container.get("envFrom") or [])
    if container.get("envFrom"):
        # What comes from a whole ConfigMap is not known here: empty means that it is not set.
        names |= {item["name"] for item in kept}
        kept += [{"name": name, "value": ""} for name in IDENTITY if name not in names]
    return [*kept, {"name": SECRET_ENV, "value": ",".join(secret)}, *identity]


def _from_secrets(agent: Agent, variables: list[Object], whole: list[Object]) -> list[str]:
    """Names of the variables that come from Secrets: the worker keeps their values out of outputs.

    Which ones `envFrom` brings is known to nobody here. Of those the agent sees its credentials.
    """
    sources = {item["name"]: item.get("valueFrom") or {} for item in variables}
    names = [name for name, source in sources.items() if "secretKeyRef" in source]
    if any("secretRef" in source for source in whole):
        names += [name for name in CREDENTIALS.get(agent.type, ()) if name not in sources]
    return names


def _container(agent: Agent, workspace: Workspace, defaults: WorkerDefaults) -> Object:
    mounts: list[Object] = [
        {"name": "home", "mountPath": "/home/agent"},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a mount of the pod's own
        {"name": "workspace", "mountPath": WORKSPACE},
    ]
    if workspace.git and workspace.git.credentials_secret_ref:
        mounts.append({**HANDOVER_MOUNT, "readOnly": True})
    for volume, path in agent_volumes(agent):
        mounts.append({"name": volume["name"], "mountPath": path, "readOnly": True})
    mounts += skill_mounts(agent.skills, SKILLS)
    return {
        "name": WORKER,
        "image": defaults.images[agent.type],
        "imagePullPolicy": defaults.pull_policy,
        "env": merge(agent_variables(agent), list(agent.env), "env"),
        "resources": defaults.resources,
        "volumeMounts": mounts,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _volumes(agent: Agent, workspace: Workspace) -> list[Object]:
    place: Object = {"name": "workspace", "emptyDir": workspace.empty_dir or {}}
    if workspace.persistent_volume_claim:
        place = {"name": "workspace", "persistentVolumeClaim": workspace.persistent_volume_claim}
    volumes: list[Object] = [{"name": name, "emptyDir": {}} for name in ("home", "tmp")]
    own = [volume for volume, _ in agent_volumes(agent)]
    return [*volumes, place, *git_volumes(workspace), *own, *skill_volumes(agent.skills)]
