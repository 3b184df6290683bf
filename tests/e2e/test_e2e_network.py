"""What the NetworkPolicies keep a worker and others from, each with its control: without the policy
the same connection succeeds."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.cluster import STATE, Cluster, Object
from support.world import ECHO_IMAGE, NAMESPACE, SYSTEM, World, task

PROGRAMS = Path(__file__).with_name("programs")
FOREIGN = "e2e-network"
ON_THE_NODE = "e2e-network-node"
WORKER_LABELS = {
    "app.kubernetes.io/name": "agent-worker",
    "app.kubernetes.io/managed-by": "orbiter",
}
REDIS = (f"orbiter-redis.{SYSTEM}.svc.cluster.local", 6379)
LISTENS_ON = 8099
# An address for documentation: public, as the policies see it, and nobody's.
PUBLIC = "192.0.2.1"

Places = Mapping[str, tuple[str, int]]


def metadata_address() -> str:
    """Where clouds tell a machine its secrets. A node that may be in a cloud keeps the real one."""
    kind = json.loads((STATE / "cluster.json").read_text())["kind"]
    return "169.254.169.254" if kind in ("local", "kind") else "169.254.42.42"


def pod(name: str, namespace: str, program: str, *arguments: str, **labels: str) -> Object:
    """A pod that runs one of the programs under the restricted Pod Security Standard."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
                "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
            },
            "containers": [
                {
                    "name": "main",
                    "image": ECHO_IMAGE,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-I", "-c", (PROGRAMS / program).read_text()],
                    "args": list(arguments),
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


def node_pod(name: str, node: str, *addresses: str) -> Object:
    """A pod that gives the node more addresses and answers at them, until it ends."""
    made = pod(name, ON_THE_NODE, "listen.py", *(f"{one}:{port}" for one in addresses
                                                 for port in (80, 443)))  # fmt: skip
    rights = {"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_BIND_SERVICE"]}}
    made["spec"] |= {"hostNetwork": True, "nodeName": node, "securityContext": {}}
    made["spec"]["containers"][0] |= {"securityContext": {"runAsUser": 0, **rights}}
    return made


def seen_from(world: World, namespace: str, name: str, places: Places) -> dict[str, str]:
    """`open` or the error, for a connection from a pod to each place."""
    words = [f"{host} {port}" for host, port in places.values()]
    program = (PROGRAMS / "connect.py").read_text()
    text = world.kubectl(
        "-n", namespace, "exec", name, "--", "python3", "-I", "-c", program, *words
    )
    return dict(zip(places, json.loads(text), strict=True))


def none_open(seen: Mapping[str, str]) -> bool:
    return "open" not in seen.values()


def all_open(seen: Mapping[str, str]) -> bool:
    return set(seen.values()) == {"open"}


@contextmanager
def without(cluster: Cluster, name: str, namespace: str) -> Iterator[None]:
    """Take a policy away, and put it back."""
    policy = cluster.get("networkpolicy", name, namespace)
    kept = ("name", "namespace", "labels", "annotations")
    policy["metadata"] = {key: policy["metadata"].get(key) for key in kept}
    cluster.delete("networkpolicy", name, namespace)
    try:
        yield
    finally:
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(policy))


def running(world: World, name: str, namespace: str) -> Object:
    def ready(found: Object) -> bool:
        statuses = found["status"].get("containerStatuses", [])
        return bool(statuses) and all(status["ready"] for status in statuses)

    return world.cluster.wait_for("pod", name, ready, namespace=namespace)


@pytest.fixture(scope="module")
def foreign(world: World) -> Iterator[str]:
    """A namespace that is no tenant's."""
    with world.cluster.namespace(FOREIGN) as name:
        yield name


@pytest.fixture
def worker(world: World) -> Object:
    """The pod of a task whose agent listens at a port."""
    world.apply(task("network", f"[[bash: python3 -m http.server {LISTENS_ON}]]"))
    world.wait("network", "Running")
    listens = f"http.server {LISTENS_ON}"
    world.until("the agent listens", lambda: listens in world.processes("network"))
    (found,) = world.pods("network")
    return found


@pytest.fixture
def stranger(world: World, foreign: str) -> Object:
    """A pod of somebody else that answers at the very ports that workers may reach elsewhere."""
    ports = (53, 443, 6379, 8080)
    world.apply(pod("stranger", foreign, "listen.py", *(f"0.0.0.0:{port}" for port in ports)))
    return running(world, "stranger", foreign)


