"""The variables of a worker that say which agent works, how, and with what. Pure."""

from typing import Any

from orbiter_contracts import AGENTS
from orbiter_contracts.environment import agent_environment
from orbiter_contracts.mcp_servers import told_of_mcp_servers
from orbiter_operator.kube.models import Agent

Object = dict[str, Any]
WORKSPACE = "/workspace"
AGENT_DIR = "/run/agent"
AGENT_FILE = "agent.yaml"
CREDENTIALS = {name: agent.variables for name, agent in AGENTS.items()}
"""Keys of `agent.credentialsSecretRef` that become variables of the worker, by agent type."""


def agent_variables(agent: Agent) -> list[Object]:
    """The variables, as a container has them, without `agent.env`, which is laid over them.

    Args:
        agent: Which agent; its MCP servers are ones without an `mcp_problem`.
    """
    told = told_of_mcp_servers(agent.mcp_servers)
    values = agent_environment(
        agent.type,
        model=agent.model,
        max_turns=agent.max_turns,
        max_cost_usd=agent.max_cost_usd,
        system_prompt=agent.system_prompt,
        env=agent.env,
    ) | {
        "WORKSPACE_DIR": WORKSPACE,
        "HOME": "/home/agent",
        "TMPDIR": "/tmp",  # noqa: S108 - a mount of the pod's own
        **told.environment,
    }
    if agent.file_from:
        values["AGENT_FILE"] = f"{AGENT_DIR}/{AGENT_FILE}"
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


def secret_variable(name: str, secret: str, key: str, *, optional: bool) -> Object:
    """A variable whose value is a key of a Secret."""
    reference: Object = {"name": secret, "key": key, **({"optional": True} if optional else {})}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}
