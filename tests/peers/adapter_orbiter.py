"""How Orbiter is asked the questions of `probes`: the same ones, so that the table is fair."""

import json
from typing import Any

from probes import Answer, Call, has_module, takes

from orbiter import Agent, Swarm, run, tool
from orbiter.config import TaskConfig
from orbiter.models import (
    FallbackModel,
    ModelCallForbiddenError,
    ModelError,
    ModelLimits,
    ScriptedModel,
    call,
    forbid_real_calls,
)
from orbiter.trace import TraceConfig, tracing
from orbiter.types import OrbiterError


def script(*replies: Any) -> ScriptedModel:
    """A model that replies so."""
    return ScriptedModel(*map(_reply, replies))


def _reply(reply: Any) -> Any:
    if isinstance(reply, list):
        return [_reply(one) for one in reply]
    return reply if isinstance(reply, str) else call(reply.name, **reply.arguments)


class Peer:
    """See `probes.Adapter`."""

    Stopped = (OrbiterError,)

    async def ask(
        self, *replies: Any, tools: Any = (), output_type: Any = None, limit: int | None = None
    ) -> Answer:
        model = script(*replies)
        kept = [tool(function) for function in tools]
        agent: Any = Agent(name="a", tools=kept, output_type=output_type)
        result = await run(agent, "Go", provider=model, config=TaskConfig(model_calls=limit))
        return Answer(result.output_or_text, str(model.requests[-1].messages))

    def final(self, value: Any) -> str:
        return json.dumps(value if isinstance(value, dict) else {"result": value})

    async def leave(self, *replies: Any, tools: Any) -> None:
        kept = [tool(function) for function in tools]
        async with run.stream(
            Agent(name="a", tools=kept), "Go", provider=script(*replies)
        ) as stream:
            async for _ in stream:
                break

    async def fallback(self) -> bool:
        chain = FallbackModel(ScriptedModel(ModelError("busy", status=529)), script("Hello."))
        return (await run(Agent(name="a"), "Go", provider=chain)).output == "Hello."

    def token_rates(self) -> bool:
        return takes(ModelLimits, "tokens_per_minute")

    async def scripted_model(self) -> bool:
        called = []

        @tool
        def weigh(item: str) -> str:
            """Weigh an item."""
            called.append(item)
            return "2 kg"

        model = script(Call("weigh", {"item": "a"}), "Done.")
        await run(Agent(name="a", tools=[weigh]), "Go", provider=model)
        return called == ["a"]

    async def forbids_real_calls(self) -> bool:
        forbid_real_calls()
        try:
            await run(Agent(name="a", model="openai:gpt-4o"), "Go")
        except ModelCallForbiddenError:
            return True
        return False

    async def handoff(self) -> bool:
        first = Agent(name="first", handoffs=[Agent(name="other")])
        model = script(Call("transfer_to_other", {}), "Done.")
        return (await run(first, "Go", provider=model)).last_agent == "other"

    async def side_by_side(self) -> bool:
        agents = [Agent(name=name) for name in ("left", "right", "editor")]
        model = script("left", "right", "All.")
        result = await run(
            Swarm(agents=agents, flow="(left | right) >> editor"), "Go", provider=model
        )
        return result.output == "All." and "right" in str(model.requests[-1].messages)

    async def spans(self) -> list[str]:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with tracing(TraceConfig(tracer_provider=provider)):
            await self.ask("Done.")
        return [span.name for span in exporter.get_finished_spans()]

    def cycles(self) -> bool:
        return takes(Swarm, "edges", "nodes", "cycles")

    def speech(self) -> bool:
        return has_module("orbiter.realtime")


PEER = Peer()
