"""`kubectl orbiter doctor`: each fault of an installation is named, with what to do about it."""

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.fake_kubectl import FakeKubectl, Object, a_task, an_object, kubectl
from support.front_end import server
from support.redis_server import RedisServer
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.doctor import CRDS
from orbiter.cli.kubectl.doctor_objects import differs, trouble_of
from orbiter.cli.kubectl.main import app
from orbiter.cli.kubectl.redis_forward import RedisForward
from orbiter.cli.ui.outcome import CommandError

__all__ = ["kubectl", "server"]
HOME = "orbiter-system"
CHECKS = [
    *("cluster", "crds", "programs", "leader", "clock"),
    *("namespace", "rights", "redis", "workers", "work"),
]


def labels(component: str) -> Object:
    return {"app.kubernetes.io/name": "orbiter", "app.kubernetes.io/component": component}


def program(kind: str, component: str, ready: int, replicas: int = 1) -> Object:
    return an_object(
        kind,
        f"orbiter-{component}",
        namespace=HOME,
        metadata={"labels": labels(component)},
        spec={"replicas": replicas},
        status={"readyReplicas": ready},
    )


def lease(holder: str = "orbiter-operator-x", age: float = 2.0) -> Object:
    renewed = datetime.now(UTC) - timedelta(seconds=age)
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "renewTime": renewed.isoformat().replace("+00:00", "Z"),
    }
    meta = {"labels": labels("operator")}
    return an_object("Lease", "orbiter-operator", namespace=HOME, metadata=meta, spec=spec)


def crd(name: str, **fields: Any) -> Object:
    return an_object("CustomResourceDefinition", name, **fields)


def own_crd() -> Object:
    found: Object = yaml.safe_load((files("orbiter.cli") / "data/agenttask.yaml").read_bytes())
    return crd("agenttasks.orbiter.dev", spec=found["spec"])


def a_pod(name: str, *, labels: Object, namespace: str = "default", **status: Any) -> Object:
    return an_object("Pod", name, namespace=namespace, metadata={"labels": labels}, status=status)


@pytest.fixture
def well(kubectl: FakeKubectl, server: RedisServer) -> FakeKubectl:
    """An installation with which nothing is wrong."""
    kubectl.has(
        own_crd(),
        crd("posessions.orbiter.dev"),
        crd("agentprofiles.orbiter.dev"),
        crd("clusteragentprofiles.orbiter.dev"),
        crd("agentbudgets.orbiter.dev"),
        crd("agenttriggers.orbiter.dev"),
        program("Deployment", "operator", 2, 2),
        program("StatefulSet", "redis", 1),
        lease(),
        an_object("Secret", "orbiter-developer", data={}),
        a_task("hello", phase="Running"),
    )
    return kubectl


def run(server: RedisServer, *words: str) -> Result:
    return CliRunner().invoke(app, ["doctor", "--redis-url", server.url, *words])


def checked(server: RedisServer) -> dict[str, Object]:
    return {each["check"]: each for each in json.loads(run(server, "--json").stdout)}


def asked() -> dict[str, Object]:
    """The same, of an installation whose Redis does not answer."""
    words = ["doctor", "--json", "--redis-url", "redis://127.0.0.1:1/0"]
    return {each["check"]: each for each in json.loads(CliRunner().invoke(app, words).stdout)}


@pytest.mark.integration
def test_an_installation_that_is_well_ends_with_0(well: FakeKubectl, server: RedisServer) -> None:
    result = run(server)
    *lines, last = result.stdout.splitlines()
    assert result.exit_code == 0, result.stdout
    assert [line.split()[:2] for line in lines] == [["ok", check] for check in CHECKS]
    assert last.startswith("10 checks in ")
    assert last.endswith("0 failed, 0 could not be made")


def test_the_active_operator_is_not_whoever_is_active_in_another_program(
    kubectl: FakeKubectl,
) -> None:
    meta = {"labels": labels("triggers-courier")}
    courier = lease(holder="orbiter-courier-x", age=9000)
    kubectl.has(courier | {"metadata": courier["metadata"] | meta | {"name": "a-courier"}}, lease())
    found = asked()
    assert found["leader"]["text"] == "orbiter-operator-x is active in namespace orbiter-system"
    assert (found["leader"]["verdict"], found["clock"]["verdict"]) == ("ok", "ok")


