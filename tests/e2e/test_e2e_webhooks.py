"""Events on the cluster: signed requests to the real receiver, and programs that are killed."""

import base64
import json
import random
import urllib.error
import urllib.request
import uuid
from typing import Any

import pytest
from support.cluster import CommandError, Object
from support.webhooks import REPOSITORY, github_request, labeled
from support.world import NAMESPACE, SYSTEM, World, echo_task

from orbiter_contracts.webhook_signatures import Hook, read_hook_path

pytestmark = pytest.mark.e2e
RUN = uuid.uuid4().hex[:4]
NOW = ("--grace-period=0", "--force", "--wait=false")
COMPONENT = "app.kubernetes.io/component"
EVENTS, TWICE = 100, 30


def trigger(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentTrigger",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "source": {"github": {"repository": REPOSITORY}},
            "filters": {"labels": ["agent"]},
            "taskTemplate": {"spec": echo_task("unused")["spec"]},
            **spec,
        },
    }


def tasks(world: World, name: str) -> list[Object]:
    return world.cluster.list_all("agenttasks", NAMESPACE, f"orbiter.dev/agenttrigger={name}")


def status(world: World, name: str) -> Object:
    found: Object = world.cluster.get("agenttrigger", name, NAMESPACE).get("status") or {}
    return found


def hook_of(world: World, name: str) -> tuple[Hook, str]:
    """The trigger's hook, and its secret as people find it."""
    world.until("its address is known", lambda: status(world, name).get("webhookPath"), 90)
    hook = read_hook_path(status(world, name)["webhookPath"])
    assert hook is not None
    data = world.cluster.get("secret", "orbiter-webhooks", NAMESPACE)["data"]
    return hook, base64.b64decode(data[f"{name}.secret"]).decode()


class Sender:
    """Sends as GitHub does, and again until somebody has answered: a sender that does not lose."""

    def __init__(self, world: World, hook: Hook, secret: str) -> None:
        self.world, self.hook, self.secret = world, hook, secret

    def send(self, body: Object, delivery: str = "", secret: str = "") -> int:
        headers, raw = github_request(
            self.hook, "issues", body, delivery=delivery, secret=secret or self.secret
        )
        found = 0

        def answered() -> bool:
            nonlocal found
            try:
                with self.world.forward("service/orbiter-receiver", 80, SYSTEM) as port:
                    found = post(f"http://127.0.0.1:{port}{self.hook.path}", raw, headers)
            except (OSError, CommandError, AssertionError):
                return False  # the pod that was forwarded to has gone
            return found != 503

        self.world.until("somebody answers", answered, 120)
        return found


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.timeout(400)
def test_a_signed_event_starts_a_task_once(world: World) -> None:
    name = f"hooked-{RUN}"
    world.apply(trigger(name))
    try:
        sender = Sender(world, *hook_of(world, name))
        assert sender.send(labeled("agent"), secret="somebody-elses") == 401
        for _ in range(3):
            assert sender.send(labeled("agent"), delivery="d-1") == 202
        world.until("its task has ended", lambda: [
            each for each in tasks(world, name)
            if (each.get("status") or {}).get("phase") == "Completed"
        ])  # fmt: skip
        assert sender.send(labeled("other", number=13)) == 202
        world.until(
            "the last is told",
            lambda: "none of the labels" in json.dumps(status(world, name).get("lastEvents")),
        )
        assert len(tasks(world, name)) == 1
    finally:
        world.kubectl("-n", NAMESPACE, "delete", "agenttrigger", name, "--ignore-not-found")
    world.until("its tasks have gone with it", lambda: not tasks(world, name))


@pytest.mark.apart
@pytest.mark.timeout(1500)
def test_a_hundred_events_some_of_them_twice_while_everything_is_killed(world: World) -> None:
    name = f"stormy-{RUN}"
    world.apply(trigger(name, maxPerHour=1000, historyLimits={"successful": 200}))
    chance = random.Random(RUN)
    numbers = [*range(EVENTS), *chance.sample(range(EVENTS), TWICE)]
    chance.shuffle(numbers)
    try:
        sender = Sender(world, *hook_of(world, name))
        for count, number in enumerate(numbers):
            if count % 10 == 5:
                component = ("receiver", "triggers")[count // 10 % 2]
                pods = ("delete", "pods", "-l", f"{COMPONENT}={component}")
                world.kubectl("-n", SYSTEM, *pods, *NOW)
            assert sender.send(labeled("agent", number=number)) == 202
        world.until("all are made", lambda: len(tasks(world, name)) >= EVENTS, 300)
        world.until(
            "all have ended",
            lambda: all(
                (each.get("status") or {}).get("phase") == "Completed"
                for each in tasks(world, name)
            ),
            600,
        )
        assert len(tasks(world, name)) == EVENTS
    finally:
        world.kubectl("-n", NAMESPACE, "delete", "agenttrigger", name, "--ignore-not-found")
    world.until("its tasks have gone with it", lambda: not tasks(world, name))
