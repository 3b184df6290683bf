"""Where the attacks happen: A and B on the cluster, each attacker's own means, and the controls'.

B's tenant has a kubeconfig of its own, B's agents run what they are told in a shell of theirs, and
who speaks to Redis does so with the URL that a Secret of B gives. Controls have the same without
the guard: cluster-admin, a privileged pod, a copy of A's keys on a Redis without rules.
"""

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from redis import Redis
from redis.exceptions import RedisError
from support.cluster import Cluster, CommandError
from support.redis_server import PATIENT, RedisServer
from support.world import World

from attacks.names import B, Names
from attacks.shells import Shell
from attacks.table import Refused
from orbiter_contracts.queues import DEVELOPER_GROUP, PO_GROUP
from orbiter_contracts.webhook_signatures import Hook

_LISTENS_SECONDS = 2.0


class Field:
    """What attackers have, and what their controls have.

    Attributes:
        world: The cluster, as its administrator sees it.
        tenant: The cluster, as B's tenant sees it.
        names: Of keys of A, B and C, for lines of redis-cli.
        places: Names of objects, and addresses, for manifests, kubectl's words and scripts.
        users: The users of the victims' sessions, by namespace.
        own_user: The user of B's session.
        urls: Redis URLs that B's Secrets give, by who has them.
        shells: Shells of B's agents, by where they run; and that of the controls.
        hooks: Hooks of A and B by namespace, with their secrets.
    """

    def __init__(
        self,
        world: World,
        tenant: Cluster,
        *,
        names: Names,
        places: Names,
        users: Mapping[str, int],
        own_user: int,
        urls: Mapping[str, str],
        port: int,
        copy: "CopiedRedis",
        shells: Mapping[str, Shell],
        free: Shell,
        hooks: Mapping[str, tuple[Hook, str]],
    ) -> None:
        self.world = world
        self.admin = world.cluster
        self.tenant = tenant
        self.names = names
        self.places = places
        self.users, self.own_user = users, own_user
        self.urls = urls
        self.shells = shells
        self.free = free
        self.hooks = hooks
        self._port = port
        self._copy = copy

    def redis(self, user: str, *command: str | bytes) -> Any:
        """Run a command on the cluster's Redis as one of B's users.

        Raises:
            Refused: Redis said no.
        """
        with self.client(user) as client:
            return said_by(client, command)

    def client(self, user: str) -> "Redis[bytes]":
        """The cluster's Redis with the URL of one of B's users, over a port of this machine."""
        url = urlsplit(self.urls[user])
        login = {
            "username": unquote(url.username or ""),
            "password": unquote(url.password or ""),
        }
        return Redis(host="127.0.0.1", port=self._port, protocol=2, **login, **PATIENT)

    def redis_copy(self, *command: str | bytes) -> Any:
        """The same where nobody has rules: on a copy of these keys, made anew for each command."""
        with self._copy.client() as client:
            return said_by(client, command)

    def client_of_copy(self) -> "Redis[bytes]":
        """The copy itself, for what takes more than a command."""
        return self._copy.client()

    def announce(self, user: str, size: int) -> None:
        """Begin a request of so many bytes as one of B's users.

        Raises:
            Refused: Redis hung up.
        """
        url = urlsplit(self.urls[user])
        login = f"AUTH {unquote(url.username or '')} {unquote(url.password or '')}\r\n"
        announced(self._port, login, size)

    def announce_copy(self, size: int) -> None:
        """The same to a Redis without limits of ours."""
        announced(self._copy.port, "PING\r\n", size)

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Run kubectl as B's tenant.

        Raises:
            Refused: The API server said no.
        """
        try:
            return self.tenant.kubectl(*words, stdin=stdin)
        except CommandError as error:
            raise Refused(str(error)) from None

    def run(self, where: str, script: str) -> str:
        """Run a script in the shell of an agent of B.

        Raises:
            Refused: Its exit code was not 0; the text is what it printed.
        """
        return self.shells[where].run(script)


def said_by(client: "Redis[bytes]", command: tuple[str | bytes, ...]) -> Any:
    """Run a command.

    Raises:
        Refused: Redis said no.
    """
    try:
        return client.execute_command(*command)
    except RedisError as error:
        raise Refused(str(error)) from None


def announced(port: int, first: str, size: int) -> None:
    """Say that a text of this size follows, and listen whether Redis minds.

    Raises:
        Refused: It does.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=_LISTENS_SECONDS) as connection:
        connection.sendall(f"{first}*2\r\n$4\r\nECHO\r\n${size}\r\n".encode())
        said = b""
        with suppress(TimeoutError):
            while said.count(b"\n") < 2:
                data = connection.recv(1000)
                said += data
                if not data:
                    break
    if b"-" in said:
        raise Refused(said.decode())


class CopiedRedis:
    """A Redis of this machine that has the same keys, and rules for nobody.

    Args:
        server: The server; its database is made anew for each client.
        source: A client of the cluster's Redis that may read all of these keys.
        names: The keys.
    """

    def __init__(self, server: RedisServer, source: "Redis[bytes]", names: Names) -> None:
        self._server = server
        self._kept = {key: source.dump(key) for key in names.values()}
        self._groups = {
            **{names[f"{victim}input"]: DEVELOPER_GROUP for victim in ("", "c_")},
            **{names[f"{victim}po_input"]: PO_GROUP for victim in ("", "c_")},
            names["own_producer_input"]: "g",
        }

    @property
    def port(self) -> int:
        """Where the server listens."""
        return self._server.port

    def client(self) -> "Redis[bytes]":
        """A client on a fresh copy."""
        client: Redis[bytes] = Redis.from_url(self._server.url, protocol=2, **PATIENT)
        client.flushall()
        for key, dumped in self._kept.items():
            if dumped is not None:
                client.restore(key, 0, dumped)
        for stream, group in self._groups.items():
            with suppress(RedisError):  # it is there already
                client.xgroup_create(stream, group, id="0", mkstream=True)
        client.execute_command("ACL", "SETUSER", "operator", "on", "nopass", "~*", "+@all")
        return client


def tenants_role() -> list[dict[str, Any]]:
    """All rights on our resources and on Secrets in B, for a ServiceAccount of B; nothing else."""
    name = "attacks-tenant"
    meta = {"name": name, "namespace": B}
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["orbiter.dev"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
    ]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": B}],
        },
    ]


def kubeconfig_with(text: str, token: str) -> str:
    """A kubeconfig for the same cluster with another identity.

    Args:
        text: What `kubectl config view --raw --minify -o json` prints.
        token: Of the other identity.
    """
    config = json.loads(text)
    for user in config["users"]:
        user["user"] = {"token": token}
    return json.dumps(config)
