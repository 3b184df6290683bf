"""How langgraph is asked the questions of `probes`: its agents are those of `langchain`."""

import os

# its tracing makes OpenTelemetry spans where it is told so before it is imported
os.environ |= {
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_OTEL_ENABLED": "true",
    "LANGSMITH_OTEL_ONLY": "true",
    "LANGSMITH_API_KEY": "none",
}

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware, ModelFallbackMiddleware
from langchain.agents.structured_output import StructuredOutputError, ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.rate_limiters import InMemoryRateLimiter
from langgraph.errors import GraphRecursionError
from langsmith.run_trees import get_cached_client
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from probes import Answer, Call, takes
from pydantic import Field


def message(reply: Any) -> AIMessage:
    """Write a reply as the model of this framework gives it."""
    if isinstance(reply, str):
        return AIMessage(reply)
    calls = reply if isinstance(reply, list) else [reply]
    return AIMessage(
        "",
        tool_calls=[
            {"name": call.name, "args": call.arguments, "id": f"call_{number}"}
            for number, call in enumerate(calls)
        ],
    )


class Script(BaseChatModel):
    """Replies in order; `told` is what came with the last request."""

    left: list[Any] = Field(default_factory=list)
    told: str = ""
    status: int = 200

    @property
    def _llm_type(self) -> str:
        return "script"

    def _generate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
        if self.status != 200:
            raise ConnectionError(f"status {self.status}")
        self.told = str(messages)
        return ChatResult(generations=[ChatGeneration(message=message(self.left.pop(0)))])

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def script(*replies: Any, status: int = 200) -> Script:
    """A model that replies so."""
    return Script(left=list(replies), status=status)


SPANS = InMemorySpanExporter()
PROVIDER = TracerProvider()
PROVIDER.add_span_processor(SimpleSpanProcessor(SPANS))
trace.set_tracer_provider(PROVIDER)
GO: Any = {"messages": [("user", "Go")]}


class Peer:
    """See `probes.Adapter`."""

    Stopped = (StructuredOutputError, GraphRecursionError, ValueError, TypeError, OSError)

    async def ask(
        self, *replies: Any, tools: Any = (), output_type: Any = None, limit: int | None = None
    ) -> Answer:
        model = script(*replies)
        # the option that gives a run back which has met its limit
        stops: Any = [ModelCallLimitMiddleware(run_limit=limit)] if limit else []
        form = ToolStrategy(output_type) if output_type else None
        agent: Any = create_agent(model, list(tools), response_format=form, middleware=stops)
        state = await agent.ainvoke(GO)
        output = state["structured_response"] if output_type else state["messages"][-1].content
        return Answer(output, model.told)

    def final(self, value: Any) -> Call:
        return Call("City", value if isinstance(value, dict) else {"response": value})

    async def leave(self, *replies: Any, tools: Any) -> None:
        stream = create_agent(script(*replies), list(tools)).astream(GO)
        async for _ in stream:
            break
        await stream.aclose()

    async def fallback(self) -> bool:
        chain: Any = [ModelFallbackMiddleware(script("Hello."))]
        agent: Any = create_agent(script(status=529), middleware=chain)
        return bool((await agent.ainvoke(GO))["messages"][-1].content == "Hello.")

    def token_rates(self) -> bool:
        return takes(InMemoryRateLimiter, "tokens_per_minute", "tokens_per_second")

    async def scripted_model(self) -> bool:
        called = []

        def weigh(item: str) -> str:
            """Weigh an item."""
            called.append(item)
            return "2 kg"

        replies: Any = [message(Call("weigh", {"item": "a"})), message("Done.")]
        try:
            await create_agent(FakeMessagesListChatModel(responses=replies), [weigh]).ainvoke(GO)
        except NotImplementedError:
            return False
        return called == ["a"]

    async def forbids_real_calls(self) -> bool:
        names = ("allow_model_requests", "forbid_real_calls", "forbid_model_calls")
        return takes(create_agent, *names) or takes(BaseChatModel, *names)

    async def handoff(self) -> bool:
        return takes(create_agent, "handoffs", "agents", "sub_agents")

    async def side_by_side(self) -> bool:
        import operator
        from typing import Annotated, TypedDict

        from langgraph.graph import END, START, StateGraph

        class State(TypedDict):
            found: Annotated[list[str], operator.add]

        graph: Any = StateGraph(State)
        for name in ("left", "right"):
            graph.add_node(name, lambda state, name=name: {"found": [name]})
            graph.add_edge(START, name)
        graph.add_node("editor", lambda state: {"found": [str(len(state["found"]))]})
        graph.add_edge(["left", "right"], "editor")
        graph.add_edge("editor", END)
        state = await graph.compile().ainvoke({"found": []})
        return bool(state["found"] == ["left", "right", "2"])

    async def spans(self) -> list[str]:
        await self.ask("Done.")
        get_cached_client().flush()
        return [span.name for span in SPANS.get_finished_spans()]

    def cycles(self) -> bool:
        import langgraph.graph

        return hasattr(langgraph.graph, "StateGraph")

    def speech(self) -> bool:
        import langgraph.graph

        return any("realtime" in name.lower() for name in dir(langgraph.graph))


PEER = Peer()
