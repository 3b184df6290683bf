"""A local server that speaks the wire formats of the vendors' APIs, and minds them.

It gives the answers it was told to, whole or streamed in small pieces, whichever API asks; a
request that the real API would refuse is refused here with status 400.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aiohttp import web
from model_server.bedrock import FRAMES
from support import servers
from support.bedrock_wire import bedrock_frames
from support.embedding_wire import (
    Vectors,
    check_google_embeddings,
    check_openai_embeddings,
    check_vertex_embeddings,
    google_vectors,
    openai_vectors,
    spelled,
    vertex_vectors,
)
from support.google_wire import check_google, google_events, google_whole
from support.responses_wire import check_responses, responses_events, responses_whole
from support.token_server import TokenServer
from support.wire_checks import check_anthropic, check_openai, signature


@dataclass(frozen=True)
class Answer:
    """What the model says: text, calls as (id, name, arguments), tokens, and why it ended.

    `thinking` comes before it, `blocks` of the vendor's own behind the thoughts.

    A stream that `breaks_off` loses its connection after the text; one that `ends_early` is closed
    in good order before its end, "after text" or "before the end marker".
    """

    text: str = ""
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    input_tokens: int = 100
    output_tokens: int = 7
    cached_tokens: int = 0
    written_tokens: int = 0
    thinking_tokens: int = 0
    finish: str = ""
    breaks_off: bool = False
    ends_early: str = ""
    refusal: str = ""
    error: str = ""
    """The type of an error that a stream tells where its text would begin."""
    thinking: str = ""
    blocks: tuple[dict[str, Any], ...] = ()
    thinking_field: str = "reasoning_content"
    phase: str = ""
    """What OpenAI calls its text."""
    silent: bool = False
    """Whether a stream tells the items without their pieces."""

    @property
    def signature(self) -> str:
        """What Anthropic would want back with the thoughts."""
        return signature(self.thinking)


@dataclass(frozen=True)
class Refusal:
    """An HTTP error."""

    status: int
    message: str = "the model is tired"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Received:
    """A request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    query: str = ""
    raw: bytes = b""
    target: str = ""
    """Path and query as they were sent."""


class WireServer:
    """Answers in order; `received` is what was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer | Vectors | Refusal] = []
        self.received: list[Received] = []
        self.url = ""
        self.minds: Callable[[dict[str, Any]], None] | None = None
        """What this server refuses besides, by an AssertionError."""
        self.tokens = TokenServer()
        self._runner: web.AppRunner | None = None

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator["WireServer"]:
        """Listen on a port, by default on a free one."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._openai)
        app.router.add_post("/v1/responses", self._responses)
        app.router.add_post("/v1/embeddings", self._openai_vectors)
        app.router.add_post("/openai/deployments/{name}/chat/completions", self._openai)
        app.router.add_post("/openai/deployments/{name}/embeddings", self._openai_vectors)
        app.router.add_post("/openai/responses", self._responses)
        app.router.add_post("/v1/messages", self._anthropic)
        app.router.add_post("/v1/models/{model}:{verb}", self._google)
        app.router.add_post("/model/{model}/{verb}", self._bedrock)
        on_vertex = "projects/{project}/locations/{location}/publishers"
        app.router.add_post(f"/v1/{on_vertex}/anthropic/models/{{model}}:{{verb}}", self._anthropic)
        app.router.add_post(f"/v1beta1/{on_vertex}/google/models/{{model}}:{{verb}}", self._google)
        app.router.add_post("/token", self.tokens.answer)
        runner = self._runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            await servers.stop(runner)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        server = self._runner.server if self._runner else None
        return len(server.connections) if server else 0

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, check_openai, openai_whole, openai_events)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, check_responses, responses_whole, responses_events)

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, check_anthropic, anthropic_whole, anthropic_events)

    async def _openai_vectors(self, request: web.Request) -> web.StreamResponse:
        if not (self.answers and isinstance(self.answers[0], Vectors | Refusal)):
            # nobody wrote down what a page's model makes of a text
            self.answers.insert(0, Vectors(of=spelled))
        return await self._answer(request, check_openai_embeddings, openai_vectors, None)

    async def _google(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["verb"] == "batchEmbedContents":
            return await self._answer(request, check_google_embeddings, google_vectors, None)
        if request.match_info["verb"] == "predict":
            return await self._answer(request, check_vertex_embeddings, vertex_vectors, None)
        return await self._answer(request, check_google, google_whole, google_events)

    async def _bedrock(self, request: web.Request) -> web.StreamResponse:
        frames = partial(bedrock_frames, events=anthropic_events)
        return await self._answer(request, check_anthropic, anthropic_whole, frames, kind=FRAMES)

    async def _answer(
        self,
        request: web.Request,
        check: Any,
        whole: Any,
        events: Any,
        *,
        kind: str = "text/event-stream",
    ) -> web.StreamResponse:
        body = await request.json()
        headers = {k.lower(): v for k, v in request.headers.items()}
        received = Received(
            request.path,
            headers,
            dict(body),
            request.query_string,
            await request.read(),
            request.raw_path,
        )
        self.received.append(received)
        number = len(self.received)
        identity = {"x-request-id": f"req_{number}", "request-id": f"req_{number}"}
        try:
            check(body)
            if self.minds is not None:
                self.minds(body)
        except AssertionError as problem:
            return _error(Refusal(400, str(problem)), identity)
        answer = self.answers.pop(0)
        if isinstance(answer, Refusal):
            return _error(answer, identity)
        streamed = "stream" in request.match_info.get("verb", "")
        body.setdefault("model", request.match_info.get("model"))
        if not (body.get("stream") or streamed):
            return web.json_response(whole(answer, body), headers=identity)
        response = web.StreamResponse(headers={"Content-Type": kind, **identity})
        await response.prepare(request)
        for event in events(answer, body):
            await response.write(event if isinstance(event, bytes) else event.encode())
        if answer.breaks_off and request.transport is not None:
            request.transport.abort()
        return response


def _error(refusal: Refusal, identity: dict[str, str]) -> web.Response:
    body = {"type": "error", "error": {"type": "api_error", "message": refusal.message}}
    return web.json_response(body, status=refusal.status, headers={**refusal.headers, **identity})


def _pieces(text: str, size: int = 4) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def _openai_usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": answer.cached_tokens,
            "cache_write_tokens": answer.written_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": answer.thinking_tokens},
    }


