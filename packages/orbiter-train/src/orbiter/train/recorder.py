"""The Recorder: keeps what models see and say while agents run, exactly as it went to them.

It stands between the runs and the model, so it has the system prompts that functions and contexts
made, the tools a swarm added, and each agent of a team. A model call continues a trajectory when it
begins with all of it; how runs are nested does not matter then.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from orbiter.agent import Provider
from orbiter.models import ModelProvider, ModelResponse, StreamChunk, get_provider
from orbiter.train._internal.canon import key_of, keys_of
from orbiter.train.trajectory import Trajectory
from orbiter.types import AssistantMessage, Message, ToolCall


class Recorder:
    """Collects trajectories; iterating over it gives the completed ones in their order."""

    def __init__(self) -> None:
        self._found: dict[str, Trajectory] = {}

    def provider(self, model: Provider | str) -> ModelProvider:
        """Return a model that is recorded, for `run(provider=...)` or `Evaluator(provider=...)`.

        Args:
            model: The model that answers: a provider, or a model string.
        """
        inner: Any = get_provider(model) if isinstance(model, str) else model
        return _Recorded(inner, self, model if isinstance(model, str) else "")

    def __iter__(self) -> Iterator[Trajectory]:
        return iter([found for found in self._found.values() if found.complete])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def clear(self) -> None:
        """Forget what was recorded."""
        self._found.clear()

    def add(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]],
        reply: AssistantMessage,
        model: str,
    ) -> None:
        """Keep one model call; it takes the place of the call it continues."""
        keys = list(keys_of(messages))
        before = next((key for key in reversed(keys) if key in self._found), None)
        if before is not None:
            del self._found[before]
        spoken = [*messages, reply]
        self._found[key_of(spoken)] = Trajectory(messages=spoken, tools=tools, model=model)


class _Recorded(ModelProvider):
    def __init__(self, inner: Any, recorder: Recorder, name: str) -> None:
        self._inner = inner
        self._recorder = recorder
        self.take_abilities_of(inner)
        self._name = name or self.model

    async def complete(self, messages: list[Message], **options: Any) -> ModelResponse:
        response: ModelResponse = await self._inner.complete(messages, **options)
        self._keep(messages, options, response.content, list(response.tool_calls))
        return response

    async def stream(self, messages: list[Message], **options: Any) -> AsyncIterator[StreamChunk]:
        text: list[str] = []
        calls: dict[int, dict[str, str]] = {}
        async for chunk in self._inner.stream(messages, **options):
            text.append(chunk.delta)
            for piece in chunk.tool_call_deltas:
                call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
                call["id"] = piece.id or call["id"]
                call["name"] = piece.name or call["name"]
                call["arguments"] += piece.arguments
            yield chunk
        made = [ToolCall(**calls[index]) for index in sorted(calls)]
        self._keep(messages, options, "".join(text), made)

    async def aclose(self) -> None:
        close = getattr(self._inner, "aclose", None)
        if close is not None:
            await close()

    def _keep(
        self, messages: list[Message], options: dict[str, Any], text: str, calls: list[ToolCall]
    ) -> None:
        reply = AssistantMessage(content=text, tool_calls=calls)
        self._recorder.add(list(messages), options.get("tools") or [], reply, self._name)
