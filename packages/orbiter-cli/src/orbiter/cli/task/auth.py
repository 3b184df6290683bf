"""The way of a task's agent to its model, `spec.agent.auth`, on this machine."""

from pydantic import ValidationError

from orbiter.cli.task.manifest import Manifest
from orbiter.cli.ui.outcome import UsageError
from orbiter_contracts.auth import Auth, SecretKey

_NO_CLUSTER = (
    "spec.agent.auth.type is 'Bedrock', and the token for it is a cluster's; name a way that is "
    "here, too: APIKey, Gateway or OAuthToken"
)


def along_its_way(manifest: Manifest, own: dict[str, str]) -> dict[str, str]:
    """The environment in which the agent finds its model the way that the task says, and no other.

    Args:
        manifest: The task.
        own: Our environment; a token that is not in the file is looked for there by its variable.

    Raises:
        UsageError: The agent cannot go that way, or not here, or there is no token.
    """
    agent = manifest.spec["agent"]
    kind, keys = agent["type"], (agent.get("credentialsSecretRef") or {}).get("name")
    try:
        auth = Auth.model_validate(agent.get("auth") or {})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(("spec.agent.auth", *(str(part) for part in first["loc"])))
        raise UsageError(f"{where}: {first['msg']}") from None
    if problem := auth.problem(kind, keys, agent.get("model")):
        raise UsageError(problem)
    if auth.bedrock:
        raise UsageError(_NO_CLUSTER)
    others = auth.reserved(kind)
    found = {name: value for name, value in own.items() if name not in others}
    for name, value in auth.variables(kind, agent.get("model")).items():
        found[name] = (
            _token(manifest, value, own.get(name)) if isinstance(value, SecretKey) else value
        )
    return found


def _token(manifest: Manifest, source: SecretKey, own: str | None) -> str:
    kept = manifest.secrets.get(source.name, {}).get(source.key)
    token = kept if kept is not None else own
    if token is None:
        raise UsageError(
            f"spec.agent.auth: Secret {source.name} with key {source.key} is not in the file; add "
            "it behind a line with ---"
        )
    return token
