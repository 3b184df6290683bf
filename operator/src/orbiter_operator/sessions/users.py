"""A Redis user for each session: its worker has the keys of its conversation and no others.

The password follows from the installation's master key and the session, so nothing has to be read
back: a Redis that has restarted without its users gets them again, and so does every operator that
takes over. The worker is told by a Secret of its session's own, made with the Deployment and gone
with the session. The operator only creates Secrets; it may not read or change any.
"""

import asyncio
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlsplit, urlunsplit

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from orbiter_contracts.queues import LIFECYCLE, dead_letter, po_input, po_keys, po_output
from orbiter_contracts.queues import po_snapshot as snapshot_key
from orbiter_contracts.redis_users import session_user
from orbiter_operator.kube.client import RefusedError
from orbiter_operator.kube.models import Refusal
from orbiter_operator.kube.names import (
    APP_NAME,
    MANAGED_BY,
    MANAGER,
    SESSION_SECRETS,
    WORKER_APP,
    Key,
    owner_reference,
)

log = structlog.get_logger(__name__)
Object = dict[str, Any]
URL_KEY = "url"
_SUFFIX = 10
_CHECK_SECONDS = 2.0
_MAY_NOT = (
    "Redis does not let the operator make the session's user ({}); give its user +acl|setuser, "
    "+acl|deluser and +info, or leave ORBITER_REDIS_MASTER_KEY out"
)
_AT_ONCE = 500
_CONNECTION = ("+@connection", "-@dangerous", "-select", "-client|tracking", "+@transaction")
_CONSUME = (
    *("+xreadgroup", "+xack", "+xdel", "+xclaim", "+xpending", "+xrange", "+xinfo"),
    *("+xgroup|create", "+xgroup|delconsumer"),
)
_SCRIPTS = ("+eval", "+evalsha", "+script|load", "+script|exists")
_KEEP = (
    *("+exists", "+type", "+ttl", "+get", "+hget", "+hmget", "+hgetall", "+hset"),
    *("+hsetnx", "+hdel", "+hincrbyfloat", "+rpush", "+ltrim", "+lrange"),
)


def user_rules(worker_id: str, record: str) -> tuple[str, ...]:
    """What the user of a session may do, as `ACL SETUSER` has it; without a password.

    A script is refused unless one part of the rules covers all its keys, and each command in it is
    looked at again. So a worker can publish a lifecycle event in the stream that all workers share,
    and neither read nor delete one there (but XADD may trim). It cannot add a message to its own
    input either.

    Args:
        worker_id: The session's worker id.
        record: Key of its user's session record.
    """
    keys = [f"~{key}" for key in (*po_keys(worker_id), record)]
    output, stream = po_output(worker_id), po_input(worker_id)
    # A stream that expired could come back as another kind of key, and stop whoever reads many.
    lasting = {stream, output, dead_letter(stream), dead_letter(output)}
    passing = [f"~{key}" for key in (*po_keys(worker_id), record) if key not in lasting]
    added = (output, dead_letter(output), dead_letter(stream), LIFECYCLE)
    return (
        *("resetchannels", *keys, "-@all", *_CONNECTION, *_CONSUME, *_SCRIPTS, *_KEEP),
        f"(+eval +evalsha {' '.join(keys)} ~{LIFECYCLE})",
        f"(+expire {' '.join(passing)})",
        f"(+xadd {' '.join(f'~{key}' for key in added)})",
        f"(+set ~{snapshot_key(worker_id)} ~{record})",
    )


class Credentials(NamedTuple):
    """How one session's worker gets into Redis."""

    user: str
    password: str
    secret: str


