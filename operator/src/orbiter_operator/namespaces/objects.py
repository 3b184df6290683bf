"""Which namespaces have the label, and what one consists of: objects, Redis users, and Secrets.

The chart writes its objects, which are the same for all namespaces, into files: `namespace.json`,
and `namespace-NAME.json` for a namespace that has its own. So they are said once, in the chart,
whether the chart applies them (a namespace that its values list) or the operator (one with the
label).
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import structlog
from redis.exceptions import NoPermissionError

from orbiter_contracts import redis_users
from orbiter_contracts.queues import Keys, KeysOf
from orbiter_operator.kube.client import NETWORK_POLICIES, SECRETS, SERVICE_ACCOUNTS, Resource
from orbiter_operator.kube.names import APP_NAME, MANAGED_BY, MANAGER, OWN_LABELS, WORKER_APP
from orbiter_operator.pods.template import DEVELOPER_KEY
from orbiter_operator.streams.users import RedisUsers

log = structlog.get_logger(__name__)
Object = dict[str, Any]
CHAT_SECRET: Final = "orbiter-chat"  # noqa: S105 - the name of one
"""Secret with the URL of a namespace's chat front ends, which no worker's pod mounts."""
PRODUCER_SECRET: Final = "orbiter-producer"  # noqa: S105 - the name of one
"""The same for who hands in tasks by themselves."""
OPERATOR: Final = f"{OWN_LABELS}operator"
OPERATOR_NAMESPACE: Final = f"{OWN_LABELS}operator-namespace"
"""Labels of what an operator has applied: its Lease's name and namespace."""
# In this order: there is no worker before its policies, which go when the last one has gone.
_KINDS = {"NetworkPolicy": NETWORK_POLICIES, "ServiceAccount": SERVICE_ACCOUNTS}
_CA_OPTION = "ssl_ca_certs"
_SHARED = (redis_users.worker_user, redis_users.chat_user, redis_users.producer_user)
_OF_MANY = 1024
"""Connections of all workers, front ends or producers of a namespace."""


class LabelledNamespaces:
    """The namespaces that have the label now, as an informer tells it.

    Args:
        enqueue: Called with the name of each that comes or goes.
    """

    def __init__(self, enqueue: Callable[[str], None]) -> None:
        self._enqueue = enqueue
        self._seen: dict[str, tuple[str, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._seen

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._seen))

    def put(self, obj: Object) -> None:
        """A namespace has the label; one that is being deleted is as if it had lost it."""
        meta = obj["metadata"]
        if meta.get("deletionTimestamp"):
            self.remove(obj)
            return
        known = self._seen.get(meta["name"])
        self._seen[meta["name"]] = (meta["uid"], int(meta["resourceVersion"]))
        if known is None or known[0] != meta["uid"]:
            self._enqueue(meta["name"])

    def remove(self, obj: Object) -> None:
        """It has it no more, or is gone."""
        name = obj["metadata"]["name"]
        if self._seen.pop(name, None):
            self._enqueue(name)

    def missing_from(self, listed: set[str], version: int) -> list[Object]:
        """Those held here that a list taken at `version` does not have."""
        return [
            {"metadata": {"name": name, "uid": uid}}
            for name, (uid, seen) in self._seen.items()
            if uid not in listed and seen <= version
        ]


class NamespaceFiles:
    """The chart's objects of a namespace, as they are in the files now.

    Args:
        directory: Where the files are.
        labels: Further labels of each object.
    """

    def __init__(self, directory: Path, labels: dict[str, str]) -> None:
        self._directory = directory
        self._labels = labels

    def objects(self, namespace: str) -> list[tuple[Resource, Object]]:
        """The objects of one namespace, policies first.

        Raises:
            OSError: There is no such file.
            ValueError: It is none of the chart's.
        """
        path = self._directory / f"namespace-{namespace}.json"
        if not path.exists():
            path = self._directory / "namespace.json"
        found = json.loads(path.read_bytes())
        kinds = [obj["kind"] for obj in found]
        if not set(kinds) <= set(_KINDS):
            unknown = ", ".join(sorted(set(kinds) - set(_KINDS)))
            raise ValueError(f"{path} has {unknown}; only {' and '.join(_KINDS)} are for it")
        order = list(_KINDS)
        return [
            (_KINDS[obj["kind"]], self._placed(obj, namespace))
            for obj in sorted(found, key=lambda obj: order.index(obj["kind"]))
        ]

    def _placed(self, obj: Object, namespace: str) -> Object:
        meta = obj["metadata"]
        labels = (meta.get("labels") or {}) | self._labels
        return obj | {"metadata": meta | {"namespace": namespace, "labels": labels}}


class NamespaceURLs(NamedTuple):
    """How those who share a user within a namespace get into Redis."""

    developer: str
    chat: str
    producer: str


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

    async def admit(self, namespace: str, *, before: bool = True) -> NamespaceURLs:
        """Let a namespace's developer workers, chat front ends and producers in.

        Args:
            namespace: The namespace.
            before: Whether the passwords of the generation before open, too; see
                `RedisUsers.want`. Who else has them than workers, only people know.

        Raises:
            RedisError: Redis did not answer.
            RefusedError: Redis does not let the operator manage users.
            ValueError: Users are not managed.
        """
        keys = self._keys(namespace)
        records = self._records(namespace, keys)
        worker, chat, producer = (user(namespace) for user in _SHARED)
        urls = NamespaceURLs(*map(self.users.url, (worker, chat, producer)))
        want = partial(self.users.want, before=before, most=_OF_MANY)
        await want(worker, redis_users.worker_rules(keys))
        await want(chat, redis_users.chat_rules(keys, namespace, records))
        await want(producer, redis_users.producer_rules(keys))
        return urls

    async def dismiss(self, namespace: str) -> None:
        """Let them in no more; whoever is connected is cut off.

        Nor sessions' workers, but for those whose sessions are still looked after.

        Raises:
            RedisError: Redis did not answer.
        """
        for user in _SHARED:
            await self.users.remove(user(namespace))
        try:
            await self.users.remove_unwanted(redis_users.session_user(namespace, ""))
        except NoPermissionError as error:
            # They find nobody to talk to, and are gone when Redis has restarted.
            log.warning("sessions' users not looked for", namespace=namespace, error=str(error))


class SecretNames(NamedTuple):
    """How the Secrets of a namespace are called, and where the CA's certificate is in them."""

    developer: str
    ca_key: str = ""
    chat: str = CHAT_SECRET
    producer: str = PRODUCER_SECRET


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
