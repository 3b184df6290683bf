"""Variables of a worker that both sides call the same; `attempts` has those of an attempt."""

from typing import Any, Final

SECRET_ENV: Final = "SECRET_ENV"  # noqa: S105 - the name of a variable
"""Lists, with commas between, the variables that come from Secrets."""
HANDOVER_DIR: Final = "WORKER_HANDOVER_DIR"
"""Where a worker finds what the containers that have the git credential leave for it."""
GIT_WORKSPACE: Final = "GIT_WORKSPACE"
"""Tells those containers of the repository: a `GitWorkspace` as JSON."""
CLONE: Final = "clone"
PUSH: Final = "push"
SKILLS: Final = "skills"
"""Arguments of the worker's image: which of those containers it is, or the one for skills."""

OF_AGENT_FIELDS: Final = (
    *("AGENT_TYPE", "AGENT_MODEL", "AGENT_MAX_TURNS", "AGENT_MAX_COST_USD", "AGENT_SYSTEM_PROMPT"),
    *("AGENT_ENV", "AGENT_MCP_*", "AGENT_INSTRUCTIONS*", "AGENT_SKILLS_DIR"),
)
"""Variables that tell a worker what fields of `spec.agent` say; `*` is any end.

Who could set one beside its field would go around what a profile lets nobody change.
"""


def agent_environment(
    kind: str,
    *,
    model: str | None = None,
    max_turns: int | None = None,
    max_cost_usd: float | None = None,
    system_prompt: str | None = None,
    env: tuple[dict[str, Any], ...] = (),
    passed: str = "",
) -> dict[str, str]:
    """The variables that say which agent works, and how: those that are set.

    Args:
        kind: One of `AGENT_TYPES`.
        model: The model's name.
        max_turns: After so many it is stopped.
        max_cost_usd: After so many US dollars it is stopped.
        system_prompt: What it is told before everything else.
        env: `agent.env` of the spec: the worker hands on the variables that are named there.
        passed: Names of further variables that it hands on, with commas between.
    """
    names = [*filter(None, passed.split(",")), *(item["name"] for item in env)]
    values = {
        "AGENT_TYPE": kind,
        "AGENT_MODEL": model,
        "AGENT_MAX_TURNS": max_turns,
        "AGENT_MAX_COST_USD": max_cost_usd,
        "AGENT_SYSTEM_PROMPT": system_prompt,
        "AGENT_ENV": ",".join(names) or None,
    }
    return {name: str(value) for name, value in values.items() if value is not None}
