"""The Redis users of a namespace, the Secrets with their URLs, and the users of an earlier version.

A session's own user is made in `sessions/users`. What each may do, `contracts` say (`redis_users`).
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import structlog
from redis.exceptions import NoPermissionError, RedisError

from orbiter_contracts import redis_users
from orbiter_contracts.queues import Keys, KeysOf
from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.names import APP_NAME, MANAGED_BY, MANAGER, WORKER_APP
from orbiter_operator.kube.resources import SECRETS, Resource
from orbiter_operator.pods.state import JobState, PodState
from orbiter_operator.pods.template import DEVELOPER_KEY
from orbiter_operator.settings import Settings
from orbiter_operator.streams.users import RedisUsers

log = structlog.get_logger(__name__)
Object = dict[str, Any]
CHAT_SECRET: Final = "orbiter-chat"  # noqa: S105 - the name of one
"""Secret with the URL of a namespace's chat front ends, which no worker's pod mounts."""
PRODUCER_SECRET: Final = "orbiter-producer"  # noqa: S105 - the name of one
"""The same for who hands in tasks by themselves."""
TRANSCRIPT_SECRET: Final = "orbiter-transcript"  # noqa: S105 - the name of one
"""The same for who reads what the agents there say and do."""
_CA_OPTION = "ssl_ca_certs"
_SHARED = (
    *(redis_users.worker_user, redis_users.chat_user, redis_users.producer_user),
    redis_users.transcript_user,
)
_CHECK_SECONDS = 30.0
"""After how long is looked again who still needs a user of an earlier version; Redis closes what is
idle later."""
_FORMER_ACL = "users.acl"
"""Key beside the passwords with which the first version told Redis all of its users."""
MAX_SHARED_CONNECTIONS = 1024
"""Connections of all front ends, producers or readers of a namespace; its workers have more, since
each has one that writes its transcript."""
MAX_WORKERS_CONNECTIONS = MAX_SHARED_CONNECTIONS * 3 // 2


class NamespaceURLs(NamedTuple):
    """How those who share a user within a namespace get into Redis."""

    developer: str
    chat: str
    producer: str
    transcript: str


class NamespaceUsers:
    """The users that a namespace has beside those of its sessions.

    Args:
        users: The managed users.
        keys: Says which keys a namespace has.
        records: Says how the session records of a namespace with such keys begin.
    """

    def __init__(
        self, users: RedisUsers, *, keys: KeysOf, records: Callable[[str, Keys], str]
    ) -> None:
        self.users = users
        self._keys = keys
        self._records = records

    async def admit(self, namespace: str, *, previous: bool = True) -> NamespaceURLs:
        """Let a namespace's developer workers, front ends, producers and readers in.

        Args:
            namespace: The namespace.
            previous: Whether the previous generation's passwords open, too; see
                `RedisUsers.ensure`. Who else has them than workers, only people know.

        Raises:
            RedisError: Redis did not answer.
            RefusedError: Redis does not let the operator manage users.
            ValueError: Users are not managed.
        """
        keys = self._keys(namespace)
        records = self._records(namespace, keys)
        names = [user(namespace) for user in _SHARED]
        rules = (
            redis_users.worker_rules(keys),
            redis_users.chat_rules(keys, namespace, records),
            redis_users.producer_rules(keys),
            redis_users.transcript_rules(keys, namespace),
        )
        ensure = partial(self.users.ensure, previous=previous)
        for number, (name, rights) in enumerate(zip(names, rules, strict=True)):
            most = MAX_SHARED_CONNECTIONS if number else MAX_WORKERS_CONNECTIONS
            await ensure(name, rights, max_connections=most)
        return NamespaceURLs(*map(self.users.url, names))

    async def dismiss(self, namespace: str, *, sessions: bool = False) -> None:
        """Let them in no more; whoever is connected is cut off.

        Nor sessions' workers whose sessions nobody looks after any more.

        Args:
            namespace: The namespace.
            sessions: Whether the workers of all its sessions are meant.

        Raises:
            RedisError: Redis did not answer.
        """
        for user in _SHARED:
            await self.users.remove(user(namespace))
        try:
            beginning = redis_users.session_user(namespace, "")
            await self.users.remove_unwanted(beginning, wanted=sessions)
        except NoPermissionError as error:
            # They find nobody to talk to, and are gone when Redis has restarted.
            log.warning("sessions' users not looked for", namespace=namespace, error=str(error))


class SecretNames(NamedTuple):
    """How the Secrets of a namespace are called, and where the CA's certificate is in them."""

    developer: str
    ca_key: str = ""
    chat: str = CHAT_SECRET
    producer: str = PRODUCER_SECRET
    transcript: str = TRANSCRIPT_SECRET


