"""Tests of the wrapper once more in a namespace: with a prefix and a user that has only its rights.

A test module asks for it by `pytest.mark.parametrize("namespace", NAMESPACES, indirect=True)`. Its
client then puts the prefix before every key, so that the test says what it always says; its
wrappers get the prefix, and of Redis what the operator would give them.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

import pytest
from redis import Redis as BlockingRedis
from redis.exceptions import ResponseError
from support.redis_server import PATIENT, RedisServer

from orbiter_contracts import redis_users
from orbiter_contracts.functions import library
from orbiter_contracts.queues import DEVELOPER_GROUP, PO_GROUP, Keys

NAMESPACES: Final = ["", "team-a"]
PASSWORD: Final = "their-own-word"
USER_ID: Final = 7
"""Whose session a PO worker's is, unless the test says so."""
_KEYS: Final = ("TASK_RECORD", "SNAPSHOT_KEY")


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """The namespace of this test; "" for none."""
    return getattr(request, "param", "")


class Tenancy:
    """What an operator does for the users of a namespace."""

    def __init__(self, server: RedisServer, namespace: str) -> None:
        self.server = server
        self.namespace = namespace
        self.keys = Keys.of_namespace(namespace)

    def admit(self, environ: dict[str, str]) -> dict[str, str]:
        """Let a worker in; return its environment in this namespace."""
        worker_id, url = environ["WORKER_ID"], environ["REDIS_URL"]
        if environ["WORKER_TYPE"] == "po":
            user = redis_users.session_user(self.namespace, worker_id)
            record = self.keys.session_record(environ.get("USER_ID", USER_ID))
            rules = redis_users.session_rules(self.keys, worker_id, record)
            self.join(self.keys.po_input(worker_id), PO_GROUP, url)
        else:
            user = redis_users.worker_user(self.namespace)
            rules = redis_users.worker_rules(self.keys)
            self.join(self.keys.developer_input, DEVELOPER_GROUP, url)
        self.allow(user, rules, url)
        self.load(url)
        return {
            **environ,
            **{name: f"{self.keys.prefix}{environ[name]}" for name in _KEYS if name in environ},
            "KEY_PREFIX": self.keys.prefix,
            "REDIS_URL": url_of(user, url),
        }

    def allow(self, user: str, rules: tuple[str, ...], url: str = "") -> None:
        """Give a user these rights."""
        self.administer("ACL", "SETUSER", user, "reset", "on", f">{PASSWORD}", *rules, url=url)

    def join(self, stream: str, group: str, url: str = "") -> None:
        """Make a group on a stream, where it is missing."""
        with suppress(ResponseError):
            self.administer("XGROUP", "CREATE", stream, group, "0", "MKSTREAM", url=url)

    def load(self, url: str = "") -> None:
        """Load the library of functions."""
        self.administer("FUNCTION", "LOAD", "REPLACE", library(), url=url)

    def client(self, user: str) -> "BlockingRedis[str]":
        """A client in a user's name."""
        return BlockingRedis.from_url(
            url_of(user, self.server.url), decode_responses=True, **PATIENT
        )

    def leave(self) -> None:
        """Take all users back, and the functions."""
        users = [user for user in self.administer("ACL", "USERS") if user != "default"]
        self.administer("ACL", "DELUSER", "nobody", *users)
        self.administer("FUNCTION", "FLUSH")

    def administer(self, *command: Any, url: str = "") -> Any:
        """Run a command as one who may do everything."""
        with BlockingRedis.from_url(
            url or self.server.url, decode_responses=True, **PATIENT
        ) as client:
            return client.execute_command(*command)


def url_of(user: str, server: str) -> str:
    """The server's URL for a user whose password is PASSWORD."""
    return server.replace("redis://", f"redis://{quote(user, safe='')}:{PASSWORD}@")


@pytest.fixture
def tenancy(redis_server: RedisServer, namespace: str) -> Iterator[Tenancy | None]:
    """The operator's part for this test's namespace; None without one."""
    if not namespace:
        yield None
        return
    tenancy = Tenancy(redis_server, namespace)
    yield tenancy
    tenancy.leave()
