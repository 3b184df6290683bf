"""What a worker's pod has of the way to its model: variables, a Secret's among them, and a token.

`orbiter_contracts.auth` says which ways there are. API keys are variables like others, which
`agent.env` may replace. Those of the other ways are set last and are nobody else's: who could
replace one would have the model asked in another's name. The token for AWS is mounted last of all
and into the worker's container alone, so no template of anybody has a hold on it. Pure.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from orbiter_contracts import AGENTS
from orbiter_contracts.auth import (
    TOKEN_AUDIENCE,
    TOKEN_DIR,
    TOKEN_PATH,
    TOKEN_SECONDS,
    SecretKey,
)
from orbiter_contracts.bounds import one_line
from orbiter_operator.kube.models import NO_NAME, Agent, is_object_name
from orbiter_operator.kube.names import WORKER

Object = dict[str, Any]
CREDENTIALS: Final = {name: agent.variables for name, agent in AGENTS.items()}
"""Keys of `agent.credentialsSecretRef` that become variables of the worker, by agent type."""
TOKEN_VOLUME: Final = "orbiter-aws-token"  # noqa: S105 - a volume's name
_SPEC: Final = "spec.podTemplate.spec"
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_SHOWN: Final = 200


def credentials(agent: Agent) -> list[Object]:
    """The variables that are keys of `credentialsSecretRef`."""
    secret = agent.credentials_secret_ref
    return [
        secret_variable(name, secret.name, name, optional=True)
        for name in (CREDENTIALS.get(agent.type, ()) if secret else ())
        if secret
    ]


def way_variables(agent: Agent) -> list[Object]:
    """The variables of any other way than that of API keys."""
    told = agent.auth.variables(agent.type, agent.model)
    return [
        secret_variable(name, value.name, value.key, optional=False)
        if isinstance(value, SecretKey)
        else {"name": name, "value": value}
        for name, value in told.items()
    ]


def secret_variable(name: str, secret: str, key: str, *, optional: bool) -> Object:
    """A variable whose value is in a Secret."""
    reference: Object = {"name": secret, "key": key, **({"optional": True} if optional else {})}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def from_secrets(agent: Agent, variables: list[Object], whole: list[Object]) -> list[str]:
    """Names of the variables that come from Secrets: the worker keeps their values out of outputs.

    Which ones `envFrom` brings is known to nobody here. Of those the agent sees its credentials.

    Args:
        agent: Whose container it is.
        variables: The container's, those that the operator sets among them.
        whole: Its `envFrom`.
    """
    sources = {item["name"]: item.get("valueFrom") or {} for item in variables}
    names = [name for name, source in sources.items() if "secretKeyRef" in source]
    if any("secretRef" in source for source in whole):
        names += [name for name in CREDENTIALS.get(agent.type, ()) if name not in sources]
    return names


def mount_token(spec: Object, agent: Agent) -> None:
    """The token that AWS takes and the API server does not, in nobody else's place.

    Args:
        spec: The pod's, as it will be otherwise; it is changed.
        agent: Who asks the model.
    """
    if agent.auth.bedrock is None:
        return
    token = {
        "audience": TOKEN_AUDIENCE,
        "expirationSeconds": TOKEN_SECONDS,
        "path": TOKEN_PATH,
    }
    others = [volume for volume in spec["volumes"] if volume["name"] != TOKEN_VOLUME]
    projected = {"sources": [{"serviceAccountToken": token}]}
    spec["volumes"] = [*others, {"name": TOKEN_VOLUME, "projected": projected}]
    mount = {"name": TOKEN_VOLUME, "mountPath": TOKEN_DIR, "readOnly": True}
    for container in spec["containers"]:
        if container["name"] == WORKER:
            given = container.get("volumeMounts") or ()
            mounts = [item for item in given if item["mountPath"] != TOKEN_DIR]
            container["volumeMounts"] = [*mounts, mount]


def role_error(agent: Agent, allowed: tuple[str, ...]) -> str | None:
    """Why nobody but the cluster's profile may say this role; None when anybody may.

    Args:
        agent: As an object or a namespace's profile says it itself.
        allowed: The roles that the chart lists.
    """
    bedrock = agent.auth.bedrock
    if bedrock is None or bedrock.role_arn in allowed:
        return None
    return (
        f"spec.agent.auth.bedrock.roleARN is {one_line(repr(bedrock.role_arn), _SHOWN)}, not one "
        "of the chart's workers.allowedAWSRoleARNs; name a ClusterAgentProfile that has it, or "
        "have the administrator add it there"
    )


def auth_problems(
    agent: Agent, overlay: Object, is_ours: Callable[[object], bool]
) -> Iterator[str]:
    """Why no worker can go this way to its model: field, value and what to do.

    Args:
        agent: The spec's, with what its profiles say.
        overlay: The spec's partial pod template, which can be merged.
        is_ours: Whether a Secret of this name is Orbiter's own.
    """
    auth, keys = agent.auth, agent.credentials_secret_ref
    if problem := auth.problem(agent.type, keys.name if keys else None):
        yield problem
        return
    if auth.secret:
        part = "gateway" if auth.gateway else "oauthToken"
        where = f"spec.agent.auth.{part}.tokenFrom.secretKeyRef.name"
        name = auth.secret.name
        if is_ours(name):
            yield _sentence(where, name, "a Secret of Orbiter itself; name one of your own")
        if not is_object_name(name):
            yield _sentence(where, name, f"which {NO_NAME}")
    reserved = auth.reserved(agent.type)
    worker = (item for item in overlay.get("spec", {}).get("containers") or ())
    own = {"spec.agent.env": agent.env}
    own |= {f"{_SPEC}.containers[{WORKER}].env": _env(c) for c in worker if c["name"] == WORKER}
    for where, variables in own.items():
        for item in variables:
            if item.get("name") in reserved:
                why = f"which auth.type {auth.type} says for the agent; leave it out"
                yield _sentence(where, item["name"], why)
    if auth.bedrock:
        yield from _token_volumes(overlay.get("spec") or {})


def _env(container: Object) -> tuple[Object, ...]:
    return tuple(container.get("env") or ())


def _token_volumes(pod: Object) -> Iterator[str]:
    """Where a spec names the token's volume: to have another there, or to mount it elsewhere."""
    named = [(f"{_SPEC}.volumes", item) for item in pod.get("volumes") or ()]
    for kind in _CONTAINERS:
        for container in pod.get(kind) or ():
            where = f"{_SPEC}.{kind}[{container['name']}].volumeMounts"
            mounts = container.get("volumeMounts")
            listed = mounts if isinstance(mounts, list) else ()
            named += [(where, item) for item in listed if isinstance(item, dict)]
    for where, item in named:
        if item.get("name") == TOKEN_VOLUME:
            why = "the volume of the worker's token for AWS; choose another name"
            yield _sentence(f"{where}[{TOKEN_VOLUME}].name", TOKEN_VOLUME, why)


def _sentence(where: str, value: object, why: str) -> str:
    return one_line(f"{where} is {one_line(repr(value), _SHOWN)}, {why}", 3 * _SHOWN)
