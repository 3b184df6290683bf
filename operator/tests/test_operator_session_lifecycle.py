"""Whole POSessions on a real Redis and a fake API server."""

import pytest
from support.eventually import eventually
from support.fake_session_node import long_ago
from support.running_sessions import running_sessions
from support.talks import Talks, worker_id

from orbiter_contracts import POWorkerInput, encode
from orbiter_contracts.queues import BARE, PO_GROUP
from orbiter_operator.sessions.streams import registry_key
from orbiter_operator.streams.reader import LAST_ID

pytestmark = pytest.mark.integration
NAMESPACE = "team"
REGISTRY = registry_key("orbiter-system", "orbiter-operator")


@pytest.fixture
def talks(world):
    return Talks(world.api, world.redis)


@pytest.fixture
async def operator(world):
    async with running_sessions(world.api, world.server) as running:
        yield running


async def test_a_session_sleeps_wakes_for_a_message_answers_and_sleeps_again(
    world, operator, talks
):
    world.sessions.pod_delay = 0.2
    talks.apply("alice")
    status = await talks.until("alice", "Asleep")
    assert talks.replicas("alice") == 0
    assert status["inputStream"] == BARE.po_input("team.alice")
    for stream in (status["inputStream"], status["outputStream"]):
        [group] = await world.redis.xinfo_groups(stream)
        assert (group["name"], group["last-delivered-id"]) == (PO_GROUP, "0-0")
    await talks.send("alice", "hello")
    assert await talks.answered("alice") == ["re: hello"]
    await eventually(lambda: talks.status("alice").get("turns") == 1)
    status = await talks.until("alice", "Asleep")
    assert talks.phases("alice") in (
        ["Asleep", "Waking", "Busy", "Ready", "Asleep"],
        ["Asleep", "Waking", "Ready", "Asleep"],
        ["Asleep", "Waking", "Busy", "Asleep"],
        ["Asleep", "Waking", "Asleep"],
    )
    assert status["pendingMessages"] == 0
    assert status["replicas"] == 0
    assert status["usage"] == {
        **dict.fromkeys(("outputTokens", "cacheReadTokens", "cacheWriteTokens", "turns"), 0),
        "inputTokens": 10,
    }
    assert status["lastActivityTime"]
    assert talks.condition("alice", "Available")["status"] == "True"


@pytest.mark.parametrize("entry", [LAST_ID, "9007199254740993000-0", "9999999999999-0"])
async def test_a_message_whose_id_no_clock_has_made_breaks_nothing(world, talks, entry):
    stream = BARE.po_input("team.alice")

    async def is_repaired():
        newest = (await world.redis.xinfo_stream(stream))["last-generated-id"]
        return int(newest.partition("-")[0]) < 2_000_000_000_000

    async with running_sessions(world.api, world.server, resync=0.2):
        talks.apply("alice")
        await talks.until("alice", "Asleep")
        strange = encode(POWorkerInput(user_id=1, prompt="strange"))
        await world.redis.xadd(stream, strange, id=entry)
        await eventually(is_repaired)
        await talks.send("alice", "later")
        answers = await talks.answered("alice", 1 if entry == LAST_ID else 2)
        assert answers[-1] == "re: later"
        await eventually(lambda: talks.status("alice").get("turns") == len(answers))
        status = await talks.until("alice", "Asleep")
        assert status["lastActivityTime"] < "2200"


async def test_a_session_for_which_a_message_waits_already_wakes_at_once(world, talks):
    await talks.send("early", "first")
    talks.apply("early")
    async with running_sessions(world.api, world.server):
        assert await talks.answered("early") == ["re: first"]


