"""How google-adk is asked the questions of `probes`."""

import json
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import LlmCallsLimitExceededError
from google.adk.agents.run_config import RunConfig
from google.adk.models import BaseLlm, FallbackModel, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner, Runner
from google.genai import types
from google.genai.errors import APIError
from probes import Answer, Call, has_module, takes
from pydantic import Field


class Script(BaseLlm):
    """Replies in order; `told` is what came with the last request."""

    model: str = "script"
    left: list[Any] = Field(default_factory=list)
    told: str = ""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.told = str(llm_request.contents)
        yield LlmResponse(content=content(self.left.pop(0)))


class Overloaded(BaseLlm):
    """Answers with status 503."""

    model: str = "overloaded"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        raise APIError(503, {"error": {"message": "busy"}})
        yield


def content(reply: Any) -> types.Content:
    """Write a reply as the model of this framework gives it."""
    if isinstance(reply, str):
        parts = [types.Part(text=reply)]
    else:
        calls = reply if isinstance(reply, list) else [reply]
        parts = [types.Part.from_function_call(name=c.name, args=c.arguments) for c in calls]
    return types.Content(role="model", parts=parts)


def script(*replies: Any) -> Script:
    """A model that replies so."""
    return Script(left=list(replies))


async def events(agent: Any, limit: int | None = None) -> AsyncGenerator[Any, None]:
    """Run an agent."""
    runner = InMemoryRunner(agent=agent, app_name="probe")
    await runner.session_service.create_session(app_name="probe", user_id="u", session_id="s")
    config = RunConfig(max_llm_calls=limit or 500)
    message = types.Content(role="user", parts=[types.Part(text="Go")])
    async for event in runner.run_async(
        user_id="u", session_id="s", new_message=message, run_config=config
    ):
        yield event


async def last_text(agent: Any, limit: int | None = None) -> tuple[str, str]:
    """Return who spoke last, and what was said."""
    author = text = ""
    async for event in events(agent, limit):
        for part in (event.content.parts or []) if event.content else []:
            if part.text:
                author, text = event.author, part.text
    return author, text


class Peer:
    """See `probes.Adapter`."""

    # what fails in a tool, or does not fit a schema, ends a run as it is
    Stopped = (LlmCallsLimitExceededError, ValueError, TypeError, OSError)

    async def ask(
        self, *replies: Any, tools: Any = (), output_type: Any = None, limit: int | None = None
    ) -> Answer:
        model = script(*replies)
        agent = LlmAgent(
            name="a", model=model, tools=list(tools), output_schema=output_type, output_key="found"
        )
        runner = InMemoryRunner(agent=agent, app_name="probe")
        service = runner.session_service
        await service.create_session(app_name="probe", user_id="u", session_id="s")
        message = types.Content(role="user", parts=[types.Part(text="Go")])
        config = RunConfig(max_llm_calls=limit or 500)
        async for _ in runner.run_async(
            user_id="u", session_id="s", new_message=message, run_config=config
        ):
            pass
        session: Any = await service.get_session(app_name="probe", user_id="u", session_id="s")
        output = session.state.get("found")
        if output_type is not None:
            from pydantic import TypeAdapter

            output = TypeAdapter(output_type).validate_python(output)
        return Answer(output, model.told)

    def final(self, value: Any) -> str:
        return json.dumps(value)

    async def leave(self, *replies: Any, tools: Any) -> None:
        stream = events(LlmAgent(name="a", model=script(*replies), tools=list(tools)))
        async for _ in stream:
            break
        await stream.aclose()

    async def fallback(self) -> bool:
        chain = FallbackModel(models=[Overloaded(), script("Hello.")])
        return (await last_text(LlmAgent(name="a", model=chain)))[1] == "Hello."

    def token_rates(self) -> bool:
        names = ("tokens_per_minute", "rate_limit", "rate_limiter")
        return takes(RunConfig, *names) or takes(LlmAgent, *names) or takes(Runner, *names)

    async def scripted_model(self) -> bool:
        from google.adk.cli.agent_test_runner import MockModel

        called = []

        def weigh(item: str) -> str:
            """Weigh an item."""
            called.append(item)
            return "2 kg"

        model = MockModel.create([content(Call("weigh", {"item": "a"})), content("Done.")])
        await last_text(LlmAgent(name="a", model=model, tools=[weigh]))
        return called == ["a"]

    async def forbids_real_calls(self) -> bool:
        names = ("allow_model_requests", "forbid_real_calls", "forbid_model_calls")
        return takes(RunConfig, *names) or takes(Runner, *names)

    async def handoff(self) -> bool:
        other = LlmAgent(name="other", model=script("Done."), description="Works.")
        call = Call("transfer_to_agent", {"agent_name": "other"})
        first = LlmAgent(name="first", model=script(call), sub_agents=[other])
        return await last_text(first) == ("other", "Done.")

    async def side_by_side(self) -> bool:
        from google.adk.workflow import JoinNode, Workflow

        pair = [LlmAgent(name=n, model=script(n), mode="single_turn") for n in ("left", "right")]
        last = script("All.")
        editor = LlmAgent(name="editor", model=last, mode="single_turn")
        join = JoinNode(name="join")
        flow = Workflow(name="flow", edges=[("START", tuple(pair), join, editor)])
        return (await last_text(flow))[1] == "All." and "left" in last.told and "right" in last.told

    async def spans(self) -> list[str]:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        await self.ask("Done.")
        return [span.name for span in exporter.get_finished_spans()]

    def cycles(self) -> bool:
        return has_module("google.adk.workflow")

    def speech(self) -> bool:
        return hasattr(Runner, "run_live")


PEER = Peer()
