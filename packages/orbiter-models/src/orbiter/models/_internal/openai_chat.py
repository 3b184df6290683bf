"""Chat completions: what is asked for, and what the answers say."""

from collections.abc import AsyncIterator
from typing import Any

from orbiter.config import ModelSettings
from orbiter.models._internal.openai_messages import Thoughts, to_wire
from orbiter.models._internal.openai_wire import (
    add_settings,
    chunk_of,
    finish_of,
    json_schema,
    text_in,
    usage_of,
)
from orbiter.models._internal.sdk import SdkClient
from orbiter.models._internal.server import ModelServer
from orbiter.models._internal.settings import refusal
from orbiter.models.types import ModelResponse, StreamChunk
from orbiter.types import Message, ToolCall

_CANNOT = {
    "thinking_budget": "chat completions know no budget; give reasoning_effort, or what a "
    "compatible server calls it in extra_body"
}


class Chat:
    """One of the two APIs behind which a model of OpenAI's stands."""

    def __init__(self, client: SdkClient, server: ModelServer, *, strictly: bool) -> None:
        """Speak to a server.

        Args:
            client: Makes the calls.
            server: In what it differs from OpenAI's own.
            strictly: Whether it has a strict mode for schemas.
        """
        self._client = client
        self._server = server
        self._strictly = strictly

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
        request: dict[str, Any] = {
            "messages": to_wire(messages, self._client.error, self._server),
        }
        if tools:
            request["tools"] = tools
        if max_tokens is not None:
            request[self._server.tokens_field] = max_tokens
        if output_schema is not None:
            wanted = json_schema(output_schema, strictly=self._strictly)
            request["response_format"] = {"type": "json_schema", "json_schema": wanted}
        if settings is not None:
            refusal(settings, _CANNOT, self._client.error)
            add_settings(request, settings, self._server)
        return request

    async def answer(
        self, request: dict[str, Any], settings: ModelSettings | None
    ) -> ModelResponse:
        """Ask for an answer in one piece.

        Raises:
            ModelError: There is none.
        """
        answer = await self._client.send(
            lambda client: client.chat.completions.create(**request), settings
        )
        if not answer.choices:
            raise self._client.error("the answer holds no choices")
        choice = answer.choices[0]
        thoughts = Thoughts()
        thoughts.add(choice.message)
        content = text_in(choice.message.content) or choice.message.refusal or ""
        calls = choice.message.tool_calls or ()
        return ModelResponse(
            id=answer.id or "",
            model=answer.model or request["model"],
            provider=self._client.config.provider,
            content=content,
            tool_calls=[
                ToolCall(
                    id=call.id or "", name=call.function.name, arguments=call.function.arguments
                )
                for call in calls
            ],
            usage=usage_of(answer.usage),
            finish_reason=finish_of(choice.finish_reason, choice.message.refusal),
            reasoning_content=thoughts.text,
            parts=thoughts.parts(content, len(calls)),
        )

    async def pieces(
        self, request: dict[str, Any], settings: ModelSettings | None
    ) -> AsyncIterator[StreamChunk]:
        """Ask for an answer piece by piece.

        Raises:
            ModelError: It could not be begun or broke off.
        """
        if self._server.stream_usage:
            request["stream_options"] = {"include_usage": True}
        answer = await self._client.send(
            lambda client: client.chat.completions.create(stream=True, **request), settings
        )
        ended = False
        model, identity = request["model"], ""
        refusal = content = ""
        calls: set[int] = set()
        thoughts = Thoughts()
        async with self._client.streaming(answer) as events:
            async for event in events:
                delta = event.choices[0].delta if event.choices else None
                refusal += (delta and getattr(delta, "refusal", None)) or ""
                chunk = chunk_of(event, refusal, thoughts.add(delta))
                content += chunk.delta
                calls.update(piece.index for piece in chunk.tool_call_deltas)
                ended = ended or chunk.finish_reason is not None
                model, identity = event.model or model, event.id or identity
                yield chunk
        yield StreamChunk(
            parts=thoughts.parts(content, len(calls)),
            finish_reason=None if ended else "incomplete",
            id=identity,
            model=model,
            provider=self._client.config.provider,
        )
