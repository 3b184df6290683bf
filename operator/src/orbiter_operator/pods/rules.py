"""What a worker's pod may not have, whoever asks for it: Orbiter's own Secrets, or an identity.

First a podTemplate has to keep to its list (`allowlist`) and off the templates of the installation
and of the cluster's profile (`installation`). The chart may have lengthened the list, so then the
pod is looked at as it would be made, without what is the operator's or theirs. Most of it the API
server refuses before; here nothing gets through, whichever chart and resource definitions are
installed. Pure, and total: an overlay that makes no pod is explained too.
"""

import hashlib
from collections.abc import Iterator

import orjson

from orbiter_contracts.bounds import one_line
from orbiter_contracts.mcp_servers import secrets_of
from orbiter_operator.kube.models import NO_NAME, Agent, Workspace, is_object_name
from orbiter_operator.kube.names import RESERVED_LABELS, RESERVED_WHY, WORKER, is_one_of
from orbiter_operator.pods.agent import agent_problems
from orbiter_operator.pods.allowlist import template_error
from orbiter_operator.pods.auth import auth_problems
from orbiter_operator.pods.auth import role_error as role_error
from orbiter_operator.pods.git_containers import shared_volumes
from orbiter_operator.pods.git_skills import secrets_of_skills
from orbiter_operator.pods.installation import overrides
from orbiter_operator.pods.overlay import DEEPEST, MERGE_KEYS, every_field
from orbiter_operator.pods.template import IDENTITY, Object, WorkerDefaults, lay_over

