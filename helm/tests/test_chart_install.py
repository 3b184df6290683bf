"""The chart on a real cluster: installed, upgraded and uninstalled beside the real installation.

The second release watches a namespace of its own and has no operator pods, so that it disturbs
nobody; its Redis is real.
"""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster, CommandError, Object
from support.manifests import read_manifests

pytestmark = pytest.mark.e2e

CHART = Path(__file__).resolve().parents[1] / "orbiter"
RELEASE = "chart-life"
HOME, WORK = "chart-life", "chart-life-work"
NAME = f"{RELEASE}-orbiter"
POD = f"{NAME}-redis-0"
VALUES = (
    *("-n", HOME, "-f", str(CHART / "ci/local-values.yaml")),
    *("--set", f"watchNamespaces={{{WORK}}}", "--set", f"workers.namespaces={{{WORK}}}"),
    # The cluster has Orbiter's own already.
    *("--set", "crds.install=false"),
    *("--set", "operator.replicas=0", "--set", "redis.persistence.size=64Mi"),
)
WITH_SERVER = (
    *VALUES,
    *("-f", str(CHART / "ci/server-values.yaml"), "--set", "server.persistence.enabled=true"),
)
KINDS = (
    "all,secrets,configmaps,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,"
    "leases,persistentvolumeclaims"
)
CLUSTER_KINDS = "clusterroles,clusterrolebindings"


@pytest.fixture(scope="module")
def namespaces(cluster: Cluster) -> Iterator[None]:
    with cluster.namespace(HOME), cluster.namespace(WORK):
        yield


@pytest.fixture(scope="module")
def installed(cluster: Cluster, namespaces: None) -> Iterator[None]:
    cluster.helm("install", RELEASE, str(CHART), *VALUES, "--wait", "--timeout", "100s")
    yield
    cluster.helm("uninstall", RELEASE, "-n", HOME, "--ignore-not-found", "--wait")


def redis_cli(cluster: Cluster, *command: str) -> str:
    words = ("exec", POD, "-c", "redis", "--", "redis-cli", "--user", "operator", *command)
    return cluster.kubectl("-n", HOME, *words).strip()


def passwords(cluster: Cluster) -> dict[str, str]:
    found: Object = cluster.get("secret", f"{NAME}-redis-auth", HOME)["data"]
    return {key: base64.b64decode(value).decode() for key, value in found.items()}


def left_over(cluster: Cluster, namespace: str) -> set[str]:
    label = f"app.kubernetes.io/instance={RELEASE}"
    text = cluster.kubectl("-n", namespace, "get", KINDS, "-l", label, "-o", "name")
    return set(text.split())


def test_the_api_server_takes_every_object(cluster: Cluster, namespaces: None) -> None:
    # No pod is taken before its ServiceAccount is there; `helm test` makes one after the other.
    text = cluster.helm("template", RELEASE, str(CHART), "--skip-tests", *WITH_SERVER)
    cluster.apply(text, "--dry-run=server", "--validate=strict", namespace=None)


def test_all_pods_meet_the_restricted_standard(cluster: Cluster, namespaces: None) -> None:
    text = cluster.helm("template", RELEASE, str(CHART), *WITH_SERVER)
    for item in read_manifests(text):
        if item and item["kind"] in ("Deployment", "StatefulSet", "Job", "Pod"):
            of_pod = item if item["kind"] == "Pod" else item["spec"]["template"]
            spec = of_pod["spec"] | {"serviceAccountName": "default"}
            # A claim's volume is mounted by the StatefulSet's controller.
            if item["kind"] == "StatefulSet":
                spec["volumes"].append({"name": "data", "emptyDir": {}})
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
            cluster.apply(pod, "--dry-run=server", namespace=HOME)


def test_redis_runs_and_its_operator_has_the_password_that_was_made(
    cluster: Cluster, installed: None
) -> None:
    assert redis_cli(cluster, "ping") == "PONG"
    assert set(passwords(cluster)) == {"operator-password", "master-key"}


def test_nothing_is_left_of_who_made_the_secrets(cluster: Cluster, installed: None) -> None:
    for namespace in (HOME, WORK):
        kinds = "jobs,pods,serviceaccounts,roles,rolebindings,networkpolicies"
        names = cluster.kubectl("-n", namespace, "get", kinds, "-o", "name")
        assert "make-secrets" not in names


