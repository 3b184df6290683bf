"""A Redis user for each session: its worker has the keys of its conversation and no others.

The worker is told by a Secret of its session's own, a child of the Deployment: it goes with it when
the session is deleted, or no worker may run in its namespace any more. The operator only creates
such Secrets; it may not read, change or delete one.
"""

from typing import Any, NamedTuple

from orbiter_contracts.queues import BARE, Keys
from orbiter_contracts.redis_users import session_rules, session_user
from orbiter_operator.kube.names import (
    APP_NAME,
    MANAGED_BY,
    MANAGER,
    SESSION_SECRETS,
    WORKER_APP,
    Key,
)
from orbiter_operator.streams.users import RedisUsers

Object = dict[str, Any]
URL_KEY = "url"
_SUFFIX = 10


class Credentials(NamedTuple):
    """How one session's worker gets into Redis."""

    user: str
    url: str
    secret: str


class SessionUsers:
    """The sessions' users of one Redis.

    Args:
        users: All users that the operator makes. Where it makes none, sessions share the user of
            `shared_secret`, and nothing is done here.
        shared_secret: Name and key of the Secret with that user's URL.
    """

    def __init__(self, users: RedisUsers, *, shared_secret: tuple[str, str]) -> None:
        self._users = users
        self._shared_secret = shared_secret

    @property
    def managed(self) -> bool:
        """Whether sessions have users of their own."""
        return self._users.managed

    def secret_key(self, key: Key, uid: str) -> tuple[str, str]:
        """Name and key of the Secret with the URL of a session's worker."""
        return (self.credentials(key, uid).secret, URL_KEY) if self.managed else self._shared_secret

    def credentials(self, key: Key, uid: str) -> Credentials:
        """User, URL and Secret of a session; those of another master key are others."""
        user = session_user(key.namespace, key.name)
        suffix = self._users.derived(f"secret {user} {uid}")[:_SUFFIX]
        return Credentials(
            user, self._users.url(user, uid=uid), f"{SESSION_SECRETS}{key.name}-{suffix}"
        )

    def secret(self, key: Key, uid: str, deployment: str) -> Object:
        """The Secret of a session's worker; `deployment` is the uid of the session's Deployment."""
        _, url, name = self.credentials(key, uid)
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": key.namespace,
                "labels": {MANAGED_BY: MANAGER, APP_NAME: WORKER_APP},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "name": key.name,
                        "uid": deployment,
                    }
                ],
            },
            "type": "Opaque",
            "immutable": True,
            "stringData": {URL_KEY: url},
        }

    async def ensure(
        self,
        key: Key,
        uid: str,
        worker_id: str,
        record: str,
        *,
        keys: Keys = BARE,
        previous: bool = False,
    ) -> None:
        """Let the session's worker in, unless that was done before.

        Args:
            key: The session.
            uid: Its uid.
            worker_id: Its worker id.
            record: Key of its user's session record.
            keys: The keys of its namespace.
            previous: Whether a worker of it may still have the previous generation's password.

        Raises:
            RedisError: Redis did not answer.
            RefusedError: Redis does not let the operator manage users.
        """
        if self.managed:
            user = session_user(key.namespace, key.name)
            rules = session_rules(keys, worker_id, record)
            await self._users.ensure(user, rules, uid=uid, previous=previous)

    async def remove(self, key: Key) -> None:
        """Let a deleted session's worker in no more; whoever is connected in its name is cut off.

        Raises:
            RedisError: Redis did not answer.
        """
        await self._users.remove(session_user(key.namespace, key.name))
