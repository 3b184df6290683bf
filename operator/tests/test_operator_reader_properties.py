"""Whatever is written to the three streams, in whatever order: every good entry is answered.

Property tests against a real Redis: strange entries (bytes, depth, width, numbers, halves of
characters, routing fields) among good ones, read by the operator's own readers.
"""

import asyncio
from datetime import UTC, datetime
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.eventually import eventually
from support.strange_values import WRITTEN, objects

from orbiter_contracts import (
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    POState,
    WorkerLifecycleEvent,
    encode,
)
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, OPERATOR_GROUP, TASK_FIELD
from orbiter_operator.kube.names import ENTRY
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.sessions.streams import Record, SessionQueues, registry_key
from orbiter_operator.streams.client import blocking_client, redis_client
from orbiter_operator.streams.intake import Intake
from orbiter_operator.streams.outputs import Consumer
from orbiter_operator.streams.pending_outputs import PendingOutputs
from orbiter_operator.streams.retention import trim_streams
from orbiter_operator.streams.tenants import Tenants
from orbiter_operator.tasks.cache import TaskCache
from orbiter_operator.tasks.job import build_task

pytestmark = pytest.mark.integration
KINDS = {
    BARE.developer_input: DeveloperWorkerInput,
    BARE.developer_output: DeveloperWorkerOutput,
    BARE.lifecycle: WorkerLifecycleEvent,
}
ROUTES = st.binary(max_size=30) | st.sampled_from(
    [b"team/fix", b"a/b/c", b"1", b"0", "\u00b2".encode(), b"9" * 5000, b"+1", b"\xff", b""]
)


@st.composite
def strange(draw):
    """A stream, and an entry for it that anybody may have written."""
    stream = draw(st.sampled_from(list(KINDS)))
    data = st.binary(max_size=100) | objects(list(KINDS[stream].model_fields))
    fields = draw(st.dictionaries(st.binary(min_size=1, max_size=20), st.binary(max_size=50)))
    fields |= draw(
        st.fixed_dictionaries(
            {}, optional={b"data": data, b"agenttask": ROUTES, b"attempt": ROUTES}
        )
    )
    return stream, fields or {b"data": b""}


class Readers:
    """The operator's readers on one Redis, and what they have handed on."""

    def __init__(self, server, kube):
        self.redis, self.reader = redis_client(server.url), blocking_client(server.url)
        self.pending, self.dead, self.heard = PendingOutputs(), [], []
        self.consumer = Consumer(
            redis=self.redis,
            reader=self.reader,
            tenants=Tenants(),
            pending=self.pending,
            enqueue=self._settle,
            connected=lambda: None,
            dead=self.dead.append,
            heard=lambda event, keys: self.heard.append(event.worker_id),
        )
        self.dispatcher = Intake(
            redis=self.redis,
            reader=self.reader,
            kube=kube,
            tenants=Tenants(),
            namespace="team",
            build=partial(build_task, agent={}),
            free_slots=lambda namespace: 100,
            allowed=lambda: None,
            dead=self.dead.append,
        )
        self.delivered = []

    def _settle(self, key):
        outputs = self.pending.of(key)
        self.delivered += [output.output.request_id for output in outputs if output.output]
        self.pending.settle(key, outputs)
        self.consumer.settled(outputs)

    async def __aenter__(self):
        parts = (self.consumer.run(), self.consumer.run_acknowledger(), self.dispatcher.run())
        self.parts = [asyncio.create_task(part) for part in parts]
        await eventually(lambda: self.consumer.reachable)
        return self

    async def __aexit__(self, *_):
        await end(self.parts)
        await self.redis.aclose()
        await self.reader.aclose()


@pytest.fixture
async def readers(redis_server, redis, kube):
    async with Readers(redis_server, kube) as made:
        yield made


NUMBER = iter(range(10**6))


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(entries=st.lists(strange(), min_size=1, max_size=12))
async def test_every_good_entry_among_strange_ones_is_answered(readers, redis, api, entries):
    name = f"good-{next(NUMBER)}"
    for stream, fields in entries:
        await readers.redis.xadd(stream, fields)
    await redis.xadd(BARE.developer_input, encode(DeveloperWorkerInput(task_id=name, prompt="ok")))
    output = DeveloperWorkerOutput(request_id=name, task_id=name)
    await redis.xadd(BARE.developer_output, encode(output, agenttask="team/fix", attempt="1"))
    await redis.xadd(BARE.lifecycle, encode(WorkerLifecycleEvent(worker_id=name, event="ready")))

    def all_are_answered():
        adopted = [task["spec"]["taskId"] for task in api.objects["agenttasks"].values()]
        return name in adopted and name in readers.delivered and name in readers.heard

    await eventually(all_are_answered)

    async def all_outputs_and_events_are_acknowledged():
        held = [
            await redis.xpending(s, OPERATOR_GROUP) for s in (BARE.developer_output, BARE.lifecycle)
        ]
        return all(one["pending"] == 0 for one in held)

    await eventually(all_outputs_and_events_are_acknowledged)
    assert not any(part.done() for part in readers.parts)
    await trim_streams(readers.redis, TaskCache(lambda key: None).unfinished, lambda: 10**12)
    # What is held became a task, or is bound to one and belongs to its Job.
    made = {
        task["metadata"].get("annotations", {}).get(ENTRY)
        for task in api.objects["agenttasks"].values()
    }
    held = await redis.xpending_range(BARE.developer_input, DEVELOPER_GROUP, "-", "+", 1000)
    for item in held:
        ((_, fields),) = await readers.redis.xrange(
            BARE.developer_input, item["message_id"], item["message_id"]
        )
        assert item["message_id"] in made or TASK_FIELD in fields


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    fields=st.dictionaries(
        st.sampled_from([name.encode() for name in POState.model_fields]) | st.binary(max_size=9),
        st.binary(max_size=40) | WRITTEN.map(lambda text: text.encode("utf-8", "surrogatepass")),
        min_size=1,
        max_size=8,
    ),
    registry=st.dictionaries(st.binary(max_size=9), st.binary(max_size=40), max_size=3),
)
async def test_every_observation_of_a_session_is_answered_whatever_its_worker_left(
    readers, redis, fields, registry
):
    key = registry_key("ns", "lease")
    await redis.delete(BARE.po_state("w"), key)
    await readers.redis.hset(BARE.po_state("w"), mapping=fields)
    if registry:
        await readers.redis.hset(key, mapping=registry)
    queues = SessionQueues(readers.redis, key)
    record = Record("u", "team", "alice", "w", retain=False)
    found = await queues.observe(record)
    assert found.state is None or found.state.model_dump_json()
    assert record in await queues.records()


async def test_a_state_of_any_number_and_size_of_fields_is_not_read_whole(readers, redis):
    now = datetime.now(UTC).isoformat()
    state = {f"f{number}": "x" * 100 for number in range(5000)}
    state |= {"session_id": "s" * 5_000_000, "turns": "3", "last_activity": now}
    await redis.hset(BARE.po_state("w"), mapping=state)
    queues = SessionQueues(readers.redis, registry_key("ns", "lease"))
    found = await queues.observe(Record("u", "team", "alice", "w", retain=False))
    assert found.state is not None
    assert (found.state.turns, found.state.session_id) == (3, None)
