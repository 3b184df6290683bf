"""The Responses API: what is asked for, and what the answers say.

Nothing is stored at the vendor: a conversation goes out whole each time, with the thoughts that
only the vendor can read.
"""

from collections.abc import AsyncIterator
from typing import Any

from orbiter.config import ModelSettings
from orbiter.models._internal.arguments import listed
from orbiter.models._internal.failures import MOST_WORDS, status_coded
from orbiter.models._internal.openai_events import Pieces, finish_of, usage_of
from orbiter.models._internal.openai_items import Said, to_items
from orbiter.models._internal.openai_wire import json_schema
from orbiter.models._internal.sdk import SdkClient
from orbiter.models._internal.settings import refusal
from orbiter.models._words import words
from orbiter.models.types import ModelError, ModelResponse, StreamChunk
from orbiter.types import Message

_ELSEWHERE = "the Responses API knows none; leave it out, or ask 'openai-chat:NAME'"
_CANNOT = {
    "seed": _ELSEWHERE,
    "stop": _ELSEWHERE,
    "thinking_budget": "the API knows no budget; give reasoning_effort",
}


class Responses:
    """One of the two APIs behind which a model of OpenAI's stands."""

    def __init__(self, client: SdkClient, *, strictly: bool, thinks: bool) -> None:
        """Speak to OpenAI, or who speaks like it.

        Args:
            client: Makes the calls.
            strictly: Whether there is a strict mode for schemas.
            thinks: Whether the model's thoughts can be asked for; others refuse that.
        """
        self._client = client
        self._strictly = strictly
        self._thinks = thinks
        self._vendor = client.config.provider

    def request(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None,
        max_tokens: int | None,
        output_schema: dict[str, Any] | None,
        settings: ModelSettings | None,
    ) -> dict[str, Any]:
        """Write a request.

        Raises:
            ModelError: Something in it is not possible.
        """
        instructions, items = to_items(messages, self._client.error, self._vendor)
        request: dict[str, Any] = {"input": items, "store": False}
        if instructions:
            request["instructions"] = instructions
        if self._thinks:
            request["include"] = ["reasoning.encrypted_content"]
        if tools:
            # strict is what the API would take them for
            request["tools"] = [
                {"type": "function", **tool["function"], "strict": False} for tool in tools
            ]
        if max_tokens is not None:
            request["max_output_tokens"] = max_tokens
        if output_schema is not None:
            wanted = json_schema(output_schema, strictly=self._strictly)
            request["text"] = {"format": {"type": "json_schema", **wanted}}
        if settings is not None:
            refusal(settings, _CANNOT, self._client.error)
            _add_settings(request, settings)
        return request

    async def answer(
        self, request: dict[str, Any], settings: ModelSettings | None
    ) -> ModelResponse:
        """Ask for an answer in one piece.

        Raises:
            ModelError: There is none.
        """

        async def ask(client: Any) -> Any:
            found = await client.responses.create(**request)
            if getattr(found, "status", None) == "failed":
                raise self._failure(getattr(found, "error", None))
            return found

        answer = await self._client.send(ask, settings)
        said = Said(self._vendor)
        for item in listed(getattr(answer, "output", None)):
            said.take(item)
        return ModelResponse(
            id=words(getattr(answer, "id", None)),
            model=words(getattr(answer, "model", None)) or request["model"],
            provider=self._vendor,
            content=said.text,
            tool_calls=said.calls,
            usage=usage_of(getattr(answer, "usage", None)),
            finish_reason=finish_of(answer, said),
            reasoning_content=said.thoughts,
            parts=said.parts,
        )

    async def pieces(
        self, request: dict[str, Any], settings: ModelSettings | None
    ) -> AsyncIterator[StreamChunk]:
        """Ask for an answer piece by piece.

        Raises:
            ModelError: It could not be begun or broke off.
        """
        answer = await self._client.send(
            lambda client: client.responses.create(stream=True, **request), settings
        )
        pieces = Pieces(self._vendor)
        async with self._client.streaming(answer) as events:
            async for event in events:
                kind = getattr(event, "type", None)
                if kind == "error":
                    raise self._failure(event)
                if kind == "response.failed":
                    response = getattr(event, "response", None)
                    raise self._failure(getattr(response, "error", None))
                chunk = pieces.add(event)
                if chunk is not None:
                    yield chunk
        yield StreamChunk(
            parts=pieces.said.parts,
            finish_reason=None if pieces.ended else "incomplete",
            id=pieces.id,
            model=pieces.model or request["model"],
            provider=self._vendor,
        )

    def _failure(self, told: Any) -> ModelError:
        code = words(getattr(told, "code", None)) or "no code"
        message = words(getattr(told, "message", None))[:MOST_WORDS] or "no reason"
        status = status_coded(code)
        return self._client.error(
            f"{self._vendor} gave up: {message} ({code[:100]})",
            status=status,
            retryable=ModelError("", status=status).retryable,
        )


def _add_settings(request: dict[str, Any], settings: ModelSettings) -> None:
    """Write settings into a request; those of tools mean nothing without tools."""
    if settings.top_p is not None:
        request["top_p"] = settings.top_p
    effort = settings.reasoning_effort
    if effort is not None:
        request["reasoning"] = {"effort": effort}
        if effort != "none":
            request["reasoning"]["summary"] = "auto"
    if "tools" not in request:
        return
    if settings.forces_a_call and settings.tool_choice != "required":
        request["tool_choice"] = {"type": "function", "name": settings.tool_choice}
    elif settings.tool_choice is not None:
        request["tool_choice"] = settings.tool_choice
    if settings.parallel_tool_calls is not None:
        request["parallel_tool_calls"] = settings.parallel_tool_calls