def secrets(
    namespace: str, urls: NamespaceURLs, names: SecretNames, *, ca: str, owner: Object
) -> list[tuple[Resource, Object]]:
    """The Secrets with a namespace's URLs, each of whose readers is another.

    Args:
        namespace: The namespace.
        urls: The URLs of its users.
        names: How the Secrets are called.
        ca: The certificate of Redis' CA; empty when there is none.
        owner: The workers' ServiceAccount there, with which they go.
    """
    given = (
        (names.developer, DEVELOPER_KEY, urls.developer),
        # Where a front end keeps the certificate is its own affair.
        (names.chat, "chat-url", _without_ca(urls.chat)),
        (names.producer, "producer-url", _without_ca(urls.producer)),
        (names.transcript, "transcript-url", _without_ca(urls.transcript)),
    )
    beside = {names.ca_key: ca} if names.ca_key and ca else {}
    meta = owner["metadata"]
    reference = {"apiVersion": "v1", "kind": "ServiceAccount", "name": meta["name"]}
    return [
        (
            SECRETS,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": {MANAGED_BY: MANAGER, APP_NAME: WORKER_APP},
                    "ownerReferences": [reference | {"uid": meta["uid"]}],
                },
                "type": "Opaque",
                "stringData": {key: url} | beside,
            },
        )
        for name, key, url in given
    ]


def _without_ca(url: str) -> str:
    parts = urlsplit(url)
    kept = [option for option in parse_qsl(parts.query) if option[0] != _CA_OPTION]
    return urlunsplit(parts._replace(query=urlencode(kept)))


class FormerUsers:
    """Ends the Redis users that an earlier version of the chart has left for what it had begun.

    One is needed as long as a Job or a pod is not over that names the Secret with their URLs, and
    while anybody is connected in its name. It ends when it was not needed for a while, since
    nothing tells when a front end connects again: first the Secret goes, so that nothing begins
    with it, then the password, of which Redis would make the user at its next start, then the user.
    Who comes after a crash does all of it again.

    Args:
        settings: Which users and Secrets; others are not touched.
        kube: The API client.
        users: The users of Redis.
        workers: All Jobs and pods that there are.
        allowed: Raises unless this replica is the active one.
        clock: Seconds.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        kube: Kube,
        users: RedisUsers,
        workers: Sequence[Iterable[JobState | PodState]],
        allowed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._kube = kube
        self._users = users
        self._workers = workers
        self._allowed = allowed
        self._clock = clock
        self._needed = dict.fromkeys(settings.former_redis_users, clock())
        self._logged = ""

    async def run(self) -> None:
        """Look now and then, for ever."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            try:
                self._allowed()
                await self.check()
            except (ApiError, RedisError, *TRANSPORT_ERRORS) as error:
                if self._logged != (text := f"{type(error).__name__}: {error}"):
                    log.warning("users of an earlier version not ended", error=text)
                self._logged = text

    async def check(self) -> None:
        """End who is not needed any more.

        Raises:
            ApiError: The API server refused.
            RedisError: Redis did not answer.
        """
        if not self._needed:
            return
        now, opened, begun = self._clock(), await self._users.connections(), self._begun()
        self._needed |= {user: now for user in self._needed if begun or user in opened}
        enough = self._settings.former_redis_quiet_seconds
        quiet = [user for user, last in self._needed.items() if now - last >= enough]
        if not quiet:
            return
        settings = self._settings
        passwords = dict.fromkeys(f"{user}-password" for user in quiet)
        if len(quiet) == len(self._needed):
            passwords[_FORMER_ACL] = None
            for namespace in settings.worker_namespaces:
                await self._kube.delete(SECRETS, namespace, settings.former_redis_secret)
        secret = settings.former_redis_passwords
        await self._kube.patch(SECRETS, settings.lease_namespace, secret, {"data": passwords})
        if await self._users.delete(quiet):
            log.info("users of an earlier version ended", users=quiet)
        for user in quiet:
            del self._needed[user]

    def _begun(self) -> bool:
        """Whether something of before is not over."""
        secret = self._settings.former_redis_secret
        states = chain.from_iterable(self._workers)
        return any(state.redis_secret == secret and not state.over for state in states)
