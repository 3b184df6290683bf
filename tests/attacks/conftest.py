"""The field of the attacks: A and C at work, B's attackers with their means, and their controls."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.cluster import STATE, Cluster
from support.installation import clear, installed
from support.redis_server import RedisServer, running_server
from support.world import ECHO_IMAGE, SYSTEM, World, task

from attacks.agent_attacks import SESSION as SESSION_SHELL
from attacks.agent_attacks import WORKER as WORKER_SHELL
from attacks.door_attacks import HOOK, Hooks, hooks_of, trigger
from attacks.field import CopiedRedis, Field, kubeconfig_with, tenants_role
from attacks.names import A, B, names_of
from attacks.redis_attacks import CHAT, DEVELOPER, PRODUCER, READER
from attacks.redis_attacks import SESSION as SESSION_URL
from attacks.scene import (
    COPY,
    ECHO,
    INSIDE,
    INSIDE_USER,
    LONG,
    OWN_USER,
    TALK,
    USERS,
    WORK,
    chat_url,
    places,
    pods_of,
    policy_holds,
    reader_of_everything,
    secret_of,
    session,
    session_secret,
)
from attacks.shells import PROMPT, Shell
from attacks.tenant_attacks import NOBODYS
from attacks.work import Work, front_end, streams_of, talk
from orbiter_contracts import POWorkerInput, encode


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here: it needs the cluster."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.attacks)


@pytest.fixture(scope="package")
def world(cluster: Cluster) -> Iterator[World]:
    """Orbiter installed as the end-to-end tests have it."""
    with installed(cluster) as world:
        yield world


@pytest.fixture(scope="package")
def work(world: World) -> Iterator[Work]:
    """A and C at work."""
    work = Work(world)
    try:
        work.begin()
        yield work
    finally:
        work.close()


@pytest.fixture(scope="package")
def tenant(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster with the token of B's tenant."""
    role = tenants_role()
    world.apply(*role)
    token = world.kubectl("-n", B, "create", "token", "attacks-tenant", "--duration=1h").strip()
    config = world.kubectl("config", "view", "--raw", "--minify", "-o", "json")
    file = tmp_path_factory.mktemp("tenant") / "kubeconfig"
    file.touch(mode=0o600)
    file.write_text(kubeconfig_with(config, token))
    yield Cluster(file, STATE / "bin")
    for item in role:
        world.cluster.delete(item["kind"].lower(), item["metadata"]["name"], B)


@pytest.fixture(scope="package")
def free(world: World) -> Iterator[Shell]:
    """A privileged pod of a worker's image, with Redis' URL, a token, and no policy."""
    privileged = {"pod-security.kubernetes.io/enforce": "privileged"}
    password = secret_of(world.cluster, "orbiter-redis-auth", SYSTEM)["operator-password"]
    url = f"redis://operator:{password}@orbiter-redis.{SYSTEM}.svc:6379/0"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "free", "namespace": NOBODYS},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": ECHO_IMAGE,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-I", "-c", "import time; time.sleep(3600)"],
                    "env": [{"name": "REDIS_URL", "value": url}],
                    "securityContext": {"privileged": True, "runAsUser": 0},
                }
            ],
        },
    }
    meta = {"name": NOBODYS, "labels": privileged}
    world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    world.cluster.wait_for(  # its token needs it
        "serviceaccount", "default", lambda found: True, namespace=NOBODYS
    )
    world.apply(pod)
    world.cluster.wait_for(
        "pod",
        "free",
        lambda found: found["status"].get("phase") == "Running",
        namespace=NOBODYS,
    )
    yield Shell(world, NOBODYS, "free", agent=False)
    world.cluster.delete("namespace", NOBODYS, "default", "--wait=false")


@pytest.fixture(scope="package")
def shells(world: World) -> Iterator[dict[str, Shell]]:
    """B's agents, one in a task's worker and one in a session, that have become shells."""
    clear(world, B)
    world.apply(
        task(INSIDE, PROMPT, namespace=B, timeoutSeconds=LONG),
        session(INSIDE, B, INSIDE_USER, echo=False),
        session(ECHO, B, OWN_USER, echo=True),
    )
    message = POWorkerInput(user_id=INSIDE_USER, prompt=PROMPT)
    with front_end(world, B) as redis:
        redis.xadd(streams_of(world, B, INSIDE)["input"], encode(message))
    world.wait(INSIDE, "Running", namespace=B)
    (worker,) = world.pods(INSIDE, B)
    talk(world, B, ECHO, OWN_USER)
    (inside,) = world.until("the session's pod", lambda: pods_of(world, B, INSIDE))
    world.cluster.wait_for(
        "posession",
        INSIDE,
        lambda found: found.get("status", {}).get("phase") == "Busy",
        namespace=B,
    )
    places = {WORKER_SHELL: worker, SESSION_SHELL: inside}
    yield {
        where: Shell(world, B, pod["metadata"]["name"], agent=True) for where, pod in places.items()
    }
    clear(world, B)


@pytest.fixture(scope="package")
def copied_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis of this machine, where nobody has rules."""
    with running_server(tmp_path_factory.mktemp("copy")) as server:
        yield server


@pytest.fixture(scope="package")
def hooks(world: World) -> Iterator[Hooks]:
    """A trigger of A and one of B, which take events."""
    world.apply(*(trigger(namespace) for namespace in (A, B)))
    yield hooks_of(world)
    for namespace in (A, B):
        world.cluster.delete("agenttrigger", HOOK, namespace)


@pytest.fixture(scope="package")
def field(
    world: World,
    work: Work,
    tenant: Cluster,
    free: Shell,
    shells: dict[str, Shell],
    copied_server: RedisServer,
    hooks: Hooks,
) -> Iterator[Field]:
    """All of it. When the last attack is over, the victims' tasks end, and only then."""
    names = names_of(world, WORK, TALK, ECHO)
    world.until("the policy holds", lambda: policy_holds(world))
    with ExitStack() as stack:
        port = stack.enter_context(world.forward("service/orbiter-redis", 6379))
        operator = stack.enter_context(world.redis())
        source = reader_of_everything(operator, port)
        field = Field(
            world,
            tenant,
            names=names,
            places=places(world, tenant),
            users=USERS,
            own_user=OWN_USER,
            urls={
                DEVELOPER: secret_of(tenant, "orbiter-developer", B)["developer-url"],
                SESSION_URL: secret_of(tenant, session_secret(tenant), B)["url"],
                CHAT: chat_url(tenant, B),
                PRODUCER: secret_of(tenant, "orbiter-producer", B)["producer-url"],
                READER: secret_of(tenant, "orbiter-transcript", B)["transcript-url"],
            },
            port=port,
            copy=CopiedRedis(copied_server, source, names),
            shells=shells,
            free=free,
            hooks=hooks,
        )
        source.close()
        yield field
        work.end()
        operator.execute_command("ACL", "DELUSER", COPY)
