"""The token by which a worker has a role of AWS, and what a spec may not say of its ways.

`orbiter_contracts.auth` says which ways there are, `agent` has their variables. The token is
mounted last of all and into the worker's container alone, so no template has a hold on it. Pure.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from orbiter_contracts.auth import TOKEN_AUDIENCE, TOKEN_DIR, TOKEN_PATH, TOKEN_SECONDS
from orbiter_contracts.bounds import one_line
from orbiter_contracts.environment import OF_AGENT_FIELDS
from orbiter_operator.kube.models import NO_NAME, Agent, is_object_name
from orbiter_operator.kube.names import WORKER, is_one_of

Object = dict[str, Any]
TOKEN_VOLUME: Final = "orbiter-aws-token"  # noqa: S105 - a volume's name
_SPEC: Final = "spec.podTemplate.spec"
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_SHOWN: Final = 200


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
    if problem := auth.problem(agent.type, keys.name if keys else None, agent.model):
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
        for variable in (item.get("name") for item in variables):
            if variable in reserved:
                why = f"which auth.type {auth.type} says for the agent; leave it out"
                yield _sentence(where, variable, why)
            elif is_one_of(variable, OF_AGENT_FIELDS):
                yield _sentence(where, variable, "which a field of spec.agent says; write that")
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
