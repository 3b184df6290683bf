"""The Redis users that the operator makes, and the functions that they call.

A password follows from the installation's master key, the user's name and the generation of all
passwords, so nothing has to be read back: a Redis that has come back without its users gets them
again, and so does the one that takes over after a fail-over, since users are not replicated. Which
Redis it is, its run_id tells. The functions are loaded first: a user that finds its way in finds
what it calls, too. A new generation's password opens beside the one before, until nobody has that.

What a user may do is said by `orbiter_contracts.redis_users` alone.
"""

import asyncio
import hashlib
import hmac
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, cast

import structlog
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ReadOnlyError, RedisError, ResponseError

from orbiter_contracts.functions import library
from orbiter_contracts.redis_url import with_login
from orbiter_contracts.redis_users import MANAGES_USERS, Rules
from orbiter_operator.kube.models import Refusal, RefusedError
from orbiter_operator.settings import Settings
from orbiter_operator.streams.reader import run_id

log = structlog.get_logger(__name__)
MAX_CONNECTIONS = 16
"""Connections of one worker, which has two and now and then some of a process before it."""
_CLIENT = re.compile(r"^id=(\d+) .* user=(\S+)", re.MULTILINE)
_CHECK_SECONDS = 2.0
_AT_ONCE = 500
_MAY_NOT = (
    "Redis does not let the operator make the user {user} ({error}); give the operator's user "
    f"{' '.join(MANAGES_USERS)}, or leave ORBITER_REDIS_MASTER_KEY out"
)


class _Desired(NamedTuple):
    rules: Rules
    uid: str
    previous: bool
    max_connections: int


