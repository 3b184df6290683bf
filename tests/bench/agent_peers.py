"""What the same small run costs in other frameworks; run by bench_agents in a Python of its own.

One tool call and a final answer, with a model that answers at once: all that is measured is the
framework. Prints JSON: for the framework named on the command line, the milliseconds of each run.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

WARM_UP = 20


def openai_agents() -> Callable[[], Awaitable[str]]:
    """Build a run of openai-agents."""
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, function_tool
    from agents import Usage as Tokens
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    class Scripted(Model):
        calls = 0

        async def get_response(self, *args: object, **options: object) -> ModelResponse:
            self.calls += 1
            if self.calls % 2:
                # ids name one call for good
                item = ResponseFunctionToolCall(
                    type="function_call",
                    name="add",
                    call_id=f"call_{self.calls}",
                    arguments='{"a": 2, "b": 3}',
                )
                return ModelResponse(output=[item], usage=Tokens(), response_id=None)
            text = ResponseOutputText(type="output_text", text="5", annotations=[])
            message = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
            return ModelResponse(output=[message], usage=Tokens(), response_id=None)

        def stream_response(self, *args: object, **options: object) -> object:
            raise NotImplementedError

    @function_tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    agent = Agent(name="calc", instructions="You add.", tools=[add], model=Scripted())
    config = RunConfig(tracing_disabled=True)

    async def once() -> str:
        result = await Runner.run(agent, "What is 2 + 3?", run_config=config)
        return str(result.final_output)

    return once


def pydantic_ai() -> Callable[[], Awaitable[str]]:
    """Build a run of pydantic-ai."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("add", {"a": 2, "b": 3})])
        return ModelResponse(parts=[TextPart("5")])

    agent = Agent(FunctionModel(answer), instructions="You add.")

    @agent.tool_plain
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async def once() -> str:
        return (await agent.run("What is 2 + 3?")).output

    return once


PEERS = {"openai-agents": openai_agents, "pydantic-ai": pydantic_ai}


async def samples(once: Callable[[], Awaitable[str]], runs: int) -> list[float]:
    """Return the milliseconds of each run."""
    taken = []
    for _ in range(WARM_UP + runs):
        began = time.perf_counter()
        output = await once()
        taken.append((time.perf_counter() - began) * 1000)
        if output != "5":
            raise SystemExit(f"answered {output!r}")
    return taken[WARM_UP:]


def main() -> None:
    """Measure one peer."""
    name, runs = sys.argv[1], int(sys.argv[2])
    print(json.dumps(asyncio.run(samples(PEERS[name](), runs))))


if __name__ == "__main__":
    main()
