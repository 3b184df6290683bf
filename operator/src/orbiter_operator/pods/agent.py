"""What of a worker's pod is the agent's: variables, and volumes of its ConfigMaps. Pure."""

from collections.abc import Iterator
from typing import Any

from orbiter_contracts import AGENTS
from orbiter_contracts.agent_files import (
    INSTRUCTIONS,
    INSTRUCTIONS_FILE,
    SKILLS_DIR,
    agent_files_problem,
    read_agent_files,
)
from orbiter_contracts.auth import SecretKey
from orbiter_contracts.bounds import one_line
from orbiter_contracts.environment import agent_environment
from orbiter_contracts.mcp_servers import mcp_problem, secrets_of, told_of_mcp_servers
from orbiter_operator.kube.models import NO_NAME, Agent, is_object_name
from orbiter_operator.pods.git_skills import secrets_of_skills

Object = dict[str, Any]
WORKSPACE = "/workspace"
_FILE = ("agent", "/run/agent", "agent.yaml")
_INSTRUCTIONS = ("agent-instructions", "/run/agent-instructions", "instructions.md")
"""A volume, where it is mounted, and the file in it."""
SKILLS = "/run/agent-skills"
_SHOWN = 200
CREDENTIALS = {name: agent.variables for name, agent in AGENTS.items()}
"""Keys of `agent.credentialsSecretRef` that become variables of the worker, by agent type."""


def agent_variables(agent: Agent) -> list[Object]:
    """The variables, as a container has them, without `agent.env`, which is laid over them.

    Args:
        agent: Which agent; it has no `agent_problems`.
    """
    told = told_of_mcp_servers(agent.mcp_servers)
    files = read_agent_files(agent.instructions, agent.skills)
    values = agent_environment(
        agent.type,
        model=agent.model,
        max_turns=agent.max_turns,
        max_cost_usd=agent.max_cost_usd,
        system_prompt=agent.system_prompt,
        env=agent.env,
        passed=",".join(agent.auth.handed_on(agent.type)),
    ) | {
        "WORKSPACE_DIR": WORKSPACE,
        "HOME": "/home/agent",
        "TMPDIR": "/tmp",  # noqa: S108 - a mount of the pod's own
        **told.environment,
    }
    if agent.file_from:
        values["AGENT_FILE"] = "/".join(_FILE[1:])
    if files.instructions and files.instructions.text is not None:
        # Kubernetes would replace $(NAME).
        values[INSTRUCTIONS] = files.instructions.text.replace("$", "$$")
    elif files.instructions:
        values[INSTRUCTIONS_FILE] = "/".join(_INSTRUCTIONS[1:])
    if files.skills:
        values[SKILLS_DIR] = SKILLS
    variables: list[Object] = [{"name": name, "value": value} for name, value in values.items()]
    if secret := agent.credentials_secret_ref:
        variables += [
            secret_variable(name, secret.name, name, optional=True)
            for name in CREDENTIALS.get(agent.type, ())
        ]
    return variables + [
        secret_variable(name, kept.name, kept.key, optional=False)
        for name, kept in told.secrets.items()
    ]


def way_variables(agent: Agent) -> list[Object]:
    """The variables of any other way to the model than that of API keys.

    They are set last: who could replace one would have the model asked in another's name.
    """
    told = agent.auth.variables(agent.type, agent.model)
    return [
        secret_variable(name, value.name, value.key, optional=False)
        if isinstance(value, SecretKey)
        else {"name": name, "value": value}
        for name, value in told.items()
    ]


def agent_volumes(agent: Agent) -> list[tuple[Object, str]]:
    """Volumes of the agent's ConfigMaps, and where each is mounted.

    Each skill has one of its own: a projected volume puts what it has of several ConfigMaps into
    directories only where it is told their keys. Those of repositories are in `git_skills`.

    Args:
        agent: Which agent; it has no `agent_problems`.
    """
    files = read_agent_files(agent.instructions, agent.skills)
    single = (
        (_FILE, agent.file_from and agent.file_from.config_map_key_ref),
        (_INSTRUCTIONS, files.instructions and files.instructions.config_map_key_ref),
    )
    found: list[tuple[Object, str]] = []
    for (name, path, file), source in single:
        if source:
            items = [{"key": source.key, "path": file}]
            config: Object = {"name": source.name, "items": items}
            found.append(({"name": name, "configMap": config}, path))
    for skill in files.skills:
        if named := skill.config_map_ref:
            volume = {"name": f"agent-skill-{skill.name}", "configMap": {"name": named.name}}
            found.append((volume, f"{SKILLS}/{skill.name}"))
    return found


def agent_problems(agent: Agent) -> Iterator[str]:
    """Why no worker can be given what a spec says of its MCP servers, instructions and skills."""
    for why in (
        mcp_problem(agent.mcp_servers),
        agent_files_problem(agent.instructions, agent.skills),
    ):
        if why:
            yield f"spec.agent.{why}"
            return
    names = [*secrets_of(agent.mcp_servers), *secrets_of_skills(agent.skills)]
    files = read_agent_files(agent.instructions, agent.skills)
    if files.instructions and (source := files.instructions.config_map_key_ref):
        names.append(("instructions.configMapKeyRef.name", source.name))
    names += [
        (f"skills[{skill.name}].configMapRef.name", skill.config_map_ref.name)
        for skill in files.skills
        if skill.config_map_ref
    ]
    for where, name in names:
        if not is_object_name(name):
            shown = one_line(repr(name), _SHOWN)
            yield one_line(f"spec.agent.{where} is {shown}, which {NO_NAME}", 3 * _SHOWN)


def secret_variable(name: str, secret: str, key: str, *, optional: bool) -> Object:
    """A variable whose value is a key of a Secret."""
    reference: Object = {"name": secret, "key": key, **({"optional": True} if optional else {})}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}
