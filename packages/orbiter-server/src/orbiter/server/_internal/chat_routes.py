"""OpenAI's chat completions: any of its clients can talk to an agent as if it were a model."""

import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orbiter import Agent, Swarm, run
from orbiter.approval import describe
from orbiter.outputs import as_text
from orbiter.server._internal.chat_models import ChatRequest, conversation
from orbiter.server._internal.client_tools import CalledError, Prepared, Unseen
from orbiter.server._internal.endpoint import Endpoint
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.services import Services
from orbiter.server._internal.viewer import viewer_of
from orbiter.types import OrbiterError, RunResult, ToolCall, Usage, UserMessage

logger = logging.getLogger("orbiter.server")
Piece = tuple[str, Any]
# OpenAI has four words; of an answer that broke off the nearest is that it is not whole
FINISH = {
    "completed": "stop", "max_steps": "length", "usage_limit": "length", "timeout": "length",
    "length": "length", "incomplete": "length",
    "content_filter": "content_filter", "refusal": "content_filter",
}  # fmt: skip


def chat_endpoints(services: Services) -> list[Endpoint]:
    """Return the endpoints."""
    unseen = Unseen(services.database)
    started = int(time.time())

    async def models(request: Request) -> Response:
        data = [
            {"id": name, "object": "model", "created": started, "owned_by": "orbiter"}
            for name in services.agents
        ]
        return JSONResponse({"object": "list", "data": data})

    async def chat(request: Request, body: ChatRequest) -> Response:
        viewer = viewer_of(request)
        pieces = _pieces(services, unseen, body, viewer.user or "")
        # what fails at once gets a status that says so, also when a stream was asked for
        first = await anext(pieces)
        head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            return services.streams.raw(_chunks(head, first, pieces, usage), viewer)
        return JSONResponse(await _whole(head, first, pieces))

    return [
        Endpoint("GET", "/v1/models", "List the agents as OpenAI lists models", models),
        Endpoint(
            "POST", "/v1/chat/completions", "Talk to an agent as to a model of OpenAI's", chat,
            body=ChatRequest, errors=(404, 429, 502, 503),
        ),
    ]  # fmt: skip


async def _pieces(
    services: Services, unseen: Unseen, request: ChatRequest, user: str
) -> AsyncGenerator[Piece, None]:
    """Run the agent and yield ("text", str)*, ("calls", [ToolCall])?, ("end", (reason, usage))."""
    target = services.runs.agent(request.model)
    prepared = _prepared(target, request)
    messages = await unseen.restore(conversation(request.messages), user)
    last = messages[-1]
    said = (last.parts or last.content) if isinstance(last, UserMessage) else ""
    history = messages[:-1] if said else messages
    usage = Usage()
    whole = isinstance(target, Swarm)
    result: RunResult | None = None
    reason = "stop"
    stream = run.stream(
        target if prepared is None else prepared.agent, said,
        messages=history, provider=services.provider,
    )  # fmt: skip
    status = "failed"
    with services.runs.guest():
        try:
            async with stream:
                async for event in stream:
                    match event.type:
                        case "text" if not whole:
                            yield "text", event.text
                        case "usage":
                            usage += event.usage
                        case "result":
                            result = event.result
            if result is not None and result.stop_reason == "input_required":
                asked = " ".join(describe(request) for request in result.requests)
                raise OrbiterError(f"it waits for a person, whom a session can ask: {asked}")
            if result is not None:
                reason = FINISH.get(result.stop_reason, "stop")
                if whole:
                    yield "text", as_text(result.output_or_text)
            status = "completed"
        except CalledError:
            assert prepared is not None  # noqa: S101 - only a prepared agent raises it
            await unseen.keep(prepared.calls, prepared.said, user)
            reason, status = "tool_calls", "completed"
            yield "calls", prepared.calls
        except Exception as error:
            logger.warning("a chat with agent %s failed: %s", request.model, error)
            raise RequestError(502, f"the agent failed: {error}", code="agent_failed") from error
        finally:
            services.metrics.count_tokens(request.model, usage)
            services.metrics.runs.labels(request.model, status).inc()
        yield "end", (reason, usage)


def _prepared(target: Agent | Swarm, request: ChatRequest) -> Prepared | None:
    if isinstance(target, Agent):
        return Prepared(target, request)
    if request.tools:
        raise RequestError(
            400, f"'{request.model}' is a swarm, which cannot call a client's tools", param="tools"
        )
    return None


async def _whole(
    head: dict[str, Any], first: Piece, pieces: AsyncGenerator[Piece, None]
) -> dict[str, Any]:
    text, calls, reason, usage = "", [], "stop", Usage()
    async with aclosing(pieces):
        async for kind, value in _with(first, pieces):
            match kind:
                case "text":
                    text += value
                case "calls":
                    calls = [_call(call) for call in value]
                case "end":
                    reason, usage = value
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(usage)}


async def _chunks(
    head: dict[str, Any], first: Piece, pieces: AsyncGenerator[Piece, None], tell_usage: bool
) -> AsyncGenerator[bytes, None]:
    head = {**head, "object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return _data({**head, "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    try:
        async with aclosing(pieces):
            async for kind, value in _with(first, pieces):
                match kind:
                    case "text":
                        yield chunk({"content": value})
                    case "calls":
                        calls = [{"index": i, **_call(call)} for i, call in enumerate(value)]
                        yield chunk({"tool_calls": calls})
                    case "end":
                        reason, usage = value
                        yield chunk({}, reason)
                        if tell_usage:
                            yield _data({**head, "choices": [], "usage": _usage(usage)})
    except RequestError as error:
        yield _data({"error": {"message": str(error), "type": "server_error"}})
    yield b"data: [DONE]\n\n"


async def _with(first: Piece, pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[Piece, None]:
    yield first
    async for piece in pieces:
        yield piece


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def _data(value: Any) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()
