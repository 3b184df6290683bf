"""Entries that nobody should have written, among good ones: each costs itself and nothing else."""

import json

import pytest
from support.eventually import eventually
from support.fake_api import RefusedRequestError
from support.malformed import CALLS

from orbiter_contracts import WorkerLifecycleEvent, encode
from orbiter_contracts.bounds import DEAD_LETTER_BYTES
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, OPERATOR_GROUP
from orbiter_contracts.scripts import PUBLISH_ATTEMPT

pytestmark = pytest.mark.integration
GROUPS = {
    BARE.developer_input: DEVELOPER_GROUP,
    BARE.developer_output: OPERATOR_GROUP,
    BARE.lifecycle: OPERATOR_GROUP,
}
CRASHES = {
    "bytes-that-are-not-utf8": {b"data": b"\xff\xfe"},
    "an-attempt-that-is-a-superscript": {
        b"data": b"{}",
        b"agenttask": b"team/fix",
        b"attempt": "\u00b2".encode(),
    },
    "an-attempt-of-5000-digits": {
        b"data": b"{}",
        b"agenttask": b"team/fix",
        b"attempt": b"9" * 5000,
    },
    "a-million-errors": {b"data": b'{"request_id":"r","task_id":"t","prompt":"x"' + CALLS},
    "a-giant-timeout": {
        b"data": b'{"task_id":"t","prompt":"x","timeout":99999999999999999999999}',
    },
}


async def unacknowledged(redis, stream):
    return (await redis.xpending(stream, GROUPS[stream]))["pending"]


@pytest.mark.parametrize("entry", CRASHES.values(), ids=CRASHES)
@pytest.mark.parametrize("stream", GROUPS)
async def test_a_malformed_entry_is_a_dead_letter_and_the_next_is_answered(world, stream, entry):
    operator = await world.start_operator(adopt_namespace="team")
    world.apply("before")
    await world.until("before", "Completed")
    await world.redis.xadd(stream, entry)
    good = json.dumps({"task_id": "good", "prompt": "ok"})
    await world.redis.xadd(BARE.developer_input, {"data": good})
    world.apply("after")
    await world.until("after", "Completed")
    ours = await eventually(lambda: world.adopted("good"))
    await world.until(ours, "Completed")

    async def letters():
        return await world.binary.xrange(f"{stream}:dead")

    ((_, letter),) = await eventually(letters)
    assert letter[b"reason"].decode().isprintable()
    assert all(value[:DEAD_LETTER_BYTES].startswith(letter[key]) for key, value in entry.items())

    async def nothing_is_left():
        return await unacknowledged(world.redis, stream) == 0

    await eventually(nothing_is_left)
    assert operator.process.returncode is None


async def test_a_verdict_with_an_integer_beyond_64_bits_ends_its_task_with_a_reason(world):
    await world.start_operator()
    world.apply("huge", "silent sleep=1")
    await world.until("huge", "Running")
    uid = world.api.get("agenttasks", "team", "huge")["metadata"]["uid"]
    record = BARE.attempt_record(uid, 1)
    entry = await world.redis.hget(record, "entry")
    verdict = f'{{"status":"success","data":{{"n":{10**30}}}}}'
    output = f'{{"request_id":"r","task_id":"t","verdict":{verdict}}}'
    event = encode(WorkerLifecycleEvent(worker_id="w", event="completed"))["data"]
    await world.redis.eval(
        PUBLISH_ATTEMPT,
        4,
        *(record, BARE.developer_input, BARE.developer_output, BARE.lifecycle),
        *(3600, entry, DEVELOPER_GROUP, output, event, "team/huge", 1),
    )
    status = await world.until("huge", "Failed")
    assert status["reason"] == "InvalidMessage"
    assert "beyond 64 bits" in status["message"]


async def test_a_status_that_the_api_server_refuses_for_its_result_is_written_without_it(world):
    async def refuse(verb, plural, body):
        result = ((body or {}).get("status") or {}).get("result") or {}
        if plural == "agenttasks" and "stored" not in result.get("summary", "stored"):
            raise RefusedRequestError(500, "InternalError", "etcdserver: request is too large")

    world.api.before = refuse
    await world.start_operator()
    world.apply("large", "ok")
    status = await world.until("large", "Completed")
    assert status["result"]["status"] == "success"
    assert "request is too large" in status["result"]["summary"]


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (400, "BadRequest", "strict decoding error"),
        (403, "Forbidden", 'admission webhook "policy.example.com" denied the request'),
        (413, "RequestEntityTooLarge", "limit is 3145728"),
        (415, "UnsupportedMediaType", "no"),
        (422, "Invalid", "spec.workspace: Invalid value"),
        (500, "InternalError", "etcdserver: request is too large"),
        (500, "InternalError", "rpc error: trying to send message larger than max"),
    ],
)
async def test_an_entry_whose_task_the_api_server_refuses_is_a_dead_letter(
    world, status, reason, message
):
    async def refuse(verb, plural, body):
        if verb == "create" and plural == "agenttasks" and body["spec"]["taskId"] == "bad":
            raise RefusedRequestError(status, reason, message)

    world.api.before = refuse
    await world.start_operator(adopt_namespace="team")
    for name in ("bad", "good"):
        await world.redis.xadd(
            BARE.developer_input, {"data": json.dumps({"task_id": name, "prompt": "ok"})}
        )
    ours = await eventually(lambda: world.adopted("good"))
    await world.until(ours, "Completed")

    async def letters():
        return await world.redis.xrange(f"{BARE.developer_input}:dead")

    ((_, letter),) = await eventually(letters)
    assert f"no AgentTask can be made of it: {status} {reason}" in letter["reason"]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, 'agenttasks is forbidden: User "operator" cannot create resource "agenttasks"'),
        (403, "agenttasks is forbidden: exceeded quota: tasks"),
        (429, "too many requests"),
        (503, "the server is starting"),
    ],
)
async def test_an_entry_waits_while_no_task_can_be_made(world, status, message):
    refusals = []

    async def refuse(verb, plural, body):
        if verb == "create" and plural == "agenttasks" and len(refusals) < 2:
            refusals.append(1)
            raise RefusedRequestError(status, "Refused", message)

    world.api.before = refuse
    await world.start_operator(adopt_namespace="team")
    await world.redis.xadd(
        BARE.developer_input, {"data": json.dumps({"task_id": "patient", "prompt": "ok"})}
    )
    await world.until(await eventually(lambda: world.adopted("patient")), "Completed")
    assert await world.redis.exists(f"{BARE.developer_input}:dead") == 0


async def test_a_job_that_nobody_can_read_is_left_out(world):
    labels = {"app.kubernetes.io/managed-by": "orbiter-operator", "orbiter.dev/attempt": "\u00b2"}
    owner = {"apiVersion": "orbiter.dev/v1alpha1", "kind": "AgentTask", "name": "x", "uid": "u"}
    meta = {"name": "strange", "namespace": "team", "labels": labels, "ownerReferences": [owner]}
    world.api.put("jobs", {"metadata": meta, "spec": {}, "status": {}})
    operator = await world.start_operator()
    world.apply("plain")
    await world.until("plain", "Completed")
    world.api.patch("jobs", "team", "strange", {"metadata": {"labels": {"more": "labels"}}})
    world.apply("later")
    await world.until("later", "Completed")
    assert operator.process.returncode is None