@pytest.fixture
def node(world: World, worker: Object) -> Iterator[str]:
    """The address of the worker's node, which answers at two more addresses, too."""
    privileged = {"pod-security.kubernetes.io/enforce": "privileged"}
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": ON_THE_NODE, "labels": privileged},
        },
        node_pod("addresses", worker["spec"]["nodeName"], metadata_address(), PUBLIC),
    )
    found = running(world, "addresses", ON_THE_NODE)
    address: str = found["status"]["hostIP"]
    yield address
    world.cluster.delete("pod", "addresses", ON_THE_NODE)
    world.cluster.delete("namespace", ON_THE_NODE, "default", "--wait=false")


def api_server(world: World) -> tuple[str, int]:
    (found,) = world.cluster.list_all(
        "endpointslices", "default", "kubernetes.io/service-name=kubernetes"
    )
    return found["endpoints"][0]["addresses"][0], found["ports"][0]["port"]


def test_a_worker_reaches_dns_redis_and_https_and_nothing_else(
    world: World, worker: Object, stranger: Object, node: str
) -> None:
    operator, *_ = world.cluster.list_all("pods", SYSTEM, "app.kubernetes.io/component=operator")
    name = worker["metadata"]["name"]
    theirs = stranger["status"]["podIP"]
    doors: Places = {
        "a name of Redis, by DNS": REDIS,
        "the model, by its value": ("model-server.orbiter-test.svc.cluster.local", 80),
        "HTTPS at a public address": (PUBLIC, 443),
    }
    walls: Places = {
        "the API server's Service": ("kubernetes.default.svc.cluster.local", 443),
        "the API server": api_server(world),
        "the kubelet": (node, 10250),
        "the operator": (operator["status"]["podIP"], 9090),
        "another's pod, at the port of DNS": (theirs, 53),
        "another's pod, at the port of HTTPS": (theirs, 443),
        "another's pod, at Redis' port": (theirs, 6379),
        "another's pod, at the model's port": (theirs, 8080),
        "the metadata address": (metadata_address(), 80),
        "the metadata address, at the port of HTTPS": (metadata_address(), 443),
        "HTTP at a public address": (PUBLIC, 80),
    }
    assert all_open(seen := seen_from(world, NAMESPACE, name, doors)), seen
    assert none_open(seen := seen_from(world, NAMESPACE, name, walls)), seen
    with without(world.cluster, "orbiter-worker", NAMESPACE):
        world.until(
            "the worker reaches everything",
            lambda: all_open(seen_from(world, NAMESPACE, name, walls)),
            20,
        )
    world.until(
        "the worker reaches nothing again",
        lambda: none_open(seen_from(world, NAMESPACE, name, walls)),
        20,
    )
    assert all_open(seen := seen_from(world, NAMESPACE, name, doors)), seen


def test_nobody_calls_a_worker(world: World, worker: Object, stranger: Object) -> None:
    name, namespace = stranger["metadata"]["name"], stranger["metadata"]["namespace"]
    place = {"the worker": (worker["status"]["podIP"], LISTENS_ON)}
    assert none_open(seen := seen_from(world, namespace, name, place)), seen
    with without(world.cluster, "orbiter-worker", NAMESPACE):
        world.until(
            "the worker is reached", lambda: all_open(seen_from(world, namespace, name, place)), 20
        )


def test_nobody_but_workers_of_tenants_reaches_redis(world: World, foreign: str) -> None:
    # A worker's labels in a foreign namespace, and a tenant's namespace without the labels.
    disguised = pod("disguised", foreign, "listen.py", "127.0.0.1:8080", **WORKER_LABELS)
    bystander = pod("bystander", NAMESPACE, "listen.py", "127.0.0.1:8080")
    places = (("disguised", foreign), ("bystander", NAMESPACE))
    world.apply(disguised, bystander)

    def seen() -> dict[str, str]:
        redis = {"Redis": REDIS}
        return {name: seen_from(world, home, name, redis)["Redis"] for name, home in places}

    try:
        for name, home in places:
            running(world, name, home)
        assert none_open(now := seen()), now
        with without(world.cluster, "orbiter-redis", SYSTEM):
            world.until("Redis is open to all", lambda: all_open(seen()), 20)
        world.until("Redis is shut again", lambda: none_open(seen()), 20)
    finally:
        for name, home in places:
            world.cluster.delete("pod", name, home)