_SHOWN = 200
_OVERLAY = "spec.podTemplate"
_HOST = ("hostPID", "shareProcessNamespace")
_COMMANDS = ("command", "args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
LONGEST_GRACE_SECONDS = 3600
"""A worker that was told to end has done so by then; until it has, its slot is taken."""
_LOADERS = ("LD_*", "GLIBC_TUNABLES", "GCONV_PATH", "OPENSSL_*", "SSLKEYLOGFILE")
"""Variables by which a program is given code, or told to write down its secrets, as it starts."""
_TOKENS = ("serviceAccountToken", "podCertificate")
_ALWAYS_LISTS = ("containers", "volumes")
_WORKERS_LISTS = ("env", "volumeMounts")  # a null would take away what the agent may cost
_REMEMBERED = 256
_judged: dict[bytes, tuple[WorkerDefaults, str | None]] = {}
"""The last verdicts: most tasks of a crowd differ in their prompts alone."""


def image_error(agent: Agent, images: dict[str, str]) -> str | None:
    """Why no worker can run this agent; None when there is an image."""
    if agent.type in images:
        return None
    known = ", ".join(sorted(images))
    return (
        f"no worker image for agent type {agent.type!r}; this operator has: {known} "
        "(ORBITER_WORKER_IMAGES)"
    )


def shape_error(overlay: Object) -> str | None:
    """Why a podTemplate can be laid over nothing, not over another one either; None when it can."""
    return next(_shape(overlay, _WORKERS_LISTS), None)


def pod_error(
    agent: Agent,
    workspace: Workspace,
    overlay: Object,
    defaults: WorkerDefaults,
    fixed: Object | None = None,
) -> str | None:
    """Why no pod may be made of a spec: the field, its value and what to do; None when one may.

    Args:
        agent: The spec's agent; there is an image for its type.
        workspace: Where it works.
        overlay: The spec's partial pod template.
        defaults: What the installation says about every worker.
        fixed: The podTemplate of the cluster's profile, in which no `fixed_error` was found.
    """
    about = _digest(agent, workspace, overlay, fixed)
    judged = _judged.get(about)
    if judged is None or judged[0] is not defaults:
        judged = defaults, _pod_error(agent, workspace, overlay, defaults, fixed)
        if about:
            _judged[about] = judged
        if len(_judged) > _REMEMBERED:
            del _judged[next(iter(_judged))]
    return judged[1]


def installation_error(defaults: WorkerDefaults) -> str | None:
    """Why no worker can have the installation's pod template, which may say more than a spec's."""
    found = next(_installation_errors(defaults.pod_template or {}, defaults), None)
    return found.replace(_OVERLAY, "workers.podTemplate.default") if found else None


def fixed_error(template: Object, defaults: WorkerDefaults) -> str | None:
    """Why no worker can have the podTemplate of a cluster's profile; it may say as much."""
    return next(_installation_errors(template, defaults, template), None)


def _installation_errors(
    template: Object, defaults: WorkerDefaults, fixed: Object | None = None
) -> Iterator[str]:
    for field in template.keys() - {"metadata", "spec"}:
        yield _sentence(
            f"{_OVERLAY}.{field}", template[field], "beside metadata and spec; no field"
        )
    yield from _shape(template)
    yield from _secrets_in(template.get("spec") or {}, defaults)
    agent = Agent(type=next(iter(defaults.images)))
    workspace = Workspace.model_validate(
        {"git": {"url": "https://example.com/r.git", "credentialsSecretRef": {"name": "any"}}}
    )
    pod: Object = lay_over(agent, workspace, {}, defaults, fixed)["spec"]
    yield from _worker(agent, pod)
    yield from (_sentence(*each) for each in shared_volumes(agent, workspace, pod))


def _digest(agent: Agent, workspace: Workspace, *templates: Object | None) -> bytes:
    """What a verdict is known again by; empty for what cannot be written as JSON."""
    try:
        said = orjson.dumps((agent.model_dump(), workspace.model_dump(), templates))
    except (TypeError, ValueError):
        return b""  # nested too deep, which the verdict will say
    return hashlib.sha256(said).digest()


def _pod_error(
    agent: Agent,
    workspace: Workspace,
    overlay: Object,
    defaults: WorkerDefaults,
    fixed: Object | None,
) -> str | None:
    problem = next(_named_secrets(agent, workspace, defaults), None)
    problem = problem or next(_no_names(agent, workspace), None) or shape_error(overlay)
    problem = problem or next(_secrets_in(overlay.get("spec") or {}, defaults), None)
    problem = problem or next(auth_problems(agent, overlay, lambda n: is_ours(n, defaults)), None)
    theirs = (_sentence(*each) for each in overrides(agent, overlay, defaults.pod_template, fixed))
    if problem := problem or template_error(overlay, defaults) or next(theirs, None):
        return problem
    # What the installation's own template and the cluster's profile have is not the spec's doing.
    pod = lay_over(agent, workspace, overlay, defaults._replace(pod_template=None))["spec"]
    trusted = pod.get("serviceAccountName") in defaults.allowed_service_accounts
    found = next(_account(pod, defaults, trusted=trusted), None) or next(_worker(agent, pod), None)
    shared = (_sentence(*each) for each in shared_volumes(agent, workspace, pod))
    return found or next(shared, None) or next(_everywhere(pod, defaults, trusted=trusted), None)


def _named_secrets(agent: Agent, workspace: Workspace, defaults: WorkerDefaults) -> Iterator[str]:
    """References to our Secrets in the spec's own fields."""
    for item in agent.env:
        reference = (item.get("valueFrom") or {}).get("secretKeyRef") or {}
        where = f"spec.agent.env[{item.get('name')}].valueFrom.secretKeyRef.name"
        if is_ours(reference.get("name"), defaults):
            yield _secret(where, reference["name"])
    for where, name in (*secrets_of(agent.mcp_servers), *secrets_of_skills(agent.skills)):
        if is_ours(name, defaults):
            yield _secret(f"spec.agent.{where}", name)
    if (secret := agent.credentials_secret_ref) and is_ours(secret.name, defaults):
        yield _secret("spec.agent.credentialsSecretRef.name", secret.name)
    git = workspace.git.credentials_secret_ref if workspace.git else None
    if git and is_ours(git.name, defaults):
        yield _secret("spec.workspace.git.credentialsSecretRef.name", git.name)


def _no_names(agent: Agent, workspace: Workspace) -> Iterator[str]:
    """Names in what stays as the API has it that no object can have."""
    for item in agent.env:
        for kind, source in (item.get("valueFrom") or {}).items():
            if isinstance(source, dict) and "name" in source and not is_object_name(source["name"]):
                where = f"spec.agent.env[{item.get('name')}].valueFrom.{kind}.name"
                yield _sentence(where, source["name"], f"which {NO_NAME}")
    yield from agent_problems(agent)
    claim = workspace.persistent_volume_claim
    if claim is not None and not is_object_name(claim.get("claimName")):
        where = "spec.workspace.persistentVolumeClaim.claimName"
        yield _sentence(where, claim.get("claimName"), f"which {NO_NAME}")


def is_ours(name: object, defaults: WorkerDefaults) -> bool:
    """Whether a Secret of this name is Orbiter's own."""
    return is_one_of(name, defaults.own_secrets)


def _secret(where: str, name: str) -> str:
    return _sentence(where, name, "a Secret of Orbiter itself; name one of your own")


def _sentence(where: str, value: object, why: str) -> str:
    return one_line(f"{where} is {one_line(repr(value), _SHOWN)}, {why}", 3 * _SHOWN)


def _shape(overlay: Object, of_worker: tuple[str, ...] = ()) -> Iterator[str]:
    """Why the overlay cannot be laid over anything; `of_worker` may not be null for the worker."""
    for name in ("metadata", "spec"):
        if not isinstance(overlay.get(name, {}), dict):
            yield _sentence(f"{_OVERLAY}.{name}", overlay[name], "not an object; write fields")
    if any(depth > DEEPEST for _, _, _, depth, _ in every_field(overlay, _OVERLAY)):
        yield f"{_OVERLAY} is nested deeper than {DEEPEST} levels; write it flatter"
    if not isinstance((overlay.get("metadata") or {}).get("labels") or {}, dict):
        yield f"{_OVERLAY}.metadata.labels is not an object; write fields"
        return
    for label, value in ((overlay.get("metadata") or {}).get("labels") or {}).items():
        if is_one_of(label, RESERVED_LABELS):
            yield _sentence(f"{_OVERLAY}.metadata.labels[{label}]", value, RESERVED_WHY)
    spec = overlay.get("spec") or {}
    yield from _lists(spec, f"{_OVERLAY}.spec", _ALWAYS_LISTS)
    for kind in ("containers", "initContainers"):
        for item in spec.get(kind) or ():
            always = of_worker if item["name"] == WORKER else ()
            yield from _lists(item, f"{_OVERLAY}.spec.{kind}[{item['name']}]", always)


def _lists(node: Object, path: str, always: tuple[str, ...]) -> Iterator[str]:
    """Lists that cannot be merged item by item; those of `always` may not be null either."""
    for key, merge_key in MERGE_KEYS.items():
        items = node.get(key)
        if items is None and not (key in always and key in node):
            continue
        if not isinstance(items, list) or not all(
            isinstance(item, dict) and isinstance(item.get(merge_key), str) for item in items
        ):
            yield _sentence(f"{path}.{key}", items, f"not a list of items with a {merge_key} each")


def _account(pod: Object, defaults: WorkerDefaults, *, trusted: bool) -> Iterator[str]:
    """A service account or a token that the installation has not allowed."""
    name, alias = pod.get("serviceAccountName"), pod.get("serviceAccount")
    if not trusted and name != defaults.service_account:
        yield _not_yours("serviceAccountName", name)
    if alias not in (None, name):
        yield _not_yours("serviceAccount", alias)
    if not trusted and pod.get("automountServiceAccountToken") is not False:
        yield _not_yours("automountServiceAccountToken", pod.get("automountServiceAccountToken"))


def _not_yours(field: str, value: object) -> str:
    return _sentence(
        f"{_OVERLAY}.spec.{field}",
        value,
        "not the spec's to choose; leave it out, or have the administrator add the service account "
        "to the chart's workers.allowedServiceAccountNames",
    )


def _worker(agent: Agent, pod: Object) -> Iterator[str]:
    """What would read or replace what the operator tells the worker."""
    for field in _HOST:
        if pod.get(field):
            why = "other containers would see the worker's processes; leave it out"
            yield _sentence(f"{_OVERLAY}.spec.{field}", pod[field], why)
    grace = pod.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and not 0 <= grace <= LONGEST_GRACE_SECONDS:
        where = f"{_OVERLAY}.spec.terminationGracePeriodSeconds"
        yield _sentence(where, grace, f"not from 0 to {LONGEST_GRACE_SECONDS}; write fewer seconds")
    for item in agent.env:
        yield from _variable(item.get("name"), "spec.agent.env")
    worker = next(item for item in pod["containers"] if item["name"] == WORKER)
    where = f"{_OVERLAY}.spec.containers[{WORKER}]"
    for field in _COMMANDS:
        if field in worker:
            why = "what the worker's container runs is not the spec's to choose; leave it out"
            yield _sentence(f"{where}.{field}", worker[field], why)
    for item in worker.get("env") or ():
        yield from _variable(item["name"], f"{where}.env")
    for item in worker.get("volumeMounts") or ():
        if "REDIS_URL" in str(item.get("subPathExpr")):
            why = "which would show the worker's password; leave REDIS_URL out"
            path = f"{where}.volumeMounts[{item['mountPath']}].subPathExpr"
            yield _sentence(path, item["subPathExpr"], why)


def _variable(name: object, where: str) -> Iterator[str]:
    """Why the worker, which has the queue's password, may not have a variable."""
    if name in IDENTITY:
        yield _sentence(where, name, "set by Orbiter; choose another name")
    if is_one_of(name, _LOADERS):
        why = "by which the worker would run what is not its own; set it in the agent's commands"
        yield _sentence(where, name, why)


def _secrets_in(pod: Object, defaults: WorkerDefaults) -> Iterator[str]:
    """References to our Secrets, in whatever part of a pod."""
    for path, key, value, _, secret in every_field(pod, f"{_OVERLAY}.spec"):
        names_a_secret = "secret" in key.lower() or (secret and key == "name")
        if names_a_secret and is_ours(value, defaults):
            yield _secret(path, str(value))


def _everywhere(pod: Object, defaults: WorkerDefaults, *, trusted: bool) -> Iterator[str]:
    """References to our Secrets, tokens and the node's files, in whatever part of the pod."""
    yield from _secrets_in(pod, defaults)
    for path, key, value, _, _ in every_field(pod, f"{_OVERLAY}.spec"):
        if key in _TOKENS and value is not None and not trusted:
            why = (
                "a token, which a worker does not get; leave it out, or use a service account of "
                "the chart's workers.allowedServiceAccountNames"
            )
            yield _sentence(path, value, why)
        if key == "hostPath" and value is not None:
            yield _sentence(path, value, "files of the node; use another kind of volume")
