"""What a user might write; checked with mypy --strict against the installed packages."""

from dataclasses import dataclass
from typing import assert_type

from pydantic import BaseModel

from orbiter import Agent, Swarm, Tool, run, tool
from orbiter.config import TaskConfig
from orbiter.hooks import Hook, HookEvent, HookPoint
from orbiter.models import ModelProvider, ModelResponse, ScriptedModel, call, get_provider
from orbiter.tasks import AgentSpec, Task, TaskBroker, TaskState
from orbiter.types import Message, RunContext, RunResult, StreamEvent, TextEvent


class Report(BaseModel):
    title: str


@dataclass
class User:
    name: str


@tool
def get_weather(city: str, unit: str = "celsius") -> str:
    """Get the weather."""
    return f"sunny in {city}"


@tool(name="add_numbers")
async def add(a: int, b: int, where: RunContext[User]) -> int:
    """Add."""
    assert_type(where.deps, User)
    return a + b


assert_type(get_weather("Tokyo"), str)
tools: list[Tool] = [get_weather, add]


class DatabaseQuery(Tool):
    name = "query_database"
    description = "Execute a SQL query."

    async def execute(self, sql: str, params: dict[str, str] | None = None) -> str:
        return sql


class Echo(ModelProvider):
    async def complete(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, object]] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> ModelResponse:
        return ModelResponse(content="echo")


def instructions(context: RunContext[User]) -> str:
    return f"Help {context.deps.name}."


async def audit(event: HookEvent) -> None:
    if event.tool_call is not None:
        print(event.tool_call.name)


agent = Agent(
    name="assistant",
    model="openai:gpt-4o",
    instructions=instructions,
    tools=[get_weather, add, DatabaseQuery()],
    hooks=[Hook(HookPoint.PRE_TOOL_CALL, audit), (HookPoint.START, audit)],
    output_type=Report,
)
swarm = Swarm(agents=[agent, Agent(name="writer", handoffs=[agent])], flow="assistant >> writer")


def show(event: StreamEvent) -> None:
    if event.type == "text":
        assert_type(event, TextEvent)
        print(event.text)
    elif event.type == "tool_call":
        print(event.tool_name)


async def main() -> None:
    model = ScriptedModel(call("get_weather", city="Oslo"), '{"title": "Sunny"}', repeat=True)
    result = await run(agent, "hi", provider=model, deps=User("ada"))
    assert_type(result, RunResult[Report])
    there = RunContext("assistant", "hi", [], None, User("ada"))
    assert_type(await add(1, b=2, where=there), int)
    await run(swarm, "hi", messages=result.messages, provider=Echo(), deps=User("ada"))
    await run(agent, "hi", provider=get_provider("openai:gpt-4o"), config=TaskConfig(timeout=5))
    async for event in run.stream(agent, "hi", provider=model):
        show(event)
    async with run.stream(agent, "hi") as stream:
        assert_type(stream.result, RunResult[Report] | None)


async def shout(task: Task) -> str:
    return task.input.upper()


async def tell(task: Task) -> None:
    print(task.state)


async def use_tasks() -> None:
    async with TaskBroker(
        model=ScriptedModel("hi"),
        agent_specs={"default": shout, "writer": Agent(name="writer"), "asker": AgentSpec()},
        activity=lambda event: print(event.seq),
    ) as broker:
        task_id = await broker.submit("hello", config_name="writer")
        await broker.notify(task_id, {TaskState.RUNNING}, tell)
        async for change in broker.stream(task_id, after=1):
            print(change.new_state)
        assert_type(await broker.wait(task_id, timeout=5), Task)