async def test_a_suspended_session_ends_its_turn_and_keeps_messages_until_it_runs_again(
    world, operator, talks
):
    talks.apply("bob")
    await talks.until("bob", "Asleep")
    await talks.send("bob", "one sleep=0.5")
    await talks.until_in_turn("bob")
    talks.change("bob", operatingMode="Suspended")
    hold = BARE.po_hold(worker_id("bob"))
    await eventually(lambda: world.redis.exists(hold))
    for word in ("two", "three"):
        await talks.send("bob", word)
    await talks.until("bob", "Suspended")
    assert talks.replicas("bob") == 0
    await eventually(lambda: talks.status("bob")["pendingMessages"] == 2)
    assert await talks.answered("bob") == ["re: one sleep=0.5"]
    await talks.send("bob", "four")
    await eventually(lambda: talks.status("bob")["pendingMessages"] == 3)
    talks.change("bob", operatingMode="Running")
    texts = await talks.answered("bob", 4)
    assert texts[1:] == ["re: two", "re: three", "re: four"]
    assert not await world.redis.exists(hold)


async def test_the_newer_session_of_a_user_sleeps_until_the_older_is_deleted(
    world, operator, talks
):
    talks.apply("older", created=long_ago(), userId=77)
    talks.apply("newer", userId=77)
    reported = await talks.until_reason("newer", "DuplicateUser")
    assert "team/older" in reported["message"]
    await talks.send("newer")
    await eventually(lambda: talks.status("newer").get("pendingMessages") == 1)
    assert talks.replicas("newer") in (None, 0)
    talks.delete("older")
    assert await talks.answered("newer") == ["re: hello"]
    assert ("DuplicateUser", reported["message"]) in talks.events("newer")


async def test_deleting_a_session_ends_its_pod_and_then_its_keys(world, operator, talks):
    world.sessions.end_delay = 0.3
    talks.apply("gone", idle={"scaleToZeroAfterSeconds": 900})
    await talks.until("gone", "Asleep")
    await talks.send("gone", "sleep=0.3")
    await talks.until_in_turn("gone")
    await world.redis.set(BARE.po_snapshot("team.gone"), "memory")
    talks.delete("gone")

    async def nothing_left():
        return not await talks.keys("gone")

    await eventually(nothing_left)
    assert not world.api.objects["pods"]
    assert not await world.redis.hgetall(REGISTRY)


async def test_a_session_that_is_retained_keeps_its_keys(world, operator, talks):
    talks.apply("kept", retainPolicy="Retain")
    await talks.until("kept", "Asleep")
    await talks.send("kept")
    await talks.answered("kept")
    talks.delete("kept")

    async def forgotten():
        return not await world.redis.hgetall(REGISTRY)

    await eventually(forgotten)
    assert BARE.po_output("team.kept") in await talks.keys("kept")


async def test_a_session_deleted_while_no_operator_was_there_is_tidied_up_at_the_next_start(
    world, talks
):
    talks.apply("missed")
    talks.apply("stays")
    async with running_sessions(world.api, world.server):
        for name in ("missed", "stays"):
            await talks.until(name, "Asleep")
    # The keys of a worker that no POSession ever had.
    await world.redis.xadd(BARE.po_input("standalone"), {"data": "{}"})
    talks.delete("missed")

    async def nothing_left():
        return not await talks.keys("missed")

    async with running_sessions(world.api, world.server):
        await eventually(nothing_left)
    assert len(await talks.keys("stays")) == 2
    assert await world.redis.exists(BARE.po_input("standalone"))


async def test_a_new_session_of_the_same_name_begins_after_the_old_one_is_tidied_up(
    world, operator, talks
):
    world.sessions.end_delay = 0.3
    talks.apply("again", idle={"scaleToZeroAfterSeconds": 900})
    await talks.until("again", "Asleep")
    await talks.send("again")
    await talks.until("again", "Ready")
    talks.delete("again")
    talks.apply("again")
    await talks.until("again", "Asleep")
    assert await talks.answers("again") == []
    await talks.send("again", "new")
    assert await talks.answered("again") == ["re: new"]


@pytest.mark.parametrize(
    ("fate", "phase", "reason", "word"),
    [
        ("noimage", "Waking", "ImagePullFailed", "Back-off"),
        ("nosecret", "Waking", "SecretMissing", "orbiter-redis"),
        ("unschedulable", "Waking", "Unschedulable", "Insufficient memory"),
        ("crashloop", "Failed", "WorkerCrashed", "KEY is missing"),
        ("misconfigured", "Failed", "WorkerMisconfigured", "KEY is missing"),
    ],
)
async def test_a_session_whose_worker_cannot_start_says_why(
    world, operator, talks, fate, phase, reason, word
):
    talks.apply("poor", agent={"type": "claude", "model": fate})
    await talks.send("poor")
    reported = await talks.until_reason("poor", reason)
    await talks.until("poor", phase)
    assert word in reported["message"]
    await eventually(lambda: reason in dict(talks.events("poor")))


