"""What a span says: a name and attributes for each piece of a run, after the GenAI conventions.

Pure functions of what the run loop hands over. They run when spans are exported, not while the
agent works. Content stands in its own functions, which are asked only when it is to be captured.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from orbiter.config import parse_model_string
from orbiter.prices import price
from orbiter.swarm import Swarm
from orbiter.trace._internal.content import input_attributes, output_attributes, redacted

Attributes = dict[str, Any]
# the settings that the conventions know, by their names there
_CONVENTION = {
    "temperature": "temperature", "max_tokens": "max_tokens", "top_p": "top_p", "seed": "seed",
    "stop": "stop_sequences",
}  # fmt: skip


class Settings(NamedTuple):
    """What of the configuration decides on attributes."""

    content: bool
    costs: bool


class Piece(NamedTuple):
    """How one kind of piece is told.

    Attributes:
        name: Makes the span's name of the subject.
        attributes: Makes the attributes of subject, outcome, cause and settings. None is left out.
        client: Whether the span is a call to another system.
    """

    name: Callable[[Any], str]
    attributes: Callable[[Any, Any, Settings], Attributes]
    client: bool = False


def _run_name(subject: Any) -> str:
    target, _ = subject
    if not isinstance(target, Swarm):
        return str(target.name)
    if target.name:
        return target.name
    if target.flow is not None:
        return str(target.flow)
    return f"{target.mode} {', '.join(agent.name for agent in target.agents)}"


def _run(subject: Any, result: Any, settings: Settings) -> Attributes:
    found: Attributes = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": _run_name(subject),
    }
    if result is not None:
        found["orbiter.run.steps"] = result.steps
        found["orbiter.run.stop_reason"] = result.stop_reason
        found["orbiter.run.input_tokens"] = result.usage.input_tokens
        found["orbiter.run.output_tokens"] = result.usage.output_tokens
    if settings.content:
        found["orbiter.run.input"] = redacted(subject[1])
        found["orbiter.run.output"] = None if result is None else redacted(result.output_or_text)
    return found


def _agent(subject: Any, output: Any, settings: Settings) -> Attributes:
    provider, model = parse_model_string(subject.model)
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": subject.name,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
    }


def _step(subject: Any, outcome: Any, settings: Settings) -> Attributes:
    agent, number = subject
    return {"orbiter.step": number, "gen_ai.agent.name": agent.name}


def _model_call(subject: Any, reply: Any, settings: Settings) -> Attributes:
    agent, messages, streamed, *told = subject
    provider, model = parse_model_string(agent.model)
    found: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.request.stream": True if streamed else None,
        "gen_ai.agent.name": agent.name,
        "gen_ai.output.type": "json" if agent.output_schema else "text",
    }
    for given in told:
        found |= {_request(name): value for name, value in given.items()}
    if settings.content:
        found |= input_attributes(messages)
    if reply is None:
        return found
    usage = reply.usage
    answered = getattr(reply, "model", "") or None
    # with a chain of models it may be another one's
    provider = getattr(reply, "provider", "") or provider
    reason = getattr(reply, "finish_reason", None)
    found |= {
        "gen_ai.provider.name": provider,
        "gen_ai.response.model": answered,
        "gen_ai.response.id": getattr(reply, "id", "") or None,
        "gen_ai.response.finish_reasons": (reason,) if reason else None,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
    }
    if settings.costs:
        found["operation.cost"] = price(provider, answered or model, usage)
    if settings.content:
        found |= output_attributes(reply)
    return found


def _request(setting: str) -> str:
    if setting in _CONVENTION:
        return f"gen_ai.request.{_CONVENTION[setting]}"
    return f"orbiter.request.{setting}"


def _tool_call(subject: Any, outcome: Any, settings: Settings) -> Attributes:
    agent, call, tool = subject
    found: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": tool.description or None if tool else None,
        "gen_ai.agent.name": agent.name,
    }
    if settings.content:
        found["gen_ai.tool.call.arguments"] = redacted(call.arguments)
        if outcome is not None:
            found["gen_ai.tool.call.result"] = redacted(outcome.error or outcome.content)
    return found


def _handoff(subject: Any, outcome: Any, settings: Settings) -> Attributes:
    agent, target, call = subject
    return {
        "gen_ai.operation.name": "handoff",
        "gen_ai.agent.name": agent.name,
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        "orbiter.handoff.target": target.name,
    }


RUN = Piece(lambda s: f"invoke_workflow {_run_name(s)}", _run)
AGENT = Piece(lambda s: f"invoke_agent {s.name}", _agent)
STEP = Piece(lambda s: "step", _step)
MODEL_CALL = Piece(lambda s: f"chat {parse_model_string(s[0].model)[1]}", _model_call, client=True)
TOOL_CALL = Piece(lambda s: f"execute_tool {s[1].name}", _tool_call)
HANDOFF = Piece(lambda s: f"handoff {s[1].name}", _handoff)
CUSTOM = Piece(lambda s: str(s[0]), lambda s, outcome, settings: dict(s[1]))
