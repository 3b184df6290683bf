"""What a front end of sessions does, whichever chat it is of; telegram_bot.py and slack_app.py do.

A message goes to the session of who wrote it, once however often the chat brings it; answers come
back in their order, also those that were given while no bot was there. A request's id says where
its answer goes, and one hash in Redis what was heard and how far was told: a bot that is killed has
nothing else to lose. Who is not in the list of users is refused. See docs/chat-bots.md.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiohttp
from pydantic import BaseModel, PositiveInt, ValidationError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisAwayError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisSlowError

HEARD = 100  # of a user's messages are known again; a chat brings fewer once more
PARTS = 10  # messages that one answer may become
MAX_REPLY_BYTES = 4 * 1024 * 1024
NOT_SENT = "Your message could not be sent to your session. Please try again later."
Made = TypeVar("Made", bound=BaseModel)
Pause = Callable[[float], Awaitable[object]]
log = logging.getLogger("bot")


class LaterError(Exception):
    """The chat does not answer, or wants to be left alone for some seconds."""

    def __init__(self, why: str, seconds: float = 5.0) -> None:
        super().__init__(why)
        self.seconds = min(max(seconds, 0.0), 600.0)


class RefusedError(Exception):
    """The chat refuses, and would again."""


class Chat(Protocol):
    """A chat network."""

    name: str  # the ids of its requests begin so
    memory: int  # what its bot remembers is the session record of this number, which is no user's
    limit: int  # characters of a message, counted by `width`

    def width(self, character: str) -> int:
        """How many of them a character is."""

    async def listen(self, front: "FrontEnd") -> None:
        """Give `front` what users write, for ever."""

    async def say(self, user: str, place: str, text: str) -> None:
        """Answer what came from there; raises LaterError or RefusedError."""


class User(BaseModel):
    """A line of the list of users: who it is in the chat, and the session of theirs."""

    chat_user: str
    user_id: PositiveInt
    inputs: str
    outputs: str


class Output(BaseModel):
    """What a bot needs of an output."""

    request_id: str
    is_final: bool
    status: str
    text: str = ""
    error: str | None = None
    warnings: list[str] = []

    def words(self) -> str:
        """What a person is shown."""
        words = [self.text]
        if self.status == "input_required":
            words.append("(Your next message is the answer.)")
        elif self.status != "success":
            words.append(f"This was not answered: {self.error or self.status}")
        words += [f"Note: {warning}" for warning in self.warnings[:5]]
        return "\n\n".join(filter(None, map(str.strip, words))) or "(an answer without words)"


class FrontEnd:
    """Between a chat and the sessions of its users."""

    def __init__(
        self, redis: Redis, users: dict[str, User], chat: Chat, pause: Pause = asyncio.sleep
    ) -> None:
        self._redis: Any = redis  # its types leave open what `decode_responses` decides
        self._users, self._chat, self._pause = users, chat, pause
        # The keys of a namespace may have a prefix, which its streams show.
        [prefix] = {user.inputs.partition("worker:")[0] for user in users.values()}
        self._memory = f"{prefix}session:user:{chat.memory}"
        self._told: dict[str, tuple[str, int]] = {}

    async def hear(self, chat_user: str, place: str, text: str) -> None:
        """Send a message to its user's session, unless that has happened already."""
        user = self._users.get(chat_user)
        if user is None:
            log.warning("refused: %r is not in the list of users", chat_user[:100])
        elif not text.strip():
            await self._say_once(chat_user, place, "I can read text alone.")
        elif not await self._sent(user, place, text):
            await self._say_once(chat_user, place, NOT_SENT)

    async def _sent(self, user: User, place: str, text: str) -> bool:
        while True:
            try:
                await self._send(user, place, text)
                return True
            except (RedisAwayError, RedisSlowError) as error:
                log.warning("Redis is away: %s", type(error).__name__)
                await self._pause(2.0)
            except RedisError as error:
                log.error("a message of %s is refused: %s", user.chat_user, error)
                return False

    async def _send(self, user: User, place: str, text: str) -> None:
        field, request_id = f"{user.chat_user}:heard", f"{self._chat.name}:{place}"
        heard = (await self._redis.hget(self._memory, field) or "").split()
        if place in heard:
            return
        message = {"request_id": request_id, "user_id": user.user_id, "prompt": text}
        async with self._redis.pipeline(transaction=True) as both:
            both.xadd(user.inputs, {"data": json.dumps(message)})
            both.hset(self._memory, field, " ".join([*heard, place][-HEARD:]))
            await both.execute()

    async def wait(self, error: LaterError) -> None:
        """Leave the chat alone for as long as it wants."""
        log.warning("again in %.0f s: %s", error.seconds, error)
        await self._pause(error.seconds)

    async def begin(self, user: User) -> None:
        """Learn how far a user was told; to begin with, all that is there is old."""
        if told := await self._redis.hget(self._memory, f"{user.chat_user}:told"):
            after, _, parts = told.partition(" ")
            self._told[user.chat_user] = after, int(parts)
            return
        newest = await self._redis.xrevrange(user.outputs, count=1)
        await self._remember(user, newest[0][0] if newest else "0-0", 0)

    async def tell(self, user: User) -> None:
        """Bring a user the answers of the session, for ever."""
        while not is_cancelled():
            try:
                after, _ = self._told[user.chat_user]
                found = await self._redis.xread({user.outputs: after}, count=10, block=2000)
                for entry, fields in found[0][1] if found else ():
                    await self._answer(user, fields.get("data", ""))
                    await self._remember(user, entry, 0)
            except RedisError as error:
                log.warning("Redis is away: %s", type(error).__name__)
                await self._pause(2.0)

    async def _answer(self, user: User, data: str) -> None:
        output = read(Output, data)
        if output is None or not output.is_final:
            return
        network, _, place = output.request_id.partition(":")
        if network != self._chat.name:
            return  # the session was asked from elsewhere
        after, done = self._told[user.chat_user]
        for number, part in enumerate(split(output.words(), self._chat.limit, self._chat.width)):
            if number >= done:
                await self._say(user.chat_user, place, part)
                await self._remember(user, after, number + 1)

    async def _remember(self, user: User, after: str, parts: int) -> None:
        """How far a user was told: the last output, and how many parts of the one behind it."""
        self._told[user.chat_user] = after, parts
        await self._redis.hset(self._memory, f"{user.chat_user}:told", f"{after} {parts}")

    async def _say(self, user: str, place: str, text: str) -> None:
        while True:
            try:
                return await self._chat.say(user, place, text)
            except LaterError as error:
                await self.wait(error)
            except RefusedError as error:
                return log.error("an answer to %s is refused: %s", user, error)

    async def _say_once(self, user: str, place: str, text: str) -> None:
        try:
            await self._chat.say(user, place, text)
        except (LaterError, RefusedError) as error:
            log.warning("not said to %s: %s", user, error)


