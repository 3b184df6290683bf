"""What holds for a model call: the agent's settings, the run's over them, the call's over both."""

from typing import Any

from orbiter.config import ModelSettings
from orbiter.types import OrbiterError

# arguments that every provider takes; an agent has them as attributes, which may change
_CLASSIC = ("temperature", "max_tokens")


def settings_of(agent: ModelSettings, run: ModelSettings | None) -> ModelSettings:
    """Return what agent and run say together, besides the agent's temperature and tokens."""
    return agent.without(*_CLASSIC).merged(run)


def apply(
    settings: ModelSettings, options: dict[str, Any], provider: object, agent_name: str
) -> None:
    """Put settings into the options of a call.

    Args:
        settings: All that hold.
        options: What the provider will be called with, changed in place.
        provider: Who will be called.
        agent_name: For the error.

    Raises:
        OrbiterError: The provider takes no settings, or a tool that is forced is not there.
    """
    given = settings.model_fields_set
    for name in _CLASSIC:
        if name in given:
            options[name] = getattr(settings, name)
    rest = settings.without(*_CLASSIC)
    names = sorted(rest.given)
    if not names:
        return
    if not getattr(provider, "settings", False):
        raise OrbiterError(
            f"Agent '{agent_name}': {type(provider).__name__} does not take the setting "
            f"'{names[0]}': leave it out, or say `settings = True` in the class and take "
            "`settings` in `complete` and `stream`"
        )
    if rest.forces_a_call:
        _check_choice(rest.tool_choice, options["tools"] or [], agent_name)
    options["settings"] = rest


def choose_own(options: dict[str, Any], answer_tool: str) -> None:
    """Let a choice of tools be one of the agent's own: that an answer is a call, nobody has asked.

    Args:
        options: What the provider will be called with, changed in place.
        answer_tool: By which of its tools the model gives its answer.
    """
    settings: ModelSettings | None = options.get("settings")
    choice = None if settings is None else settings.tool_choice
    if settings is None or choice not in ("none", "required"):
        return
    tools: list[dict[str, Any]] = options["tools"]
    if choice == "none":
        options["tools"] = [tool for tool in tools if tool["function"]["name"] == answer_tool]
        options["settings"] = settings.without("tool_choice")
    else:
        own = [tool for tool in tools if tool["function"]["name"] != answer_tool]
        options["tools"] = own or tools


def shown(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings among the options of a call, without what may hold secrets."""
    found = {name: options[name] for name in _CLASSIC if options[name] is not None}
    settings: ModelSettings | None = options.get("settings")
    return found if settings is None else found | settings.shown


def _check_choice(choice: str | None, tools: list[dict[str, Any]], agent_name: str) -> None:
    names = [tool["function"]["name"] for tool in tools]
    if not names or (choice != "required" and choice not in names):
        raise OrbiterError(
            f"Agent '{agent_name}': tool_choice is '{choice}', its tools are: "
            f"{', '.join(names) or 'none'}"
        )


def released(settings: ModelSettings | None) -> ModelSettings | None:
    """Return the settings of the calls after a forced one."""
    if settings is not None and settings.forces_a_call:
        return settings.without("tool_choice")
    return settings
