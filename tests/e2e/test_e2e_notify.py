"""Notifications on the cluster: the real courier tells a receiver on the node, and is killed."""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from standardwebhooks import Webhook
from support.cluster import CommandError, Object
from support.installation import on_the_node
from support.plugin import Plugin
from support.world import NAMESPACE, SYSTEM, World, echo_task

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
CHART = Path(__file__).resolve().parents[2] / "helm" / "orbiter"
PROGRAM = Path(__file__).with_name("programs") / "receive.py"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
RUN = uuid.uuid4().hex[:4]
NOW = ("--grace-period=0", "--force", "--wait=false")
TIMEOUT = ("--wait", "--timeout", "120s")


class Receiver(NamedTuple):
    """Where it is, and what it has got."""

    url: str
    file: Path

    def got(self, name: str) -> list[Object]:
        """The events of an object whose signature is right, the first first."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        requests = [json.loads(line) for line in lines]
        events = []
        for one in requests:
            Webhook(SECRET).verify(one["body"], one["headers"])
            events.append(json.loads(one["body"]))
        return [one for one in events if one["subject"] == name]

    def types(self, name: str) -> list[str]:
        return [one["type"].removeprefix("dev.orbiter.") for one in self.got(name)]


@pytest.fixture(scope="module")
def receiver(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """On the node; its first answer is 503. The courier is told meanwhile that it may go there."""
    address, within = on_the_node(world.cluster)
    file = tmp_path_factory.mktemp("receiver") / "requests"
    command = [*within, sys.executable, str(PROGRAM), address, str(file), "503"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        notify: dict[str, Any] = {"enabled": True, "allowHTTP": True, "ports": [port]}
        notify["privateNetworks"] = [f"{address}/32"]
        words = ("upgrade", "orbiter", str(CHART), "-n", SYSTEM, "--reuse-values")
        setting = f"triggers.courier.notify={json.dumps(notify)}"
        world.cluster.helm(*words, "--set-json", setting, *TIMEOUT)
        try:
            yield Receiver(f"http://{address}:{port}/hook", file)
        finally:
            world.cluster.helm("rollback", "orbiter", "-n", SYSTEM, *TIMEOUT)
            process.terminate()


@pytest.fixture(scope="module", autouse=True)
def secret(world: World) -> Iterator[None]:
    made = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "orbiter-notify", "namespace": NAMESPACE},
        "stringData": {"secret": SECRET},
    }
    world.apply(made)
    yield
    world.kubectl("-n", NAMESPACE, "delete", "secret", "orbiter-notify", "--ignore-not-found")


def told(receiver: Receiver, name: str, **spec: Any) -> Object:
    sink = {"url": receiver.url, "secretRef": {"name": "orbiter-notify"}}
    return echo_task(name, notify=[sink], **spec)


def kill(world: World) -> None:
    component = "app.kubernetes.io/component=courier"
    world.kubectl("-n", SYSTEM, "delete", "pods", "-l", component, *NOW)


def test_an_end_is_told_again_until_it_is_taken_and_once_more_by_nobody(
    world: World, receiver: Receiver
) -> None:
    name = f"told-{RUN}"
    world.apply(told(receiver, name))
    world.wait(name, "Completed")
    world.until("it is told twice: 503, then 204", lambda: len(receiver.got(name)) == 2)
    first, second = receiver.got(name)
    uid = world.cluster.get("agenttask", name, NAMESPACE)["metadata"]["uid"]
    assert first["id"] == second["id"] == f"{uid}.completed"
    assert second["data"]["phase"] == "Completed"
    assert second["data"]["result"]["status"]
    # The one that comes after it says nothing of what was told.
    kill(world)
    other = f"after-{RUN}"
    world.apply(told(receiver, other))
    world.until("the next courier tells", lambda: receiver.types(other) == ["agenttask.completed"])
    assert len(receiver.got(name)) == 2


def test_what_ends_while_no_courier_is_there_is_told_by_the_next(
    world: World, receiver: Receiver
) -> None:
    name = f"alone-{RUN}"
    world.kubectl("-n", SYSTEM, "scale", "deployment/orbiter-courier", "--replicas=0")
    try:
        world.apply(told(receiver, name))
        world.wait(name, "Completed")
    finally:
        world.kubectl("-n", SYSTEM, "scale", "deployment/orbiter-courier", "--replicas=1")
    world.until("it is told", lambda: receiver.types(name) == ["agenttask.completed"])


def test_an_address_within_the_cluster_is_not_gone_to_and_an_event_says_so(
    world: World, receiver: Receiver
) -> None:
    name = f"inside-{RUN}"
    sink = {"url": "https://kubernetes.default.svc/", "secretRef": {"name": "orbiter-notify"}}
    world.apply(echo_task(name, notify=[sink]))
    world.wait(name, "Completed")

    def said() -> bool:
        events = [(one["reason"], one["message"]) for one in world.events(name)]
        return any(
            reason == "NotificationDelayed" and "not public" in text for reason, text in events
        )

    world.until("an Event says so", said)


def test_no_agent_may_have_what_signs(world: World) -> None:
    name = f"thief-{RUN}"
    agent = {"type": "claude", "credentialsSecretRef": {"name": "orbiter-notify"}}
    with pytest.raises(CommandError, match="a Secret of Orbiter itself"):
        world.apply(echo_task(name, agent=agent))


def test_a_test_is_sent_by_hand(world: World, receiver: Receiver) -> None:
    name = f"tried-{RUN}"
    world.apply(told(receiver, name))
    said = Plugin(world).run("notify", "test", name, "--json")
    assert [one["status"] for one in json.loads(said)] == [204]
    assert "test" in receiver.types(name)
