"""Messages, crashes and outages at the worst moment: none is lost and none answered twice."""

import asyncio
import contextlib
import random

import pytest
from redis.exceptions import RedisError
from support.eventually import eventually
from support.fake_api import RefusedRequestError
from support.running_sessions import running_sessions
from support.talks import Talks, worker_id

from orbiter_contracts.queues import BARE, PO_GROUP

pytestmark = pytest.mark.integration
NAMESPACE = "team"
SESSIONS, ROUNDS = 50, 20
MOMENTS = ("before the scale", "after the scale", "at some time", "as it wakes")


@pytest.fixture
def talks(world):
    return Talks(world.api, world.redis)


class Sender:
    """Sends each session's next message at a chosen moment of its going to sleep."""

    def __init__(self, talks, api, seed):
        self._talks = talks
        self._chance = random.Random(seed)
        self.left = dict.fromkeys((f"s-{n:02d}" for n in range(SESSIONS)), ROUNDS)
        self.sent = []
        self._moment = {}
        self._last = {}
        self._later = set()
        api.before, api.after = self._before, self._after
        api.listeners.append(self._seen)

    @property
    def done(self):
        return not any(self.left.values()) and not self._later

    async def send(self, name):
        if self.left[name]:
            self.left[name] -= 1
            self._moment[name] = self._chance.choice(MOMENTS)
            self._last[name] = await self._talks.send(name)
            self.sent.append(self._last[name])

    async def nudge(self, answers):
        """Send to those that sleep: what came before the scale may need no further wake-up."""
        for name, last in list(self._last.items()):
            if answers[last] and not self._talks.replicas(name):
                await self.send(name)

    async def _before(self, verb, plural, body):
        if (name := self._going(verb, plural, body)) and self._moment[name] == MOMENTS[0]:
            await self.send(name)

    async def _after(self, verb, plural, body):
        if (name := self._going(verb, plural, body)) and self._moment[name] == MOMENTS[1]:
            await self.send(name)

    def _seen(self, change, plural, obj):
        """The API server has stored a scaled-down Deployment."""
        name = obj["metadata"]["name"]
        if plural != "deployments" or obj["spec"]["replicas"] or name not in self._moment:
            return
        if self._moment[name] == MOMENTS[2]:
            self._after_a_while(name, self._chance.uniform(0, 0.03))
        elif self._moment[name] == MOMENTS[3]:
            self._after_a_while(name, 0.0)
            self._after_a_while(name, 0.002)

    def _after_a_while(self, name, seconds):
        async def wait_and_send():
            await asyncio.sleep(seconds)
            await self.send(name)

        task = asyncio.ensure_future(wait_and_send())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _going(self, verb, plural, body):
        """The name of the session that is being scaled down."""
        if (verb, plural) != ("patch", "deployments") or body["spec"].get("replicas") != 0:
            return None
        name = body["metadata"]["name"]
        return name if name in self._moment else None


@pytest.mark.timeout(300)
async def test_a_thousand_messages_sent_while_scaling_down_are_each_answered_once(world, talks):
    """SESSIONS times ROUNDS interleavings; every message but the first meets a scale-down."""
    sender = Sender(talks, world.api, seed=20260301)
    for name in sender.left:
        talks.apply(name)
    async with running_sessions(world.api, world.server) as operator:
        for name in sender.left:
            await sender.send(name)

        async def all_answered():
            await sender.nudge(world.sessions.answers)
            return sender.done and len(world.sessions.answers) == len(sender.sent)

        try:
            await eventually(all_answered, seconds=200)
        except AssertionError:
            missing = [one for one in sender.sent if not world.sessions.answers[one]]
            left = {name: count for name, count in sender.left.items() if count}
            text = f"{len(missing)} of {len(sender.sent)} not answered; not sent: {left}"
            raise AssertionError(text) from None
        await eventually(lambda: operator.sessions.gauges()["orbiter_sessions_awake"] == 0)
    assert len(sender.sent) == SESSIONS * ROUNDS
    assert set(world.sessions.answers.values()) == {1}
    assert set(world.sessions.runs.values()) == {1}, "an agent ran twice for one message"
    assert world.sessions.beside == 1, "two workers of one session ran at the same time"
    for name in sender.left:
        requests = [answer.request_id for answer in await talks.answers(name)]
        assert len(requests) == ROUNDS


async def test_an_operator_that_dies_between_decision_and_scale_decides_again(world, talks):
    first = await world.start_operator()
    talks.apply("alice")
    await talks.until("alice", "Asleep")

    async def die(verb, plural, body):
        if (verb, plural) == ("patch", "deployments"):
            first.kill_now()
            raise RefusedRequestError(500, "InternalError", "never carried out")

    world.api.before = die
    await talks.send("alice")
    await eventually(lambda: first.process.returncode is not None)
    world.api.before = world.api.after
    await world.start_operator()
    assert await talks.answered("alice") == ["re: hello"]


async def test_an_operator_that_dies_after_scaling_down_leaves_no_message_unanswered(world, talks):
    first = await world.start_operator()
    talks.apply("alice")
    await talks.until("alice", "Asleep")
    await talks.send("alice", "one")
    nothing = world.api.after

    async def die(verb, plural, body):
        if (verb, plural) == ("patch", "deployments") and body["spec"].get("replicas") == 0:
            first.kill_now()
            await talks.send("alice", "two")

    world.api.after = die
    await eventually(lambda: first.process.returncode is not None)
    world.api.after = nothing
    await world.start_operator()
    assert await talks.answered("alice", 2) == ["re: one", "re: two"]


