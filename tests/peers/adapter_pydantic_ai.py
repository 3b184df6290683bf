"""How pydantic-ai is asked the questions of `probes`."""

from collections.abc import AsyncIterator
from typing import Any

from probes import Answer, Call, has_module, takes
from pydantic_ai import (
    Agent,
    AgentRunError,
    ConcurrencyLimit,
    InstrumentationSettings,
    ModelHTTPError,
    UsageLimits,
    UserError,
    models,
)
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel


class Script:
    """Replies in order, whole or as a stream; `told` is what came with the last request."""

    def __init__(self, replies: tuple[Any, ...]) -> None:
        self.left = list(replies)
        self.told = ""

    def model(self) -> FunctionModel:
        return FunctionModel(self.whole, stream_function=self.stream)

    def whole(self, messages: Any, info: Any) -> ModelResponse:
        self.told = str(messages)
        reply = self.left.pop(0)
        if isinstance(reply, str):
            return ModelResponse(parts=[TextPart(reply)])
        calls = reply if isinstance(reply, list) else [reply]
        return ModelResponse(parts=[ToolCallPart(call.name, call.arguments) for call in calls])

    async def stream(self, messages: Any, info: Any) -> AsyncIterator[Any]:
        import json

        for number, part in enumerate(self.whole(messages, info).parts):
            if isinstance(part, TextPart):
                yield part.content
            else:
                yield {number: DeltaToolCall(part.tool_name, json.dumps(part.args))}


class Peer:
    """See `probes.Adapter`."""

    # a tool's own exceptions end a run as they are
    Stopped = (AgentRunError, UserError, OSError)

    async def ask(
        self, *replies: Any, tools: Any = (), output_type: Any = None, limit: int | None = None
    ) -> Answer:
        script = Script(replies)
        agent: Any = Agent(script.model(), tools=tools, output_type=output_type or str)
        result = await agent.run("Go", usage_limits=UsageLimits(request_limit=limit))
        return Answer(result.output, script.told)

    def final(self, value: Any) -> Call:
        wrapped = value if isinstance(value, dict) else {"response": value}
        return Call("final_result", wrapped)

    async def leave(self, *replies: Any, tools: Any) -> None:
        agent = Agent(Script(replies).model(), tools=tools)
        async with agent.run_stream_events("Go") as events:
            async for _ in events:
                break

    async def fallback(self) -> bool:
        def overloaded(messages: Any, info: Any) -> ModelResponse:
            raise ModelHTTPError(529, "busy")

        chain = FallbackModel(FunctionModel(overloaded), Script(("Hello.",)).model())
        return (await Agent(chain).run("Go")).output == "Hello."

    def token_rates(self) -> bool:
        return takes(ConcurrencyLimit, "tokens_per_minute", "tokens", "max_tokens")

    async def scripted_model(self) -> bool:
        called = []

        def weigh(item: str) -> str:
            """Weigh an item."""
            called.append(item)
            return "2 kg"

        await Agent(TestModel(), tools=[weigh]).run("Go")
        return bool(called)

    async def forbids_real_calls(self) -> bool:
        with models.override_allow_model_requests(False):
            try:
                await Agent("openai-chat:gpt-4o").run("Go")
            except RuntimeError as error:
                return "not allowed" in str(error)
        return False

    async def handoff(self) -> bool:
        return takes(Agent, "handoffs", "agents", "sub_agents")

    async def side_by_side(self) -> bool:
        return has_module("pydantic_graph") and await _forked()

    async def spans(self) -> list[str]:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
        await self.ask("Done.")
        Agent.instrument_all(False)
        return [span.name for span in exporter.get_finished_spans()]

    def cycles(self) -> bool:
        return has_module("pydantic_graph")

    def speech(self) -> bool:
        return has_module("pydantic_ai.realtime")


async def _forked() -> bool:
    """Run a graph that forks into two steps and joins what they give."""
    from pydantic_graph import GraphBuilder, reduce_list_append

    graph: Any = GraphBuilder(input_type=str, output_type=list[str])

    async def double(context: Any) -> str:
        return f"{context.inputs}!"

    step = graph.step(node_id="double")(double)
    gather = graph.join(reduce_list_append, initial_factory=list[str], node_id="gather")

    async def both(context: Any) -> list[str]:
        return [context.inputs, context.inputs]

    start = graph.step(node_id="both")(both)
    graph.add(
        graph.edge_from(graph.start_node).to(start),
        graph.edge_from(start).map().to(step),
        graph.edge_from(step).to(gather),
        graph.edge_from(gather).to(graph.end_node),
    )
    return bool(await graph.build().run(inputs="a") == ["a!", "a!"])


PEER = Peer()
