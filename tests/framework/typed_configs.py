"""What type checkers know of configs, agents and runs. Read by mypy and by pyright, never run.

A line with two `ignore` comments is a mistake that both have to find: each of them refuses a
comment that it does not need.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

from pydantic import BaseModel

from orbiter import Agent, Swarm, run, tool
from orbiter.config import ModelSettings, TaskConfig
from orbiter.context import ContextConfig
from orbiter.models import ModelLimits, ModelServer, ScriptedModel, get_provider
from orbiter.models.provider import ModelProvider
from orbiter.parts import DocumentPart, ImagePart
from orbiter.trace import ConsoleExporter, TraceConfig
from orbiter.types import Message, RunContext, RunResult, Usage


@dataclass
class User:
    name: str


class City(BaseModel):
    name: str


def greet(context: RunContext[User]) -> str:
    assert_type(context.deps, User)
    return f"You help {context.deps.name}."


def known(context: RunContext[User], city: City) -> City:
    return city


text = Agent[None, str](name="text")
city = Agent[None, City](name="city", output_type=City)
cities = Agent[None, list[City]](name="cities", output_type=list[City])
maybe = Agent[None, City | None](name="maybe", output_type=City | None)
greeter = Agent(name="greeter", instructions=greet, output_type=City, output_validators=[known])
assert_type(greeter, Agent[User, City])


@tool
def weigh(item: str, grams: bool = False) -> int:
    """Weigh an item."""
    return 1


assert_type(weigh("lamp"), int)
weigh(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def results(swarm: Swarm) -> None:
    assert_type(await run(text, "hi"), RunResult[str])
    assert_type(await run(city, "hi"), RunResult[City])
    assert_type((await run(cities, "hi")).output, list[City])
    assert_type((await run(maybe, "hi")).output, City | None)
    assert_type(await run(greeter, "hi", deps=User("Ada")), RunResult[City])
    assert_type(run.sync(greeter, "hi", deps=User("Ada")).output, City)
    assert_type(run.stream(greeter, "hi", deps=User("Ada")).result, RunResult[City] | None)
    assert_type(await run(swarm, "hi"), RunResult[Any])
    result = await run(city, "hi")
    assert_type(result.output_or_text, City | str)
    assert_type(result.messages, list[Message])
    assert_type(result.usage, Usage)
    await run(greeter, "hi", deps=5)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]


settings = ModelSettings(temperature=0.2, top_p=0.9, stop=("END",), reasoning_effort="low")
assert_type(settings.stop, tuple[str, ...] | None)
assert_type(settings.thinking_budget, int | None)
assert_type(settings.merged(None), ModelSettings)
limits = TaskConfig(timeout=30.0, total_tokens=1000)
assert_type(limits.timeout, float | None)
window = ContextConfig(mode="copilot", history_rounds=10)
assert_type(window.history_rounds, int)
server = ModelServer(name="acme", base_url="http://localhost/v1", key_variable="ACME_KEY")
assert_type(server.needs_key, bool)
assert_type(get_provider("openai:gpt-4o"), ModelProvider)
assert_type(ScriptedModel("hi"), ScriptedModel)
ModelLimits(concurrent=8, tokens_per_minute=1000)
TraceConfig(exporters="console", sample_ratio=0.1)
TraceConfig(exporters=["otlp", Path("spans.jsonl"), ConsoleExporter()])
image = ImagePart(url="https://example.com/a.png")
assert_type(image.data, bytes | None)
assert_type(DocumentPart(data=b"a", media_type="text/plain").name, str | None)

ModelSettings(temprature=0.2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
ModelSettings(reasoning_effort="some")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
TaskConfig(timeout="soon")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
TaskConfig(tokens=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
ContextConfig(mode="driver")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
ModelServer(name="acme")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
TraceConfig(exporters=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
ImagePart(data="text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Agent(nam="a")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
Agent(name="a", max_steps="3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