def test_an_upgrade_keeps_passwords_and_the_queue(cluster: Cluster, installed: None) -> None:
    before = passwords(cluster)
    entry = redis_cli(cluster, "xadd", "worker:developer:input", "*", "data", "{}")
    changed = ("--set", "redis.maxMemory=100mb", "--wait", "--timeout", "100s")
    cluster.helm("upgrade", RELEASE, str(CHART), *VALUES, *changed)
    assert passwords(cluster) == before
    configured = cluster.get("configmap", f"{NAME}-redis", HOME)["data"]["redis.conf"]
    assert "maxmemory 100mb" in configured
    cluster.wait_for("pod", POD, _is_ready, namespace=HOME)
    assert entry in redis_cli(cluster, "xrange", "worker:developer:input", "-", "+")


def test_the_queue_survives_a_killed_pod(cluster: Cluster, installed: None) -> None:
    entry = redis_cli(cluster, "xadd", "worker:developer:input", "*", "data", "{}")
    uid = cluster.get("pod", POD, HOME)["metadata"]["uid"]
    cluster.delete("pod", POD, HOME, "--grace-period=0", "--force")
    cluster.wait_for(
        "pod", POD, lambda pod: pod["metadata"]["uid"] != uid and _is_ready(pod), namespace=HOME
    )
    assert entry in redis_cli(cluster, "xrange", "worker:developer:input", "-", "+")


@pytest.mark.parametrize(
    ("verb", "kind", "namespace", "allowed"),
    [
        ("create", "jobs.batch", WORK, True),
        ("patch", "agenttasks.orbiter.dev/status", WORK, True),
        ("patch", "agenttasks.orbiter.dev", WORK, False),
        ("get", "secrets", WORK, False),
        ("patch", "secrets", WORK, False),
        ("patch", "secrets/orbiter-chat", WORK, True),
        ("list", "secrets", HOME, False),
        ("create", "jobs.batch", "default", False),
        ("delete", "pods", WORK, False),
    ],
)
def test_the_operator_may_do_its_work_and_nothing_else(
    cluster: Cluster, installed: None, verb: str, kind: str, namespace: str, allowed: bool
) -> None:
    account = f"system:serviceaccount:{HOME}:{NAME}-operator"
    resource, _, sub = kind.partition("/")
    by_name = resource == "secrets" or not sub
    what = (kind,) if by_name else (resource, f"--subresource={sub}")
    words = ("auth", "can-i", verb, *what)
    try:
        said = cluster.kubectl("-n", namespace, *words, "--as", account)
    except CommandError:
        said = "no"
    assert said.strip() == ("yes" if allowed else "no")


@pytest.mark.parametrize(("role", "may"), [("view", "no"), ("edit", "yes")])
def test_who_may_edit_a_namespace_may_create_tasks(
    cluster: Cluster, installed: None, role: str, may: str
) -> None:
    binding = f"{RELEASE}-{role}"
    user = f"a-{role}or"
    words = ("create", "rolebinding", binding, f"--clusterrole={role}", f"--user={user}")
    cluster.kubectl("-n", WORK, *words)

    def can_i(verb: str) -> str:
        try:
            words = ("auth", "can-i", verb, "agenttasks.orbiter.dev", "--as", user)
            return cluster.kubectl("-n", WORK, *words).strip()
        except CommandError:
            return "no"

    assert can_i("get") == "yes"
    assert can_i("create") == may


def test_uninstalling_leaves_the_volume_the_passwords_and_the_definitions_only(
    cluster: Cluster, installed: None
) -> None:
    assert len(left_over(cluster, HOME)) > 8
    cluster.helm("uninstall", RELEASE, "-n", HOME, "--wait", "--timeout", "100s")
    cluster.wait_until_gone("pod", POD, namespace=HOME)
    kept = {f"persistentvolumeclaim/data-{POD}", f"secret/{NAME}-redis-auth"}
    assert left_over(cluster, HOME) == kept
    assert left_over(cluster, WORK) == set()
    label = f"app.kubernetes.io/instance={RELEASE}"
    assert cluster.kubectl("get", CLUSTER_KINDS, "-l", label, "-o", "name") == ""
    assert cluster.get("crd", "agenttasks.orbiter.dev")["spec"]["group"] == "orbiter.dev"


def _is_ready(pod: Object) -> bool:
    conditions = {item["type"]: item["status"] for item in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True"
