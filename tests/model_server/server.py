"""Routes: which path is which protocol, and what the tests may ask about.

| path | answer |
|---|---|
| POST /v1/messages | Anthropic Messages API, whole or streamed |
| POST /v1/messages/count_tokens | four characters a token |
| POST /v1/responses, /v1/chat/completions | OpenAI's APIs |
| POST /v1beta/models/MODEL:generateContent, :streamGenerateContent, :countTokens | Google's |
| POST /model/MODEL/invoke, /model/MODEL/invoke-with-response-stream | Amazon Bedrock |
| POST / | AWS STS: AssumeRoleWithWebIdentity |
| GET /stats, POST /reset | the journal's counts |
| GET /last | the last request that a model was asked with |
| GET /healthz | 200 |
| other paths under /api/ | 200 `{}`: what a CLI reports or asks in passing |
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Protocol

from . import anthropic, bedrock, google, openai_chat, openai_responses
from .conversation import Conversation
from .directives import DirectiveError
from .http import Connection, Events, Request, Response, json_response
from .journal import Journal
from .script import Reply, decide


class Wire(Protocol):
    """What a protocol's module offers."""

    def read(
        self, data: Mapping[str, Any], headers: Mapping[str, str], size: int
    ) -> Conversation: ...
    def error(self, status: int, message: str) -> dict[str, Any]: ...
    async def whole(self, conversation: Conversation, reply: Reply) -> dict[str, Any]: ...
    def stream(self, conversation: Conversation, reply: Reply) -> Events: ...


PROTOCOLS: dict[str, Wire] = {
    "/v1/messages": anthropic,
    "/v1/responses": openai_responses,
    "/v1/chat/completions": openai_chat,
}
BEDROCK_STREAM = {"content-type": bedrock.FRAMES}


class ModelServer:
    """The scripted model behind HTTP."""

    def __init__(self, otherwise: str = "") -> None:
        self.journal = Journal()
        self._otherwise = otherwise

    async def handle(self, request: Request) -> Response:
        """Answer one request and count it."""
        path = request.path.rstrip("/") or "/"
        if path in ("/stats", "/last", "/reset", "/healthz"):
            return self._about(path)
        self.journal.requests[path] += 1
        response = await self._answer(request, path)
        self.journal.statuses[response.status] += 1
        return response

    def _about(self, path: str) -> Response:
        if path == "/reset":
            active = self.journal.active
            self.journal = Journal(active=active)
        if path == "/last":
            return json_response(dict(self.journal.last))
        return json_response(self.journal.report() if path == "/stats" else {})

    async def _answer(self, request: Request, path: str) -> Response:
        if path.startswith("/api/"):
            return json_response({})
        if path == "/v1/models":
            return json_response({"data": [], "models": [], "has_more": False})
        if path == "/v1/messages/count_tokens" and request.method == "POST":
            return json_response({"input_tokens": max(len(request.body) // 4, 1)})
        if path == "/v1/responses" and request.method == "GET":
            # codex asks for a WebSocket first; 426 sends it to POST at once, 404 after seven tries.
            return json_response(openai_responses.error(426, "no WebSocket here"), 426)
        if request.method == "POST" and (asked := google.of_path(path)):
            return await self._google(request, *asked)
        if request.method == "POST" and path == "/":
            status, answer = bedrock.assume_role(request.body)
            return Response(status, answer, headers={"content-type": "text/xml"})
        if request.method == "POST" and (invoked := bedrock.of_path(path)):
            return await self._bedrock(request, *invoked)
        protocol = PROTOCOLS.get(path)
        if protocol is None or request.method != "POST":
            message = f"no such endpoint: {request.method} {path}"
            return json_response(anthropic.error(404, message), 404)
        return await self._model(request, protocol)

    async def _google(self, request: Request, model: str, verb: str) -> Response:
        """Its paths say what the bodies of the others do."""
        if verb == "countTokens":
            return json_response({"totalTokens": max(len(request.body) // 4, 1)})
        return await self._model(
            request, google, {"model": model, "stream": verb == "streamGenerateContent"}
        )

    async def _bedrock(self, request: Request, model: str, verb: str) -> Response:
        """Its paths say what the bodies of others do; only what STS's keys have signed counts."""
        if why := bedrock.unsigned(request.headers):
            return json_response(bedrock.error(403, why), 403)
        streamed = verb != "invoke"
        answer = await self._model(request, bedrock, {"model": model, "stream": streamed})
        return answer if answer.events is None else replace(answer, headers=BEDROCK_STREAM)

    async def _model(
        self, request: Request, protocol: Wire, told: Mapping[str, object] | None = None
    ) -> Response:
        try:
            data = self.journal.last = request.json() | dict(told or {})
            conversation = protocol.read(data, request.headers, len(request.body))
            reply = decide(conversation, self.journal, self._otherwise)
        except (DirectiveError, ValueError) as error:
            return json_response(protocol.error(400, f"scripted model: {error}"), 400)
        if reply.error is not None:
            message = f"scripted model: the prompt asks for status {reply.error}"
            return json_response(protocol.error(reply.error, message), reply.error)
        if data.get("stream"):
            return Response(events=self._counted(protocol.stream(conversation, reply)))
        return json_response(await self._whole(protocol, conversation, reply))

    async def _whole(self, protocol: Wire, conversation: Conversation, reply: Reply) -> object:
        self.journal.active += 1
        try:
            return await protocol.whole(conversation, reply)
        finally:
            self.journal.active -= 1

    async def _counted(self, stream: Events) -> Events:
        self.journal.active += 1
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    yield event
        finally:
            self.journal.active -= 1


async def start(host: str, port: int, otherwise: str = "") -> asyncio.Server:
    """Listen on `host:port`; port 0 takes a free one."""
    server = ModelServer(otherwise)
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: Connection(server.handle), host, port, backlog=1024)
