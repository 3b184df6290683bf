"""How openai-agents is asked the questions of `probes`."""

import json
from typing import Any

import agents
from agents import (
    Agent,
    AgentsException,
    RunConfig,
    Runner,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from probes import Answer, Call, has_module, takes

set_tracing_disabled(True)


def step(reply: Any) -> list[Any]:
    """Write a reply as the model of this framework gives it."""
    if isinstance(reply, str):
        return [assistant_message(reply)]
    calls = reply if isinstance(reply, list) else [reply]
    return [
        function_call(call.name, call.arguments, call_id=f"call_{call.name}_{number}")
        for number, call in enumerate(calls)
    ]


def script(*replies: Any) -> ScriptedModel:
    """A model that replies so."""
    return ScriptedModel([step(reply) for reply in replies])


class Peer:
    """See `probes.Adapter`."""

    Stopped = (AgentsException,)

    async def ask(
        self, *replies: Any, tools: Any = (), output_type: Any = None, limit: int | None = None
    ) -> Answer:
        model = script(*replies)
        kept = [function_tool(tool) for tool in tools]
        agent = Agent(name="a", model=model, tools=kept, output_type=output_type)
        # the option that gives a run back which has met its limit
        handlers: Any = {"max_turns": lambda data: {"final_output": "stopped"}}
        result = await Runner.run(
            agent,
            "Go",
            max_turns=limit or 10,
            error_handlers=handlers if limit else None,
            run_config=RunConfig(tool_not_found_behavior="return_error_to_model"),
        )
        return Answer(result.final_output, str(model.calls[-1].input))

    def final(self, value: Any) -> str:
        return json.dumps(value if isinstance(value, dict) else {"response": value})

    async def leave(self, *replies: Any, tools: Any) -> None:
        kept = [function_tool(tool) for tool in tools]
        streamed = Runner.run_streamed(Agent(name="a", model=script(*replies), tools=kept), "Go")
        async for _ in streamed.stream_events():
            break

    async def fallback(self) -> bool:
        return takes(RunConfig, "fallback", "fallbacks", "fallback_model") or any(
            "fallback" in name.lower() for name in dir(agents)
        )

    def token_rates(self) -> bool:
        return takes(RunConfig, "tokens_per_minute", "rate_limit", "rate_limiter")

    async def scripted_model(self) -> bool:
        called = []

        @function_tool
        def weigh(item: str) -> str:
            """Weigh an item."""
            called.append(item)
            return "2 kg"

        model = script(Call("weigh", {"item": "a"}), "Done.")
        await Runner.run(Agent(name="a", model=model, tools=[weigh]), "Go")
        return called == ["a"]

    async def forbids_real_calls(self) -> bool:
        return any(
            "forbid" in name.lower() or "allow_model" in name.lower() for name in dir(agents)
        )

    async def handoff(self) -> bool:
        other = Agent(name="other", model=script("Done."))
        first = Agent(name="first", model=script(Call("transfer_to_other", {})))
        first.handoffs = [handoff(other)]
        return (await Runner.run(first, "Go")).last_agent.name == "other"

    async def side_by_side(self) -> bool:
        return takes(Agent, "sub_agents", "flow") or any(
            word in name.lower()
            for name in dir(agents)
            for word in ("parallel", "workflow", "graph")
        )

    async def spans(self) -> list[str]:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        # without the processor that sends traces to the vendor
        agents.set_trace_processors([])
        set_tracing_disabled(False)
        await self.ask("Done.")
        set_tracing_disabled(True)
        return [span.name for span in exporter.get_finished_spans()]

    def cycles(self) -> bool:
        return any("graph" in name.lower() for name in dir(agents))

    def speech(self) -> bool:
        return has_module("agents.realtime")


PEER = Peer()
