"""From the release before this one to today's, by `helm upgrade`, with all kinds of work under way.

One installation is upgraded once; each test looks at one kind of work. `make test-upgrade`.
"""

import json
from collections import Counter

import pytest
from support import earlier_release, history
from support.cluster import Cluster
from support.upgrade_world import (
    FIRST,
    HELD,
    NAMESPACES,
    PATIENCE,
    SECOND,
    SESSION,
    Upgrade,
    install_earlier,
    upgrade,
    users_of,
)
from support.world import SYSTEM, World

from orbiter_contracts.queues import BARE, Keys

pytestmark = pytest.mark.timeout(3600)

AGAIN = (
    '[[attempt: 1]] [[result: {"status": "failure", "summary": "no"}]]\n'
    '[[attempt: 2]] [[result: {"summary": "again"}]]'
)
ASKS = (
    "[[remember: the branch is teal]]\n"
    '[[result: {"status": "input_required", "summary": "looked", "question": "Which?"}]]'
)
HELD_SESSION = f"{SESSION}=talking"


def begin(up: Upgrade) -> dict[str, str]:
    """Have work of every kind under way; returns the requests of turns that are."""
    turns = {}
    for namespace in NAMESPACES:
        users = users_of(namespace)
        for name, idle in (("asleep", 3), ("awake", 3600), ("talking", 3600), ("silent", 3)):
            up.session(namespace, name, users[name], idle)
        for name in ("asleep", "awake", "talking"):
            told = up.ask(namespace, name, users[name], f"[[remember: {name} likes tea]]")
            assert "remember" in told
        # One after the other, so that it is known which of them have a slot.
        up.task(namespace, "asks", ASKS)
        up.wait(namespace, "asks", "InputRequired")
        up.task(namespace, "again", AGAIN, retry={"limit": 1, "backoffSeconds": 180})
        up.wait(namespace, "again", "Pending", reason="Retrying")
        for name in ("held-1", "held-2", "held-3"):
            up.task(namespace, name, f'{HELD}\n[[result: {{"summary": "{name}"}}]]')
        for name in ("held-1", "held-2", "held-3"):
            up.wait(namespace, name, "Running")
        up.task(namespace, "after", '[[result: {"summary": "after"}]]', dependsOn=["held-1"])
        for name in ("waits-1", "waits-2"):
            up.task(namespace, name, f'[[result: {{"summary": "{name}"}}]]')
        up.wait(namespace, "waits-2", "Pending", reason="ConcurrencyLimit")
        turns[namespace] = up.send(
            namespace, "talking", users["talking"], f"{HELD}\n[[say: told at last]]"
        )
        up.wait_session(namespace, "talking", lambda s: s.get("phase") == "Busy")
        up.wait_session(namespace, "asleep", lambda s: s.get("phase") == "Asleep")
    return turns


class Seen:
    """What was there, for the tests to compare with."""

    def __init__(self, up: Upgrade, turns: dict[str, str]) -> None:
        self.up = up
        self.turns = turns
        self.pods = {
            (namespace, name): up.world.status(name, namespace)["podName"]
            for namespace in NAMESPACES
            for name in ("held-1", "held-2", "held-3")
        }


@pytest.fixture(scope="module")
def seen(cluster: Cluster) -> Seen:
    """An installation that was upgraded while all that went on."""
    earlier_release.build_images()
    earlier_release.load_images()
    install_earlier(cluster)
    world = World(cluster)
    up = Upgrade(world)
    with up.made.going_on(), up.said.going_on():
        found = Seen(up, begin(up))
        passwords = set(cluster.get("secret", "orbiter-redis-auth", SYSTEM)["data"])
        users = {f"{name}-password" for name in ("operator", "developer", "po", "chat")}
        assert passwords == {*users, "users.acl"}
        upgrade(cluster)
        count = len(up.made.accepted)
        world.until(
            "something new is accepted", lambda: len(up.made.accepted) > count + 2, PATIENCE
        )
    return found


def test_what_ran_is_not_begun_again_and_ends_in_its_pod(seen: Seen) -> None:
    up = seen.up
    for (namespace, name), pod in seen.pods.items():
        up.let_go(namespace, f"orbiter.dev/agenttask={name}")
        status = up.wait(namespace, name)
        assert (status["phase"], status["podName"]) == ("Completed", pod)
        assert (status["attempts"], status["result"]["summary"]) == (1, name)


def test_what_waited_runs_once(seen: Seen) -> None:
    for namespace in NAMESPACES:
        for name, attempts in (("waits-1", 1), ("waits-2", 1), ("after", 1), ("again", 2)):
            status = seen.up.wait(namespace, name)
            assert (status["phase"], status["attempts"]) == ("Completed", attempts), name


def test_a_question_of_before_is_answered_in_the_same_conversation(seen: Seen) -> None:
    up = seen.up
    for namespace in NAMESPACES:
        asked = up.world.status("asks", namespace)["inputRequest"]["id"]
        text = "[[recall]]\n[[result]]"
        change = {"spec": {"input": [{"id": asked, "text": text}]}}
        up.world.cluster.patch("agenttask", "asks", change, namespace)
        status = up.wait(namespace, "asks", "Completed", "Failed")
        assert status["phase"] == "Completed", status
        assert status["attempts"] == 2
        keys = BARE if namespace == FIRST else Keys.of_namespace(namespace)
        told = [out for out in up.outputs(keys) if out["request_id"] == status["requestId"]]
        assert "teal" in json.dumps(told), "the session was not resumed"