async def test_an_image_that_does_not_come_is_a_failure_after_a_while(world, talks):
    talks.apply("poor", agent={"type": "claude", "model": "noimage"})
    await talks.send("poor")
    async with running_sessions(world.api, world.server, image_pull_timeout_seconds=1):
        await talks.until("poor", "Failed")
        talks.change("poor", agent={"type": "claude", "model": "fine"})
        assert await talks.answered("poor") == ["re: hello"]


async def test_a_poisoned_message_is_shown_and_blocks_nothing(world, operator, talks):
    talks.apply("brave")
    await talks.until("brave", "Asleep")
    await talks.send("brave", "crash")
    await talks.send("brave", "after")
    await talks.answered("brave", 2)
    first, second = await talks.answers("brave")
    assert (first.status, second.text) == ("error", "re: after")
    await talks.until_reason("brave", "MessagesGivenUp", "DeadLetters")
    assert talks.status("brave")["deadLetters"] == 1
    await eventually(lambda: "MessageGivenUp" in dict(talks.events("brave")))
    await talks.until("brave", "Asleep")


async def test_a_rotation_is_an_event_and_in_the_status(world, operator, talks):
    talks.apply("turner")
    await talks.send("turner", "rotate")
    await eventually(lambda: talks.status("turner").get("sessionId") == "two")
    [message] = [text for reason, text in talks.events("turner") if reason == "SessionRotated"]
    assert message.startswith("Command: session two follows one")
    assert talks.status("turner")["rotations"] == 1


async def test_a_session_that_cannot_be_run_here_is_failed(world, operator, talks):
    talks.apply("odd", agent={"type": "cursor"})
    reported = await talks.until_reason("odd", "InvalidSpec")
    assert "no worker image for agent type 'cursor'" in reported["message"]
    assert talks.status("odd")["phase"] == "Failed"


async def test_a_deployment_that_is_not_ours_is_a_name_conflict(world, operator, talks):
    other = {"metadata": {"name": "taken", "namespace": NAMESPACE}, "spec": {"replicas": 3}}
    world.api.put("deployments", other)
    talks.apply("taken")
    await talks.until_reason("taken", "NameConflict")
    assert talks.replicas("taken") == 3


async def test_a_changed_spec_reaches_the_pod(world, operator, talks):
    talks.apply("changed")
    await talks.until("changed", "Asleep")
    talks.change("changed", agent={"type": "claude", "model": "opus"})

    def model():
        template = world.api.get("deployments", NAMESPACE, "changed")["spec"]["template"]
        environment = template["spec"]["containers"][0]["env"]
        return {item["name"]: item.get("value") for item in environment}.get("AGENT_MODEL")

    await eventually(lambda: model() == "opus")


async def test_a_deployment_that_somebody_deleted_is_made_anew(world, operator, talks):
    talks.apply("robbed")
    await talks.until("robbed", "Asleep")
    world.api.remove("deployments", NAMESPACE, "robbed")
    await eventually(lambda: talks.replicas("robbed") == 0)


async def test_the_metrics_tell_of_sessions(operator, talks):
    talks.apply("counted")
    await talks.until("counted", "Asleep")
    await eventually(lambda: len(operator.sessions.waker) == 1)
    await talks.send("counted")
    await talks.answered("counted")
    await talks.until("counted", "Asleep")
    metric = operator.metric
    await eventually(lambda: operator.sessions.gauges()["orbiter_sessions_asleep"] == 1)
    await eventually(lambda: metric("orbiter_session_turns_total") == 1)
    assert metric("orbiter_session_tokens_total", direction="input") == 10
    for stage in ("seen", "scaled", "scheduled", "started", "ready", "first_output", "total"):
        assert metric("orbiter_session_wake_seconds_count", stage=stage) == 1, stage
