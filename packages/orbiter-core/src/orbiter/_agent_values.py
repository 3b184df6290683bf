"""What an Agent is given, checked before it is taken."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError

from orbiter._misuse import require, require_all, require_method, shown
from orbiter.config import DEFAULT_TEMPERATURE, AgentConfig, ModelSettings
from orbiter.guardrails import Guardrail
from orbiter.tool import FunctionTool, Tool
from orbiter.types import OrbiterError


def checked_config(name: str, **values: Any) -> AgentConfig:
    """Return an agent's plain values.

    Raises:
        OrbiterError: One is out of range; the text names it.
    """
    try:
        return AgentConfig(name=name, **values)
    except ValidationError as error:
        what = "; ".join(
            f"{p['loc'][0]}: {p['msg']}, not {shown(p['input'])}" for p in error.errors()
        )
        raise OrbiterError(f"Agent '{name}': {what}") from error


def check_given(where: str, tools: Any, guardrails: Any, memory: Any, context: Any) -> None:
    """Refuse what is of no use where it was given.

    Raises:
        OrbiterError: Something is; the text says what to give.
    """
    require(tools, Iterable, f"{where}: tools=", "a list, such as [tool]")
    give = "a Guardrail, such as MyGuardrail()"
    require_all(guardrails, Guardrail, f"{where}: guardrails=", give, "a list, such as [rail]")
    if memory is not None:
        require_method(memory, "recall", f"{where}: memory=", "one, such as ShortTermMemory()")
    if context is not None:
        give = "one, such as Context(task_id=...)"
        require_method(context, "start_run", f"{where}: context=", give)


def check_tools(name: str, tools: Sequence[Tool]) -> None:
    """Refuse what is no tool, and two tools of one name.

    Raises:
        OrbiterError: There is such.
    """
    seen: set[str] = set()
    for tool in tools:
        if isinstance(getattr(tool, "__func__", None), Tool):
            raise OrbiterError(
                f"Agent '{name}': {tool!r} is no tool: write @tool above @classmethod"
            )
        if not isinstance(tool, Tool):
            raise OrbiterError(
                f"Agent '{name}': {tool!r} is no tool; decorate the function with @tool "
                "or give an instance of a Tool subclass"
            )
        if isinstance(tool, FunctionTool):
            tool.check_bound()
        if tool.name in seen:
            raise OrbiterError(
                f"Agent '{name}' has two tools named '{tool.name}'; rename one with "
                '@tool(name="...")'
            )
        seen.add(tool.name)


def agreed_settings(
    name: str, settings: ModelSettings, temperature: float, max_tokens: int | None
) -> tuple[float, int | None]:
    """Return an agent's temperature and tokens, which may be given in one of two places."""
    where = f"Agent '{name}': settings="
    require(settings, ModelSettings, where, "ModelSettings(top_p=..., ...)")
    twice = {"temperature": temperature is not DEFAULT_TEMPERATURE, "max_tokens": bool(max_tokens)}
    given = settings.given
    for field in twice.keys() & given.keys():
        if twice[field]:
            raise OrbiterError(f"{where} has {field}, and so has the agent: give it once")
    return given.get("temperature", temperature), given.get("max_tokens", max_tokens)