def is_cancelled() -> bool:
    """Whether this task was cancelled: with Python 3.11 Redis' client may lose that as it sends."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def read(kind: type[Made], data: str | bytes | object) -> Made | None:
    """Read what came from outside, JSON or what was read of it; None when it is no such thing."""
    try:
        if isinstance(data, str | bytes):
            return kind.model_validate_json(data)
        return kind.model_validate(data)
    except ValidationError:
        log.warning("what is no %s is left out", kind.__name__)
        return None


async def read_body(reply: aiohttp.ClientResponse) -> bytes:
    """Read the body of a chat's reply, unless it is too large."""
    body = bytearray()
    async for chunk in reply.content.iter_chunked(65536):
        body += chunk
        if len(body) > MAX_REPLY_BYTES:
            raise LaterError("a reply is too large")
    return bytes(body)


def split(text: str, limit: int, width: Callable[[str], int]) -> list[str]:
    """Cut a text into parts that are not wider than a limit, at line ends where it has some."""
    parts: list[str] = []
    while text and len(parts) < PARTS:
        end = wide = 0
        while end < len(text) and (wide := wide + width(text[end])) <= limit:
            end += 1
        if end < len(text):
            end = text.rfind("\n", end // 2, end) + 1 or end
        parts.append(text[:end])
        text = text[end:]
    if text:
        end = len(parts[-1])
        parts[-1] = f"{parts[-1][: end - min(end // 2, 100)]}\n… ({len(text)} more characters)"
    return parts


def read_users(text: str) -> dict[str, User]:
    """Read the list of users: CHAT_USER USER_ID INPUT OUTPUT in each line."""
    users: dict[str, User] = {}
    for line in filter(str.strip, text.splitlines()):
        words = dict(zip(User.model_fields, line.split(), strict=False))
        if len(line.split()) != len(User.model_fields) or not (user := read(User, words)):
            raise ValueError(f"no line CHAT_USER USER_ID INPUT OUTPUT: {line[:200]!r}")
        users[user.chat_user] = user
    if len({user.inputs.partition("worker:")[0] for user in users.values()}) != 1:
        raise ValueError("the list of users has to name sessions, of one namespace")
    return users


def variable(name: str) -> str:
    """What the environment says; tokens come from a Secret, and are never printed."""
    if value := os.environ.get(name):
        return value
    raise ValueError(f"the variable {name} is needed")


async def serve(chat: Chat) -> None:
    """Be the front end of all users of the list."""
    # The client must send nothing twice by itself: `_send` looks before it does.
    once = Retry(NoBackoff(), 0)
    url = variable("REDIS_URL")
    redis = Redis.from_url(url, decode_responses=True, protocol=2, retry=once)
    users = read_users(Path(variable("USERS_FILE")).read_text())
    front = FrontEnd(redis, users, chat)
    for user in users.values():
        await front.begin(user)
    async with asyncio.TaskGroup() as tasks:
        for user in users.values():
            tasks.create_task(front.tell(user))
        tasks.create_task(chat.listen(front))


def run(main: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run a bot until it is told to leave; what it cannot do is one line."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # it has nothing to lose
    told = ""
    try:
        asyncio.run(main())
    except* (ValueError, OSError, RedisError, RefusedError) as errors:
        told = str(errors.exceptions[0])[:500]
    sys.exit(told)
