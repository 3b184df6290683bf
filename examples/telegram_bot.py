#!/usr/bin/env python3
"""A Telegram bot over sessions: it answers what the users of its list write to it in private.

Reads REDIS_URL, USERS_FILE and TELEGRAM_BOT_TOKEN: see docs/chat-bots.md. It asks Telegram for
messages (long polling), so that nothing of yours is open to the internet.
"""

import os
import re
from typing import Any, Literal

import aiohttp
from chat_sessions import FrontEnd, LaterError, RefusedError, read, read_body, run, serve, variable
from pydantic import BaseModel, Field

POLL_SECONDS = 25
NUMBER = re.compile(r"[0-9]{1,18}")


class Parameters(BaseModel):
    retry_after: int = 5


class Reply(BaseModel):
    ok: bool
    result: Any = None
    description: str = ""
    parameters: Parameters = Parameters()


class Sender(BaseModel):
    id: int


class Room(BaseModel):
    type: Literal["private"]  # in a group others would read the answers


class Message(BaseModel):
    message_id: int
    sender: Sender = Field(alias="from")
    chat: Room
    text: str = ""


class Numbered(BaseModel):
    update_id: int


class Update(Numbered):
    message: Message


class Telegram:
    """The methods of Telegram's Bot API that are needed. The token is in their addresses."""

    name, memory, limit = "telegram", -1, 4096

    def __init__(self, http: aiohttp.ClientSession, token: str) -> None:
        api = os.environ.get("TELEGRAM_API", "https://api.telegram.org")
        self._http, self._methods = http, f"{api}/bot{token}"

    def width(self, character: str) -> int:
        """Telegram counts units of UTF-16."""
        return 1 + (character > "\uffff")

    async def listen(self, front: FrontEnd) -> None:
        """Take updates for ever; Telegram forgets one when it is asked for those behind it."""
        offset = 0
        while True:
            try:
                offset = await self._take(front, offset)
            except LaterError as error:
                await front.wait(error)

    async def _take(self, front: FrontEnd, offset: int) -> int:
        batch = {"offset": offset, "limit": 50, "timeout": POLL_SECONDS}
        found = await self._call("getUpdates", **batch, allowed_updates=["message"])
        numbered = [one for one in found if read(Numbered, one)] if isinstance(found, list) else []
        if found and not numbered:
            raise LaterError("getUpdates: no updates")
        for one in numbered:
            if update := read(Update, one):
                message = update.message
                await front.hear(str(message.sender.id), str(message.message_id), message.text)
            offset = max(offset, one["update_id"] + 1)
        return offset

    async def say(self, user: str, place: str, text: str) -> None:
        """Answer a message of a user, whose private chat has the user's number."""
        if not NUMBER.fullmatch(user) or not NUMBER.fullmatch(place):
            raise RefusedError("no number of a user, or none of a message")
        await self._call(
            "sendMessage",
            chat_id=int(user),
            text=text,  # without a parse_mode it is shown as it is
            reply_parameters={"message_id": int(place), "allow_sending_without_reply": True},
            link_preview_options={"is_disabled": True},  # nobody but a person follows a link
        )

    async def _call(self, method: str, **fields: Any) -> Any:
        wait = aiohttp.ClientTimeout(total=POLL_SECONDS + 15)
        try:
            url = f"{self._methods}/{method}"
            async with self._http.post(
                url, json=fields, timeout=wait, allow_redirects=False
            ) as reply:
                said, status = read(Reply, await read_body(reply)), reply.status
        except (aiohttp.ClientError, TimeoutError) as error:
            # Its words have the address.
            raise LaterError(f"{method}: {type(error).__name__}") from None
        if said and said.ok:
            return said.result
        told = f"{method}: {status} {said.description[:200] if said else ''}"
        if said is None or status in (409, 429) or status >= 500:
            raise LaterError(told, said.parameters.retry_after if said else 5)
        raise RefusedError(told)


async def main() -> None:
    async with aiohttp.ClientSession() as http:
        await serve(Telegram(http, variable("TELEGRAM_BOT_TOKEN")))


if __name__ == "__main__":
    run(main)