TWO = {  # how a namespace says which installation serves it
    "labelled": {
        "labels": {
            "orbiter.dev/operator": "orbiter-operator",
            "orbiter.dev/operator-namespace": HOME,
        }
    },
    "listed": {
        "labels": {"app.kubernetes.io/instance": "orbiter"},
        "annotations": {"meta.helm.sh/release-namespace": HOME},
    },
}


@pytest.mark.parametrize("how", TWO)
def test_of_two_installations_the_one_that_serves_the_namespace_is_looked_at(
    kubectl: FakeKubectl, how: str
) -> None:
    def installed(found: Object, where: str) -> Object:
        own = found["metadata"]["labels"] | {"app.kubernetes.io/instance": "orbiter"}
        return found | {"metadata": found["metadata"] | {"namespace": where, "labels": own}}

    kubectl.has(
        installed(lease(holder="stranger", age=9000), "a-other"),
        installed(program("Deployment", "operator", 0), "a-other"),
        installed(lease(), HOME),
        installed(program("Deployment", "operator", 1), HOME),
    )
    found = asked()  # it is not known which one is meant: each is looked at
    assert "stranger was active until" in found["leader"]["text"]
    kubectl.has(an_object("ServiceAccount", "orbiter-worker", metadata=TWO[how]))
    found = asked()
    assert found["leader"]["text"] == "orbiter-operator-x is active in namespace orbiter-system"
    assert found["programs"]["text"] == "operator ready in namespace orbiter-system"


HELD_UP = {"type": "Admitted", "reason": "QueueUnavailable"}
WRONG = [
    ("programs", lambda: program("Deployment", "operator", 0, 2), "operator: 0 of 2 pods ready"),
    ("programs", lambda: program("StatefulSet", "redis", 0), "redis: 0 of 1 pods ready"),
    ("programs", lambda: program("Deployment", "operator", 0, 0), "operator is scaled to 0"),
    ("leader", lambda: lease(holder=""), "no operator is active"),
    ("leader", lambda: lease(age=600), "orbiter-operator-x was active until "),
    ("clock", lambda: lease(age=-300), " s ahead of this machine's"),
    ("work", lambda: a_task("stuck", conditions=[HELD_UP]), "1 wait, stuck because of QueueUna"),
]  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize(("check", "wrong", "text"), WRONG)
def test_what_is_wrong_is_named_with_what_to_do(
    well: FakeKubectl, server: RedisServer, check: str, wrong: Callable[[], Object], text: str
) -> None:
    well.has(wrong())  # made now: what it says of the time has to be so
    result = run(server)
    assert result.exit_code == 1
    found = checked(server)
    assert found[check]["verdict"] == "FAIL"
    assert text in found[check]["text"]
    assert [name for name, each in found.items() if each["verdict"] == "FAIL"] == [check]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "name", "check", "text"),
    [
        ("CustomResourceDefinition", "posessions.orbiter.dev", "crds", "posessions.orbiter.dev"),
        ("Deployment", "orbiter-operator", "programs", "there is no operator"),
        ("Lease", "orbiter-operator", "leader", "there is no Lease"),
        ("Secret", "orbiter-developer", "namespace", "no worker can run in default"),
    ],
)
def test_what_is_missing_is_named(
    well: FakeKubectl, server: RedisServer, kind: str, name: str, check: str, text: str
) -> None:
    well.delete(kind, name)
    found = checked(server)[check]
    assert (found["verdict"], text in found["text"]) == ("FAIL", True)
    assert found["next"]


@pytest.mark.integration
def test_a_pod_that_does_not_run_says_why(well: FakeKubectl, server: RedisServer) -> None:
    waits = {"waiting": {"reason": "ImagePullBackOff"}}
    status = {"containerStatuses": [{"name": "w", "image": "registry/worker:1", "state": waits}]}
    worker = {"app.kubernetes.io/name": "agent-worker"}
    well.has(a_pod("hello-1-x", labels=worker, **status))
    found = checked(server)["workers"]
    assert "pod hello-1-x waits: ImagePullBackOff, image registry/worker:1" in found["text"]
    assert "images.workers" in found["next"]