def test_every_entry_of_the_producer_is_answered_once(seen: Seen) -> None:
    up = seen.up
    made = up.made.accepted
    print(f"accepted {len(made)}, refused {dict(up.made.refused)}")

    def answered() -> Counter[str]:
        return Counter(out["request_id"] for out in up.outputs(BARE))

    up.world.until("all are answered", lambda: set(made) <= set(answered()), PATIENCE)
    found = answered()
    assert {request: found[request] for request in made} == dict.fromkeys(made, 1)
    tasks = up.world.cluster.list_all("agenttasks", FIRST)
    names = Counter(item["spec"].get("taskId") for item in tasks)
    assert {name: names[name] for name in made.values()} == dict.fromkeys(made.values(), 1)


def test_no_attempt_is_begun_or_answered_twice(seen: Seen) -> None:
    up = seen.up
    names = ("held-1", "held-2", "held-3", "waits-1", "waits-2", "after")
    everything: history.History = {}
    with up.world.redis() as redis:
        for keys in (BARE, Keys.of_namespace(SECOND)):
            for attempt, told in history.read(redis, keys).items():
                assert attempt not in everything, f"{attempt} is under two names"
                everything[attempt] = told
    of = {f"{namespace}/{name}" for namespace in NAMESPACES for name in names}
    assert not history.complaints(everything, of)


def test_a_turn_that_was_under_way_is_answered_once(seen: Seen) -> None:
    up = seen.up
    for namespace, request in seen.turns.items():

        def told(namespace: str = namespace, request: str = request) -> bool:
            up.let_go(namespace, HELD_SESSION)
            return any(a["request_id"] == request for a in up.answers(namespace, "talking"))

        up.world.until(f"{namespace}/talking answers", told, PATIENCE)
        answers = [a for a in up.answers(namespace, "talking") if a["request_id"] == request]
        assert [(a["status"], a["text"]) for a in answers] == [("success", "told at last")]


def test_every_session_remembers_what_it_was_told(seen: Seen) -> None:
    up = seen.up
    for namespace in NAMESPACES:
        users = users_of(namespace)
        for name in ("asleep", "awake", "talking"):
            assert f"{name} likes tea" in up.ask(namespace, name, users[name], "[[recall]]"), name
            up.sleep(namespace, name, 1)
        assert up.ask(namespace, "silent", users["silent"], "[[say: first]]") == "first"
        for name in ("asleep", "awake", "talking"):
            up.wait_session(namespace, name, lambda s: s.get("phase") == "Asleep")
            assert f"{name} likes tea" in up.ask(namespace, name, users[name], "[[recall]]"), name
            own = BARE if namespace == FIRST else Keys.of_namespace(namespace)
            status = up.wait_session(namespace, name, lambda s: True)
            assert status["inputStream"] == own.po_input(f"{namespace}.{name}")


def test_what_was_said_under_the_names_of_before_is_answered_once(seen: Seen) -> None:
    up = seen.up
    said = up.said.accepted
    print(f"accepted {len(said)}, refused {dict(up.said.refused)}")
    assert set(said.values()) == set(NAMESPACES)

    def answered() -> Counter[str]:
        answers = [a for namespace in NAMESPACES for a in up.answers(namespace, "asleep")]
        assert {a["status"] for a in answers} == {"success"}
        return Counter(a["request_id"] for a in answers)

    up.world.until("all are answered", lambda: set(said) <= set(answered()), PATIENCE)
    found = answered()
    assert {request: found[request] for request in said} == dict.fromkeys(said, 1)


def test_the_users_of_before_end_when_nobody_needs_them(seen: Seen) -> None:
    up, world = seen.up, seen.up.world
    quiet = "ORBITER_FORMER_REDIS_QUIET_SECONDS=5"
    world.kubectl("-n", SYSTEM, "set", "env", "deployment/orbiter-operator", quiet)
    ready = ("rollout", "status", "deployment/orbiter-operator", f"--timeout={PATIENCE:.0f}s")
    world.kubectl("-n", SYSTEM, *ready)

    def of_before() -> set[str]:
        return {user for user in up.users() - {"default", "operator"} if ":" not in user}

    world.until("they are gone", lambda: not of_before(), PATIENCE)
    there = world.cluster.get("secret", "orbiter-redis-auth", SYSTEM)["data"]
    assert set(there) == {"operator-password", "master-key"}
    for namespace in NAMESPACES:
        assert not world.cluster.find("secret", "orbiter-redis", namespace)
        assert {f"{kind}:{namespace}" for kind in "wcpt"} <= up.users()
        assert world.cluster.find("secret", "orbiter-developer", namespace)
        up.task(namespace, "late", '[[result: {"summary": "late"}]]')
        up.wait(namespace, "late", "Completed")
