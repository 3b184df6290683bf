#!/usr/bin/env python3
"""A Slack app over sessions: it answers what the users of its list write to it directly.

Reads REDIS_URL, USERS_FILE, SLACK_BOT_TOKEN and SLACK_APP_TOKEN: see docs/chat-bots.md. It opens a
connection to Slack (Socket Mode), so that nothing of yours is open to the internet, and what comes
over it needs no signature.
"""

import html
import os
import re
from typing import Annotated, Any, Literal

import aiohttp
from chat_sessions import FrontEnd, LaterError, RefusedError, read, read_body, run, serve, variable
from pydantic import BaseModel, StringConstraints

PLACE = re.compile(
    r"(?P<channel>D\w{1,30}):(?P<thread_ts>\d{1,20}\.\d{1,20}):[\d.]{1,40}", re.ASCII
)
MAX_FRAME = 1024 * 1024  # bytes
Timestamp = Annotated[str, StringConstraints(pattern=r"^\d{1,20}\.\d{1,20}$")]
TRY_AGAIN = {"ratelimited", "internal_error", "fatal_error", "service_unavailable"}


class Reply(BaseModel):
    ok: bool
    error: str = ""
    url: str = ""


class Event(BaseModel):
    type: Literal["message"]
    channel_type: Literal["im"]  # in a channel others would read the answers
    subtype: Literal["file_share"] | None = None  # others are edits, deletions and the like
    bot_id: None = None  # its own words come back to it
    channel: Annotated[str, StringConstraints(pattern=r"^D\w{1,30}$")]
    user: str
    ts: Timestamp
    thread_ts: Timestamp | None = None
    text: str = ""


class Payload(BaseModel):
    event: Event


class Envelope(BaseModel):
    """What needs an acknowledgement, which says no more than that it was there."""

    envelope_id: str


class Heard(Envelope):
    type: Literal["events_api"]
    payload: Payload


class Slack:
    """The methods of Slack's Web API that are needed, and its Socket Mode."""

    name, memory, limit = "slack", -2, 40_000

    def __init__(self, http: aiohttp.ClientSession, bot_token: str, app_token: str) -> None:
        self._api = os.environ.get("SLACK_API", "https://slack.com/api")
        self._http, self._bot_token, self._app_token = http, bot_token, app_token

    def width(self, character: str) -> int:
        """Of how many characters of a message it is one, as `say` escapes it."""
        return len(html.escape(character, quote=False))

    async def listen(self, front: FrontEnd) -> None:
        """Be connected for ever; Slack ends a connection now and then."""
        while True:
            try:
                opened = await self._call("apps.connections.open", self._app_token)
                await self._take(front, opened.url)
            except LaterError as error:
                await front.wait(error)

    async def _take(self, front: FrontEnd, url: str) -> None:
        try:
            async with self._http.ws_connect(url, heartbeat=20, max_msg_size=MAX_FRAME) as socket:
                async for frame in socket:
                    data = frame.data if isinstance(frame.data, str) else ""
                    if not (envelope := read(Envelope, data)):
                        continue  # a greeting, for instance
                    if heard := read(Heard, data):
                        event = heard.payload.event
                        place = f"{event.channel}:{event.thread_ts or event.ts}:{event.ts}"
                        await front.hear(event.user, place, unescaped(event.text))
                    # Slack brings again what is not acknowledged, so that comes behind its work.
                    await socket.send_json({"envelope_id": envelope.envelope_id})
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise LaterError(f"the connection: {type(error).__name__}") from None
        raise LaterError("the connection has ended", 1)

    async def say(self, user: str, place: str, text: str) -> None:
        """Answer in the thread of a message."""
        if not (where := PLACE.fullmatch(place)):
            raise RefusedError("no place of a message")
        await self._call(
            "chat.postMessage",
            self._bot_token,
            **where.groupdict(),
            text=html.escape(text, quote=False),  # no mention of everybody
            parse="none",
            mrkdwn=False,
            unfurl_links=False,  # nobody but a person follows a link
            unfurl_media=False,
        )

    async def _call(self, method: str, token: str, **fields: Any) -> Reply:
        bearer = {"Authorization": f"Bearer {token}"}
        wait = aiohttp.ClientTimeout(total=30)
        try:
            async with self._http.post(
                f"{self._api}/{method}", json=fields, headers=bearer, timeout=wait
            ) as reply:
                said, status = read(Reply, await read_body(reply)), reply.status
                seconds = reply.headers.get("Retry-After", "")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise LaterError(f"{method}: {type(error).__name__}") from None
        if said and said.ok and status == 200:
            return said
        told = f"{method}: {status} {said.error[:200] if said else ''}"
        if said is None or status == 429 or status >= 500 or said.error in TRY_AGAIN:
            raise LaterError(told, int(seconds) if seconds.isdecimal() else 5)
        raise RefusedError(told)


def unescaped(text: str) -> str:
    """What a user has typed: Slack escapes three characters."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


async def main() -> None:
    tokens = variable("SLACK_BOT_TOKEN"), variable("SLACK_APP_TOKEN")
    async with aiohttp.ClientSession() as http:
        await serve(Slack(http, *tokens))


if __name__ == "__main__":
    run(main)