@pytest.mark.integration
def test_rights_and_an_old_cluster(well: FakeKubectl, server: RedisServer) -> None:
    (well.home / "no-rights").touch()
    (well.home / "minor-version").write_text("29")
    found = checked(server)
    assert "you may not create agenttasks.orbiter.dev" in found["rights"]["text"]
    assert found["cluster"]["next"] == "it takes 1.30 or later"


def test_a_redis_that_does_not_answer_is_a_fault(
    kubectl: FakeKubectl,
) -> None:
    kinds = ("posessions", "agentprofiles", "clusteragentprofiles", "agentbudgets", "agenttriggers")
    others = [crd(f"{kind}.orbiter.dev") for kind in kinds]
    kubectl.has(own_crd(), *others, lease())
    words = ["doctor", "--json", "--redis-url", "redis://127.0.0.1:1/0"]
    found = {each["check"]: each for each in json.loads(CliRunner().invoke(app, words).stdout)}
    assert found["redis"]["verdict"] == "FAIL"
    assert "does not answer" in found["redis"]["text"]


def test_who_may_work_and_not_forward_a_port_or_read_logs_finds_no_fault(
    kubectl: FakeKubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A team's people have few rights on purpose: `docs/security.md` says which."""
    url = b64encode(b"redis://c%3Adefault:x@orbiter-redis.orbiter-system.svc:6379/0").decode()
    kubectl.has(
        own_crd(),
        *(crd(name) for name in CRDS[1:]),
        program("Deployment", "operator", 2, 2),
        lease(),
        an_object("Secret", "orbiter-developer", data={}),
        an_object("Secret", "orbiter-chat", data={"chat-url": url}),
    )
    whole = Kubectl.run

    def without_logs(self: Kubectl, *words: str, **how: Any) -> str:
        if words[:4] == ("auth", "can-i", "get", "pods/log"):
            raise CommandError("no")
        return whole(self, *words, **how)

    def refused(self: RedisForward) -> None:
        raise CommandError("port-forward failed: Error from server (Forbidden): services")

    monkeypatch.setattr(Kubectl, "run", without_logs)
    monkeypatch.setattr(RedisForward, "reopen", refused)
    result = CliRunner().invoke(app, ["doctor", "--json"])
    found = {each["check"]: each for each in json.loads(result.stdout)}
    assert [found[check]["verdict"] for check in ("rights", "redis")] == ["?", "?"]
    assert "ClusterRole view" in found["rights"]["next"]
    assert "docs/security.md" in found["redis"]["next"]
    assert result.exit_code == 0, result.stdout


@pytest.mark.integration
def test_a_task_that_says_it_in_several_conditions_is_counted_once(
    well: FakeKubectl, server: RedisServer
) -> None:
    said = [{**HELD_UP, "type": name} for name in ("Admitted", "Started", "Ready")]
    well.has(a_task("stuck", conditions=said))
    assert checked(server)["work"]["text"].startswith("1 wait, stuck because of ")


def test_without_a_cluster_nothing_else_is_said(kubectl: FakeKubectl) -> None:
    kubectl.fails("Unable to connect to the server: connection refused")
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 6
    assert result.stdout == ""
    assert "connection refused" in result.stderr


def test_an_older_crd_is_told_by_the_fields_that_it_lacks() -> None:
    old = own_crd()
    properties = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del properties["spec"]["properties"]["disruption"]
    assert differs(own_crd()) == ""
    why = differs(old)
    assert "has no spec.disruption, spec.disruption.checkpointSeconds" in why


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["message", "reason", "type"]), st.text(max_size=20)))
def test_whatever_a_pod_says_is_text(condition: dict[str, str]) -> None:
    pod = {"metadata": {"name": "a\x1b[31m"}, "status": {"conditions": [condition]}}
    assert "\x1b" not in trouble_of(pod).partition(" fits")[0]
