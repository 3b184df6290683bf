"""The WebSocket: the same runs and tasks as over HTTP, many of them over one connection.

Client to server: `{"type": "run", "id": "a", "agent" | "session_id", "input", "images",
"request_id"}`,
`{"type": "follow", "id": "a", "run" | "task", "after": 0}`, `{"type": "cancel", "run" | "task"}`,
`{"type": "stop", "id": "a"}`. Server to client: `{"type": "started", "id", "run": {...}}`,
`{"type": "event", "id", "event": {...}}`, `{"type": "done", "id"}`, `{"type": "error", "id",
"error": {...}}`.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect

from orbiter.server._internal.auth import SUBPROTOCOL
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.images import said
from orbiter.server._internal.services import Services
from orbiter.server._internal.sse import Batch, while_allowed
from orbiter.server._internal.task_routes import follow, task_of
from orbiter.server._internal.viewer import viewer_of
from orbiter.server.data_url import Images
from orbiter.server.models import MAX_INPUT, RequestId

PROTOCOL = "orbiter"
MOST_FOLLOWED = 100


class _Wish(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(default="", max_length=100)


class _Run(_Wish):
    type: Literal["run"]
    input: str = Field(default="", max_length=MAX_INPUT)
    images: Images = []
    agent: str | None = None
    session_id: str | None = None
    request_id: RequestId = None


class _Follow(_Wish):
    type: Literal["follow"]
    run: str | None = None
    task: str | None = None
    after: int = Field(default=0, ge=0, le=2**53)


class _Cancel(_Wish):
    type: Literal["cancel"]
    run: str | None = None
    task: str | None = None


class _Stop(_Wish):
    type: Literal["stop"]


Wish = Annotated[_Run | _Follow | _Cancel | _Stop, Field(discriminator="type")]
_wishes: TypeAdapter[Wish] = TypeAdapter(Wish)


class Connection:
    """One client."""

    def __init__(self, services: Services, socket: WebSocket) -> None:
        self._services = services
        self._socket = socket
        self._viewer = viewer_of(socket)
        self._followed: dict[str, asyncio.Task[None]] = {}
        self._sending = asyncio.Lock()

    async def serve(self) -> None:
        """Do what the client wishes until it leaves."""
        offered = self._socket.headers.get("sec-websocket-protocol", "")
        # a protocol that was offered has to be chosen; the one with the token is not echoed
        plain = [name.strip() for name in offered.split(",") if SUBPROTOCOL not in name]
        await self._socket.accept(PROTOCOL if PROTOCOL in plain else None)
        try:
            if await while_allowed(self._listen(), self._viewer):
                await self._socket.close(1008, "your token or your right is gone: sign in again")
        finally:
            for task in self._followed.values():
                task.cancel()

    async def _listen(self) -> None:
        with contextlib.suppress(WebSocketDisconnect, KeyError):  # gone, or it sent bytes
            while True:
                await self._take(await self._socket.receive_text())

    async def _take(self, text: str) -> None:
        key = ""
        try:
            if len(text) > self._services.config.max_body_bytes:
                raise RequestError(413, "the message is too long")
            wish = _wishes.validate_json(text)
            key = wish.id
            await self._grant(wish)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            await self._error(key, RequestError(422, f"{where}: {problem['msg']}".lstrip(": ")))
        except RequestError as error:
            await self._error(key, error)

    async def _grant(self, wish: Wish) -> None:
        services, user = self._services, self._viewer.user
        match wish:
            case _Run():
                self._check_room(wish.id)
                message = said(wish.input, wish.images)
                session = wish.session_id
                if session is None:
                    services.runs.agent(wish.agent or "")
                    services.runs.check_room()
                    session = (await services.sessions.create(wish.agent or "", user)).id
                run = await services.runs.start(session, message, user, wish.request_id)
                await self._send(
                    {"type": "started", "id": wish.id, "run": run.model_dump(mode="json")}
                )
                self._follow(wish.id, services.journal.read(run.id, 0))
            case _Follow(run=str(run_id)):
                await services.sessions.run(run_id, user)
                self._follow(wish.id, services.journal.read(run_id, wish.after))
            case _Follow(task=str(task_id)):
                await task_of(services, task_id, user)
                self._follow(wish.id, follow(services, task_id, wish.after))
            case _Cancel(run=str(run_id)):
                await services.runs.cancel(run_id, user)
            case _Cancel(task=str(task_id)):
                await task_of(services, task_id, user)
                await services.broker.cancel(task_id)
            case _Stop():
                task = self._followed.pop(wish.id, None)
                if task is not None:
                    task.cancel()
            case _:
                raise RequestError(422, "name a run or a task")

    def _check_room(self, key: str) -> None:
        if key in self._followed:
            raise RequestError(409, f"id '{key}' is in use: stop it first or take another")
        if len(self._followed) >= MOST_FOLLOWED:
            raise RequestError(429, f"a connection follows {MOST_FOLLOWED} things at most")
        self._services.streams.require_room(self._viewer)

    def _follow(self, key: str, batches: AsyncIterator[Batch]) -> None:
        self._check_room(key)
        following = asyncio.create_task(self._pass_on(key, batches))
        # each is an event stream, whatever it comes through
        count, user = self._services.streams.count, self._viewer.user
        count(1, user)
        following.add_done_callback(lambda _: count(-1, user))
        self._followed[key] = following

    async def _pass_on(self, key: str, batches: AsyncIterator[Batch]) -> None:
        try:
            head = f'{{"type":"event","id":{json.dumps(key)},"event":'
            async for batch in batches:
                for _, data in batch:
                    await self._send_text(f"{head}{data}}}")
            await self._send({"type": "done", "id": key})
        except (WebSocketDisconnect, RuntimeError):
            pass  # the client is gone, and serve() notices
        finally:
            if self._followed.get(key) is asyncio.current_task():
                del self._followed[key]

    async def _error(self, key: str, error: RequestError) -> None:
        told = {"message": str(error), "code": error.code, "status": error.status}
        await self._send({"type": "error", "id": key, "error": told})

    async def _send(self, message: dict[str, Any]) -> None:
        await self._send_text(json.dumps(message, separators=(",", ":")))

    async def _send_text(self, text: str) -> None:
        async with self._sending:
            await self._socket.send_text(text)
