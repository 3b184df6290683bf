"""What `worker-wrapper --help` prints: the table of variables that settings.py reads by."""

from collections.abc import Iterator
from typing import Final

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from orbiter_contracts import AGENTS
from worker_wrapper.agents import known_agents, load_agent
from worker_wrapper.variable_table import Variables
from worker_wrapper.variables import DEFAULT_WORKSPACE
from worker_wrapper.workspace.container import Given

_HEAD: Final = """\
Usage: worker-wrapper [clone | push]

Take messages from a stream of Redis, run a headless CLI agent for each, and publish what came of
it. It is told everything in its environment; wrapper/README.md says more:
"""
_CONTAINERS: Final = """
clone and push are the containers of a task's pod that have its git credential. They read
"""


def help_text() -> str:
    """Usage, and a line for each variable: its name, its default, what it means."""
    rows = [
        (str(field.validation_alias), default_of(field), str(field.title))
        for field in Variables.model_fields.values()
    ]
    names, defaults = (max(len(row[column]) for row in rows) for column in (0, 1))
    table = "".join(
        f"  {name:{names}}  {default:{defaults}}  {title}\n" for name, default, title in rows
    )
    agents = "".join(f"  {line}\n" for line in _agents())
    given = ", ".join(str(field.validation_alias) for field in Given.model_fields.values())
    return f"{_HEAD}\n{table}\nThe agents' own:\n{agents}{_CONTAINERS}{given}.\n"


def default_of(field: FieldInfo) -> str:
    """What holds where a variable is not set, as people write it."""
    if field.default_factory is not None:
        return str(DEFAULT_WORKSPACE)
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, tuple):
        value = ",".join(value)
    if isinstance(value, float):
        value = f"{value:g}"
    return "none" if value in (None, "") else str(value)


def _agents() -> Iterator[str]:
    """A line for each agent: what it needs one of, and what it is given beside."""
    for name in known_agents():
        agent = load_agent(name)
        needed = " or ".join((*agent.credentials, *AGENTS[name].keyless))
        beside = f"; also {', '.join(agent.passes)}" if agent.passes else ""
        yield f"{name:10}{needed}{beside}"