def _openai_calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "id": identity,
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for identity, name, arguments in answer.calls
    ]


def _thought(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _openai_finish(answer: Answer) -> str:
    return answer.finish or ("tool_calls" if answer.calls else "stop")


def openai_whole(answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
    """Write the answer as a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    message["refusal"] = answer.refusal or None
    if answer.thinking and answer.thinking_field == "content":
        message["content"] = [_thought(answer.thinking), {"type": "text", "text": answer.text}]
    elif answer.thinking:
        message[answer.thinking_field] = answer.thinking
    if answer.calls:
        message["tool_calls"] = _openai_calls(answer)
    choice = {"index": 0, "message": message, "finish_reason": _openai_finish(answer)}
    return {
        "id": "answer_1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [choice],
        "usage": _openai_usage(answer),
    }


def openai_events(answer: Answer, body: dict[str, Any]) -> Iterator[str]:
    """Write the answer as chunks of a chat completion."""
    base = {
        "id": "answer_1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": body["model"],
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps({**base, 'choices': [choice], 'usage': None})}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    if answer.error:
        failure = {"error": {"type": answer.error, "message": "not now"}}
        yield f"data: {json.dumps(failure)}\n\n"
        return
    for piece in _pieces(answer.thinking):
        apart = answer.thinking_field != "content"
        yield chunk({answer.thinking_field: piece if apart else [_thought(piece)]})
    for piece in _pieces(answer.text):
        yield chunk({"content": piece})
    for piece in _pieces(answer.refusal):
        yield chunk({"refusal": piece})
    if answer.breaks_off or answer.ends_early == "after text":
        return
    for index, call in enumerate(_openai_calls(answer)):
        arguments = call["function"].pop("arguments")
        call["function"]["arguments"] = ""
        yield chunk({"tool_calls": [{"index": index, **call}]})
        for piece in _pieces(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if answer.ends_early:
        return
    yield chunk({}, _openai_finish(answer))
    last = {**base, "choices": [], "usage": _openai_usage(answer)}
    yield f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n"


def _anthropic_usage(answer: Answer) -> dict[str, Any]:
    return {
        "input_tokens": answer.input_tokens - answer.cached_tokens - answer.written_tokens,
        "cache_creation_input_tokens": answer.written_tokens,
        "cache_read_input_tokens": answer.cached_tokens,
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"thinking_tokens": answer.thinking_tokens},
    }


def _anthropic_finish(answer: Answer) -> str:
    return answer.finish or ("tool_use" if answer.calls else "end_turn")


def anthropic_whole(answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
    """Write the answer as a message."""
    blocks: list[dict[str, Any]] = []
    if answer.thinking:
        thought = {"type": "thinking", "thinking": answer.thinking}
        blocks.append({**thought, "signature": answer.signature})
    blocks += answer.blocks
    blocks += [{"type": "text", "text": answer.text}] if answer.text else []
    blocks += [
        {"type": "tool_use", "id": identity, "name": name, "input": arguments}
        for identity, name, arguments in answer.calls
    ]
    return {
        "id": "answer_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
        "stop_reason": _anthropic_finish(answer),
        "stop_sequence": None,
        "usage": _anthropic_usage(answer),
    }


def anthropic_events(answer: Answer, body: dict[str, Any]) -> Iterator[str]:
    """Write the answer as the events of a message."""

    def event(kind: str, **data: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"

    message = anthropic_whole(answer, body)
    blocks = message["content"]
    start = {**message, "content": [], "stop_reason": None}
    start["usage"] = {**message["usage"], "output_tokens": 1}
    yield event("message_start", message=start)
    if answer.error:
        yield event("error", error={"type": answer.error, "message": "not now"})
        return
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        elif block["type"] == "thinking":
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            thoughts = _pieces(block["thinking"])
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in thoughts]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif "input" not in block:
            empty, deltas = block, []
        else:
            empty = {**block, "input": {}}
            pieces = _pieces(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        yield event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        if answer.breaks_off or answer.ends_early == "after text":
            return
        yield event("content_block_stop", index=index)
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=stop, usage={"output_tokens": answer.output_tokens})
    if not answer.ends_early:
        yield event("message_stop")