class RedisUsers:
    """The managed users of one Redis.

    Args:
        redis: A client for short commands, whose user may manage users and load functions.
        url: The operator's own URL of that Redis.
        master_key: What the passwords follow from. Empty: nothing is done here, because the
            users are made by somebody else.
        generation: Of all passwords; the next one makes all of them new.
    """

    def __init__(self, redis: Redis, *, url: str, master_key: str, generation: int = 1) -> None:
        self.redis = redis
        self._execute: Callable[..., Awaitable[object]] = cast("Any", redis).execute_command
        self._url = url
        self._master_key = master_key.encode()
        self._generation = generation
        self._desired: dict[str, _Desired] = {}
        self._run_id = self._loaded = ""
        # Set by `streams/quota`, which counts what is in a Redis before anybody is let into it.
        self.effective_rules: Callable[[str, Rules], Rules] = lambda user, rules: rules
        self.before_users: Callable[[str], Awaitable[None]] | None = None
        self._logged: set[str] = set()
        self._changing = asyncio.Lock()

    @classmethod
    def of(cls, redis: Redis, settings: Settings) -> "RedisUsers":
        """Those of an installation."""
        key, generation = settings.redis_master_key, settings.redis_password_generation
        return cls(redis, url=settings.redis_url, master_key=key, generation=generation)

    @property
    def managed(self) -> bool:
        """Whether the operator makes users at all."""
        return bool(self._master_key)

    def url(self, user: str, *, uid: str = "") -> str:
        """The operator's URL with this user and its password.

        Args:
            user: The user's name.
            uid: Of the object it is made for: one that is made anew gets another password.

        Raises:
            ValueError: Users are not managed, so nobody here knows a password.
        """
        return with_login(self._url, user, self.password(user, uid=uid))

    def password(self, user: str, *, uid: str = "") -> str:
        """The password in `url`."""
        return self.derived(f"password {user} {uid}")

    def derived(self, text: str, *, previous: bool = False) -> str:
        """What follows from the master key, a text and the generation (or the `previous` one).

        Raises:
            ValueError: There is no master key.
        """
        if not self._master_key:
            raise ValueError("without ORBITER_REDIS_MASTER_KEY the operator knows no passwords")
        generation = self._generation - previous
        told = f"{text} {generation}" if generation > 1 else text
        return hmac.new(self._master_key, told.encode(), hashlib.sha256).hexdigest()

    async def ensure(
        self,
        user: str,
        rules: Rules,
        *,
        uid: str = "",
        previous: bool = False,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """Let a user in, with these rights and no others; now, and after each loss of Redis.

        Args:
            user: The user's name.
            rules: Its rights (`orbiter_contracts.redis_users`).
            uid: See `url`.
            previous: Whether the previous generation's password opens, too, because somebody may
                have no other yet. Once nobody has, who is connected is cut off: whoever has the
                present one connects again.
            max_connections: How many connections it may have; the newest of more are ended.

        Raises:
            RedisError: Redis did not answer.
            RefusedError: Redis does not let the operator manage users.
        """
        desired = _Desired(rules, uid, previous and self._generation > 1, max_connections)
        known = self._desired.get(user)
        if not self.managed or known == desired:
            return
        late = 2 if previous else 1
        # Of what an operator before this one has let in nothing is known.
        ends = known.previous and not previous if known else self._generation > late
        try:
            async with self._changing:
                if not self._run_id:
                    await self._restore()
                await self._execute(*self._set_user(user, desired))
                if ends:
                    await self._execute("CLIENT", "KILL", "USER", user)
                self._desired[user] = desired
        except ReadOnlyError:
            raise  # the primary is another one by now
        except ResponseError as error:
            text = _MAY_NOT.format(user=user, error=error)
            raise RefusedError(Refusal(status=403, reason="UserNotMade", message=text)) from error

    async def remove(self, user: str) -> None:
        """Let a user in no more; whoever is connected in its name is cut off.

        Raises:
            RedisError: Redis did not answer.
        """
        if self.managed:
            async with self._changing:
                self._desired.pop(user, None)
                await self._execute("ACL", "DELUSER", user)

    async def remove_unwanted(self, beginning: str, *, wanted: bool = False) -> None:
        """The same for all of such names that an operator before this one has let in.

        Args:
            beginning: How the names begin.
            wanted: Whether those that this one has let in are meant, too.

        Raises:
            RedisError: Redis did not answer, or does not let the operator do that.
        """
        if self.managed:
            async with self._changing:
                if wanted:
                    kept = {n: d for n, d in self._desired.items() if not n.startswith(beginning)}
                    self._desired = kept
                names = map(str, cast("list[Any]", await self._execute("ACL", "USERS")))
                found = [n for n in names if n.startswith(beginning) and n not in self._desired]
                for start in range(0, len(found), _AT_ONCE):
                    await self.delete(found[start : start + _AT_ONCE])

    async def run(self) -> None:
        """Give a Redis that has lost its functions and users all of them again, for ever."""
        while self.managed:
            try:
                await self.restore()
                await self.limit_connections()
            except (RedisError, OSError) as error:
                self._log_once("users not compared", error)
            await asyncio.sleep(_CHECK_SECONDS)

    async def restore(self, *, anew: bool = False) -> None:
        """Load the functions and make all users anew: of another Redis than last time, or `anew`.

        Raises:
            RedisError: Redis did not answer, or does not let the operator do that.
        """
        if self.managed:
            async with self._changing:
                self._run_id = "" if anew else self._run_id
                await self._restore()

    async def limit_connections(self) -> None:
        """End the newest connections of who has more than it may: none takes the others' places.

        Raises:
            RedisError: Redis did not answer, or does not let the operator do that.
        """
        for user, numbers in (await self.connections()).items():
            desired = self._desired.get(user)
            beyond = sorted(numbers)[desired.max_connections :] if desired else ()
            for number in beyond:
                await self._execute("CLIENT", "KILL", "ID", number)
            if desired and beyond:
                log.warning("connections ended", user=user, opened=len(numbers), ended=len(beyond))

    async def connections(self) -> dict[str, list[int]]:
        """The numbers of all connections there are, by user.

        Raises:
            RedisError: Redis did not answer, or does not let the operator do that.
        """
        found = defaultdict[str, list[int]](list)
        for number, user in _CLIENT.findall(str(await self._execute("CLIENT", "LIST"))):
            found[user].append(int(number))
        return found

    async def delete(self, users: Sequence[str]) -> int:
        """End users that somebody else has made; returns how many of them there were.

        Raises:
            RedisError: Redis did not answer, or does not let the operator do that.
        """
        return cast("int", await self._execute("ACL", "DELUSER", *users))

    async def _restore(self) -> None:
        server = await run_id(self.redis)
        if server != self._loaded:
            await self._load(server)
        if server == self._run_id:
            return
        if self.before_users:
            await self.before_users(server)
        began, desired = time.monotonic(), list(self._desired.items())
        for start in range(0, len(desired), _AT_ONCE):
            async with self.redis.pipeline(transaction=False) as pipeline:
                for item in desired[start : start + _AT_ONCE]:
                    pipeline.execute_command(*self._set_user(*item))
                await pipeline.execute()
        self._run_id = server
        self._logged.clear()
        log.info("users restored", users=len(desired), seconds=time.monotonic() - began)

    async def _load(self, run_id: str) -> None:
        try:
            await self._execute("FUNCTION", "LOAD", "REPLACE", library())
        except (NoPermissionError, ReadOnlyError):
            raise
        except ResponseError as error:
            # One that is full, or waits for its replicas, may have them from before: users go in.
            self._log_once("functions not loaded", error)
        else:
            self._loaded = run_id

    def _log_once(self, what: str, error: Exception) -> None:
        """Say what does not work; once of a Redis, because it is tried again and again."""
        text = f"{type(error).__name__}: {error}"
        if text not in self._logged:
            log.warning(what, error=text)
        self._logged.add(text)

    def _set_user(self, user: str, desired: _Desired) -> tuple[str, ...]:
        word = f"password {user} {desired.uid}"
        words = {self.derived(word, previous=previous) for previous in (False, desired.previous)}
        digests = (f"#{hashlib.sha256(one.encode()).hexdigest()}" for one in words)
        rules = self.effective_rules(user, desired.rules)
        return ("ACL", "SETUSER", user, "reset", "on", *digests, *rules)
