"""Telegram's Bot API and Slack's, as far as the bots of `examples` use them, in the test's process.

A test puts there what people write, looks at what was said to them, and breaks a method with
`faults`: what its next calls are answered instead, if not None.
"""

import asyncio
import json
from collections import defaultdict, deque
from typing import Any, Self

from aiohttp import WSMsgType, web
from support import servers

Object = dict[str, Any]


class FakeChat:
    """A server with methods. `called` has the fields of all calls that were answered by them."""

    def __init__(self) -> None:
        self.called: dict[str, list[Object]] = defaultdict(list)
        self.faults: dict[str, deque[web.Response | None]] = defaultdict(deque)
        self.refused: list[str] = []
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_get("/socket", self._socket)
        application.router.add_post("/{tail:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await servers.stop(self._runner)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        method = request.path.rpartition("/")[2]
        if not self.authorized(request, method):
            self.refused.append(method)
            return web.json_response({"ok": False, "error_code": 401, "error": "invalid_auth",
                                      "description": "Unauthorized"}, status=401)  # fmt: skip
        fields = await request.json()
        if self.faults[method] and (fault := self.faults[method].popleft()) is not None:
            return fault
        answer = await self.answer(method, fields)
        self.called[method].append(fields)
        return web.json_response(answer)

    def authorized(self, request: web.Request, method: str) -> bool:
        raise NotImplementedError

    async def answer(self, method: str, fields: Object) -> Object:
        raise NotImplementedError

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPNotFound


class FakeTelegram(FakeChat):
    """Updates wait until one behind them is asked for, as Telegram's do."""

    token = "4242:the-token-of-telegram"

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[Object] = []
        self._next = 700
        self._news = asyncio.Event()

    def authorized(self, request: web.Request, method: str) -> bool:
        return request.path == f"/bot{self.token}/{method}"

    def puts(self, update: Object) -> None:
        """Have an update wait, whatever is in it."""
        self._next += 1
        self.updates.append({"update_id": self._next, **update})
        self._news.set()

    def writes(self, user: int, text: str | None, *, number: int, room: str = "private") -> None:
        """What comes of a message that somebody sends to the bot."""
        sender = {"id": user, "is_bot": False, "first_name": "A person"}
        chat = {"id": user, "type": room}
        message = {"message_id": number, "from": sender, "chat": chat, "date": 1700000000}
        self.puts({"message": message | ({"photo": []} if text is None else {"text": text})})

    def said(self, user: int) -> list[str]:
        """The texts that somebody was sent."""
        return [one["text"] for one in self.called["sendMessage"] if one["chat_id"] == user]

    async def answer(self, method: str, fields: Object) -> Object:
        if method == "sendMessage":
            assert 0 < len(fields["text"].encode("utf-16-le")) // 2 <= 4096
            return {"ok": True, "result": {"message_id": 1}}
        offset = fields["offset"]
        self.updates = [one for one in self.updates if one["update_id"] >= offset]
        if not self.updates:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), fields["timeout"])
            except TimeoutError:
                return {"ok": True, "result": []}
        return {"ok": True, "result": self.updates[: fields["limit"]]}


class FakeSlack(FakeChat):
    """Envelopes are sent anew over each connection until they are acknowledged."""

    bot_token = "xoxb-the-bot-token"
    app_token = "xapp-the-app-token"

    def __init__(self) -> None:
        super().__init__()
        self.envelopes: dict[str, Object | str] = {}
        self.connections = 0
        self._socket_now: web.WebSocketResponse | None = None

    def authorized(self, request: web.Request, method: str) -> bool:
        token = self.app_token if method == "apps.connections.open" else self.bot_token
        return request.headers.get("Authorization") == f"Bearer {token}"

    async def answer(self, method: str, fields: Object) -> Object:
        if method == "chat.postMessage":
            assert 0 < len(fields["text"]) <= 40_000
            return {"ok": True, "ts": "1.1"}
        return {"ok": True, "url": f"{self.url.replace('http', 'ws')}/socket"}

    async def puts(self, envelope: str, content: Object | str) -> None:
        """Send an envelope, whatever is in it, until it is acknowledged."""
        self.envelopes[envelope] = content
        if self._socket_now is not None:
            await self._send(self._socket_now, envelope)

    async def writes(self, user: str, text: str, *, ts: str, **more: Any) -> None:
        """What comes of a message that somebody sends to the app."""
        event = {"type": "message", "channel": f"D{user}", "channel_type": "im", "user": user}
        event |= {"text": text, "ts": ts, "event_ts": ts, **more}
        payload = {"type": "event_callback", "event_id": f"Ev{ts}", "event": event}
        await self.puts(f"e-{ts}", {"type": "events_api", "payload": payload})

    async def ends_the_connection(self) -> None:
        """As Slack does now and then."""
        assert self._socket_now is not None
        await self._socket_now.send_json({"type": "disconnect", "reason": "refresh_requested"})
        await self._socket_now.close()

    def said(self, channel: str) -> list[Object]:
        """What was posted there."""
        return [one for one in self.called["chat.postMessage"] if one["channel"] == channel]

    async def _send(self, socket: web.WebSocketResponse, envelope: str) -> None:
        content = self.envelopes[envelope]
        if isinstance(content, dict):
            content = json.dumps({"envelope_id": envelope, **content})
        await socket.send_str(content)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.connections += 1
        await socket.send_json({"type": "hello"})
        for envelope in list(self.envelopes):
            await self._send(socket, envelope)
        self._socket_now = socket
        async for frame in socket:
            if frame.type is WSMsgType.TEXT:
                self.envelopes.pop(json.loads(frame.data)["envelope_id"], None)
        if self._socket_now is socket:
            self._socket_now = None
        return socket