class SessionUsers:
    """The sessions' users of one Redis.

    Args:
        redis: A client for short commands, whose user may manage users.
        url: The operator's own URL of that Redis.
        master_key: What the passwords follow from. Empty: sessions share the user of
            `shared_secret`, and nothing is done here.
        shared_secret: Name and key of the Secret with that user's URL.
    """

    def __init__(
        self, redis: Redis, *, url: str, master_key: str, shared_secret: tuple[str, str]
    ) -> None:
        self._redis = redis
        self._execute: Callable[..., Awaitable[object]] = cast("Any", redis).execute_command
        self._url = url
        self._master_key = master_key.encode()
        self._shared_secret = shared_secret
        self._applied: dict[Key, tuple[str, str, str]] = {}
        self._run_id = ""

    @property
    def managed(self) -> bool:
        """Whether sessions have users of their own."""
        return bool(self._master_key)

    def secret_key(self, key: Key, uid: str) -> tuple[str, str]:
        """Name and key of the Secret with the URL of a session's worker."""
        return (self.credentials(key, uid).secret, URL_KEY) if self.managed else self._shared_secret

    def credentials(self, key: Key, uid: str) -> Credentials:
        """User, password and Secret of a session; those of another master key are others."""
        user = session_user(key.namespace, key.name)
        suffix = self._derived(f"secret {user} {uid}")[:_SUFFIX]
        return Credentials(
            user, self._derived(f"password {user} {uid}"), f"{SESSION_SECRETS}{key.name}-{suffix}"
        )

    def secret(self, key: Key, uid: str) -> Object:
        """The Secret of a session's worker."""
        user, password, name = self.credentials(key, uid)
        parts = urlsplit(self._url)
        login = f"{quote(user, safe='')}:{password}@{parts.netloc.rpartition('@')[2]}"
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": key.namespace,
                "labels": {MANAGED_BY: MANAGER, APP_NAME: WORKER_APP},
                "ownerReferences": [owner_reference("POSession", key.name, uid)],
            },
            "type": "Opaque",
            "immutable": True,
            "stringData": {URL_KEY: urlunsplit(parts._replace(netloc=login))},
        }

    async def ensure(self, key: Key, uid: str, worker_id: str, record: str) -> None:
        """Let the session's worker in, unless that was done before.

        Raises:
            RedisError: Redis did not answer.
            RefusedError: Redis does not let the operator manage users.
        """
        if self.managed and self._applied.get(key) != (uid, worker_id, record):
            try:
                await self._execute(*self._set_user(key, uid, worker_id, record))
            except ResponseError as error:
                raise RefusedError(
                    Refusal(status=403, reason="UserNotMade", message=_MAY_NOT.format(error))
                ) from error
            self._applied[key] = (uid, worker_id, record)

    async def remove(self, key: Key) -> None:
        """Let a deleted session's worker in no more; whoever is connected in its name is cut off.

        Raises:
            RedisError: Redis did not answer.
        """
        if self.managed:
            await self._execute("ACL", "DELUSER", self.credentials(key, "").user)
            self._applied.pop(key, None)

    async def run(self) -> None:
        """Give a Redis that has restarted its users again, for ever."""
        while True:
            try:
                await self.restore()
            except (RedisError, OSError) as error:
                log.info("users not compared", error=f"{type(error).__name__}: {error}")
            await asyncio.sleep(_CHECK_SECONDS)

    async def restore(self) -> None:
        """Make all users anew if this is not the Redis process of last time.

        Raises:
            RedisError: Redis did not answer.
        """
        run_id = str((await self._redis.info("server"))["run_id"])
        if not self.managed or run_id == self._run_id:
            return
        began, known = time.monotonic(), list(self._applied.items())
        for start in range(0, len(known), _AT_ONCE):
            async with self._redis.pipeline(transaction=False) as pipeline:
                for key, given in known[start : start + _AT_ONCE]:
                    if self._applied.get(key) == given:
                        pipeline.execute_command(*self._set_user(key, *given))
                await pipeline.execute()
        self._run_id = run_id
        if known:
            log.info("users restored", users=len(known), seconds=time.monotonic() - began)

    def _set_user(self, key: Key, uid: str, worker_id: str, record: str) -> tuple[str, ...]:
        user, password, _ = self.credentials(key, uid)
        digest = hashlib.sha256(password.encode()).hexdigest()
        return ("ACL", "SETUSER", user, "reset", "on", f"#{digest}", *user_rules(worker_id, record))

    def _derived(self, text: str) -> str:
        return hmac.new(self._master_key, text.encode(), hashlib.sha256).hexdigest()
