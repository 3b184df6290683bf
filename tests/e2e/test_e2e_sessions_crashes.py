"""Sessions on the real cluster when things die under them: no message is lost or answered twice."""

import random
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError, ResponseError
from support.session_world import SessionWorld, clear_sessions, front_end, worker_id
from support.world import NAMESPACE, SYSTEM, World

from orbiter_contracts.queues import BARE, PO_GROUP, dead_letter

RUN = uuid.uuid4().hex[:4]
NOW = ("--force", "--grace-period=0", "--wait=false")
OPERATOR = "app.kubernetes.io/component=operator"


@pytest.fixture(scope="module")
def sessions(world: World) -> Iterator[World]:
    clear_sessions(world)
    yield world
    clear_sessions(world)


@pytest.fixture
def talks(sessions: World) -> Iterator[SessionWorld]:
    with front_end(sessions) as redis:
        yield SessionWorld(sessions, redis)


@pytest.mark.timeout(600)
def test_twenty_sessions_talked_to_at_once_all_answer(talks: SessionWorld) -> None:
    names = [f"many-{RUN}-{n:02d}" for n in range(20)]
    talks.apply(*names, echo=True)
    for name in names:
        talks.wait(name, "Asleep")
    sent = {name: talks.send(name, "hello") for name in names}
    for name, request in sent.items():
        assert talks.answer(name, request, seconds=300).status == "success"
        talks.answered_once(name, [request])
    for name in names:
        talks.wait(name, "Asleep", seconds=300)


@pytest.mark.timeout(600)
def test_operators_killed_while_sessions_wake_and_sleep_lose_no_message(
    talks: SessionWorld,
) -> None:
    names = [f"killed-{RUN}-{n}" for n in range(3)]
    talks.apply(*names, echo=True, idle=1)
    chance = random.Random(7)
    sent: dict[str, list[str]] = {name: [] for name in names}
    for _ in range(3):
        for name in names:
            sent[name].append(talks.send(name, "hello"))
        if chance.random() < 0.7:
            talks.world.kubectl("-n", SYSTEM, "delete", "pods", "-l", OPERATOR, *NOW)
        for name in names:
            talks.answer(name, sent[name][-1], seconds=300)
    for name in names:
        talks.answered_once(name, sent[name])
        talks.wait(name, "Asleep")


def deliveries(redis: Any, name: str) -> int:
    """How often the message was delivered that the session has at the moment; 0 for none."""
    held: Any = []
    with suppress(ResponseError):  # no group yet: the operator makes it
        held = redis.xpending_range(BARE.po_input(worker_id(name)), PO_GROUP, "-", "+", count=1)
    return int(held[0]["times_delivered"]) if held else 0


@pytest.mark.timeout(600)
def test_a_message_whose_worker_dies_three_times_is_given_up(talks: SessionWorld) -> None:
    """Its agent says nothing meanwhile: a turn that gets on is kept, and no poison."""
    name = f"poison-{RUN}"
    talks.apply(name, echo=True, idle=600)
    poison = talks.send(name, "sleep 100")
    after = talks.send(name, "alive")
    with talks.world.redis() as redis:
        for delivery in (1, 2):
            talks.world.until(
                f"delivery {delivery}", lambda n=delivery: deliveries(redis, name) == n
            )
            talks.end_in_place(name)
        first = talks.answer(name, poison)
        assert (first.status, first.reason) == ("error", "WorkerCrashed")
        assert talks.answer(name, after).status == "success"
        assert redis.xlen(dead_letter(BARE.po_input(worker_id(name)))) == 1
    talks.wait_until(name, lambda status: status.get("deadLetters") == 1)
    assert "MessageGivenUp" in dict(talks.events(name))


@pytest.mark.timeout(600)
def test_a_message_whose_pod_is_deleted_by_force_again_and_again_is_answered(
    talks: SessionWorld,
) -> None:
    """That its pods are lost says nothing against it, though nothing of its turn was kept."""
    name = f"moved-{RUN}"
    talks.apply(name, echo=True, idle=600)
    request = talks.send(name, "sleep 8")
    with talks.world.redis() as redis:
        for delivery in (1, 2, 3):
            talks.world.until(
                f"delivery {delivery}", lambda n=delivery: deliveries(redis, name) == n
            )
            for pod in talks.pods(name):
                words = ("delete", "pod", pod["metadata"]["name"], *NOW)
                talks.world.kubectl("-n", NAMESPACE, *words)
        assert talks.answer(name, request).status == "success"
        assert redis.xlen(dead_letter(BARE.po_input(worker_id(name)))) == 0
    talks.answered_once(name, [request])


@pytest.mark.timeout(600)
def test_redis_killed_and_restarted_loses_no_message(sessions: World) -> None:
    name = f"redis-{RUN}"
    with front_end(sessions) as redis:
        talks = SessionWorld(sessions, redis)
        talks.apply(name, echo=True, idle=2)
        requests = [talks.send(name, "one")]
        talks.answer(name, requests[0])
        talks.wait(name, "Asleep")
    sessions.kubectl("-n", SYSTEM, "delete", "pod", "orbiter-redis-0", *NOW)
    ready = ("rollout", "status", "statefulset/orbiter-redis", "--timeout=120s")
    sessions.kubectl("-n", SYSTEM, *ready)
    with front_end(sessions) as redis:
        talks = SessionWorld(sessions, redis)
        sessions.until("Redis answers", lambda: _answers(redis))
        requests.append(talks.send(name, "two"))
        talks.answer(name, requests[1])
        talks.answered_once(name, requests)


def _answers(redis: "Redis") -> bool:
    try:
        return bool(redis.ping())
    except RedisError:
        return False