async def test_a_missed_wake_is_repaired_by_the_resync(world, talks):
    async with running_sessions(world.api, world.server, resync=0.2) as operator:
        talks.apply("alice")
        await talks.until("alice", "Asleep")
        await eventually(lambda: len(operator.sessions.waker) == 1)
        for key in operator.sessions.store:
            operator.sessions.waker.unwatch(key)
        await talks.send("alice")
        assert await talks.answered("alice") == ["re: hello"]


async def test_streams_that_were_deleted_are_made_anew(world, talks):
    async with running_sessions(world.api, world.server, resync=0.2):
        talks.apply("alice")
        await talks.until("alice", "Asleep")
        await world.redis.flushall()

        async def back():
            return len(await talks.keys("alice")) == 2

        await eventually(back)
        await talks.send("alice")
        assert await talks.answered("alice") == ["re: hello"]


async def test_redis_that_restarts_loses_no_message(own_world):
    talks = Talks(own_world.api, own_world.redis)
    async with running_sessions(own_world.api, own_world.server, resync=0.5):
        talks.apply("alice")
        await talks.until("alice", "Asleep")
        await talks.send("alice", "before")
        await talks.answered("alice")
        await talks.until("alice", "Asleep")
        own_world.server.kill()
        own_world.server.start()

        async def is_back():
            with contextlib.suppress(RedisError):
                return await own_world.redis.ping()

        await eventually(is_back)
        await talks.send("alice", "after")
        assert await talks.answered("alice", 2) == ["re: before", "re: after"]


async def test_an_api_server_that_refuses_for_a_while_delays_the_wake_only(world, talks):
    async with running_sessions(world.api, world.server):
        talks.apply("alice")
        await talks.until("alice", "Asleep")
        refused = []

        async def refuse(verb, plural, body):
            if (verb, plural) == ("patch", "deployments") and len(refused) < 3:
                refused.append(verb)
                raise RefusedRequestError(503, "ServiceUnavailable", "busy")

        world.api.before = refuse
        await talks.send("alice")
        assert await talks.answered("alice") == ["re: hello"]
        assert len(refused) == 3


@pytest.mark.parametrize("null", ["an entry was deleted", "the group began in the middle"])
async def test_a_lag_that_redis_does_not_know_still_wakes(world, talks, null):
    stream = BARE.po_input(worker_id("alice"))
    first = await world.redis.xadd(stream, {"data": "{}"})
    if null == "an entry was deleted":
        await world.redis.xgroup_create(stream, PO_GROUP, "0")
        await talks.send("alice")
        await world.redis.xdel(stream, first)
        await world.redis.xadd(stream, {"data": "{}"}, id="*")
        last = (await world.redis.xinfo_stream(stream))["last-generated-id"]
        await world.redis.xdel(stream, last)
    else:
        second = await world.redis.xadd(stream, {"data": "{}"})
        await talks.send("alice")
        await world.redis.xgroup_create(stream, PO_GROUP, second)
    [group] = await world.redis.xinfo_groups(stream)
    assert group["lag"] is None
    talks.apply("alice")
    async with running_sessions(world.api, world.server):
        assert await talks.answered("alice") == ["re: hello"]
        await talks.until("alice", "Asleep")


async def test_a_message_that_is_being_answered_keeps_a_session_awake_though_its_lag_is_0(
    world, talks
):
    world.sessions.pod_delay = 0.2
    async with running_sessions(world.api, world.server, resync=0.1):
        talks.apply("alice")
        await talks.until("alice", "Asleep")
        await talks.send("alice", "sleep=1")

        async def is_delivered():
            [group] = await world.redis.xinfo_groups(BARE.po_input(worker_id("alice")))
            return (group["lag"], group["pending"]) == (0, 1)

        await eventually(is_delivered)
        await talks.answered("alice")
    assert talks.phases("alice")[:3] == ["Asleep", "Waking", "Busy"]
    assert world.sessions.runs.total() == 1


async def test_a_message_that_was_deleted_while_it_was_answered_keeps_nobody_awake(world, talks):
    async with running_sessions(world.api, world.server, resync=0.1):
        talks.apply("alice")
        await talks.send("alice", "sleep=0.3")
        await talks.until_in_turn("alice")
        stream = BARE.po_input(worker_id("alice"))
        [(entry, _)] = await world.redis.xrange(stream)
        await world.redis.xdel(stream, entry)
        await world.redis.hset("worker:po:team.alice:state", "state", "ready")
        await talks.until("alice", "Asleep")


async def test_twenty_sessions_at_once_are_all_awake_and_answered(world, talks):
    names = [f"many-{n}" for n in range(20)]
    async with running_sessions(world.api, world.server):
        for name in names:
            talks.apply(name)
        for name in names:
            await talks.until(name, "Asleep")
        for name in names:
            await talks.send(name)
        for name in names:
            assert await talks.answered(name) == ["re: hello"]


async def test_a_session_made_anew_while_the_deployment_of_the_old_one_was_made(world, talks):
    """It has the Deployment's name to itself when the garbage collector has been there."""
    before = world.api.before

    async def replace(verb, plural, body):
        if (verb, plural) == ("create", "deployments"):
            world.api.before = before
            talks.delete("again")
            talks.apply("again")

    world.api.before = replace
    async with running_sessions(world.api, world.server):
        talks.apply("again")
        await talks.until("again", "Asleep")
        await talks.send("again", "new")
        assert await talks.answered("again") == ["re: new"]
    (deployment,) = world.api.objects["deployments"].values()
    (owner,) = deployment["metadata"]["ownerReferences"]
    assert owner["uid"] == world.api.get("posessions", NAMESPACE, "again")["metadata"]["uid"]
