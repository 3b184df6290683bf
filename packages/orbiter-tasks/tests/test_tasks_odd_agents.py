"""Whatever an agent raises or returns, its task ends, and what it returned is kept."""

import asyncio
import logging
import math
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from support.strange_values import VALUES

from orbiter import tool
from orbiter.models import ScriptedModel, call
from orbiter.tasks import (
    AgentSpec,
    EventType,
    InputRequiredError,
    TaskBroker,
    TaskError,
    TaskEvent,
    TaskState,
    TaskStoreMemory,
    Worker,
    ask_user,
)
from orbiter.tasks._internal.adapter import AdaptedStore
from orbiter.tasks._keepable import MOST_TEXT, outcome

from .six_methods import SixMethods
from .test_tasks_recovery import Clock

QUICK = 0.02


class SpeechlessError(Exception):
    def __str__(self):
        raise ValueError("no words")

    __repr__ = __str__


RAISED = {
    "cancellation": (asyncio.CancelledError(), "by itself: nobody had cancelled its task"),
    "exit": (SystemExit(2), r"the agent raised SystemExit\(2\)"),
    "generator exit": (GeneratorExit(), r"the agent raised GeneratorExit\(\)"),
    "base exception": (BaseException("odd"), r"the agent raised BaseException\('odd'\)"),
    "surrogate": (ValueError("half \ud800"), "half \ufffd"),
    "no words": (SpeechlessError(), "SpeechlessError"),
    "very long": (ValueError("x" * (MOST_TEXT + 5)), "105 more characters not kept"),
}


@pytest.mark.parametrize(("error", "said"), RAISED.values(), ids=RAISED)
async def test_whatever_an_agent_raises_its_task_has_failed_and_says_why(
    store, error, said, caplog
):
    # half a character in the log cannot go from pytest's process to the one that counts the tests
    caplog.set_level(logging.CRITICAL, "orbiter.tasks")

    async def agent(task):
        if task.input == "odd":
            raise error
        return "done"

    options = {"agent_specs": {"default": agent}, "poll_interval": QUICK, "concurrency": 1}
    async with TaskBroker(store, **options) as broker:
        odd, other = await broker.submit("odd"), await broker.submit("other")
        task = await broker.wait(odd, timeout=5)
        assert (await broker.wait(other, timeout=5)).result == "done"
    assert task.state is TaskState.FAILED
    with pytest.raises(ValueError, match=said):
        raise ValueError(task.error)


async def test_an_agent_that_raises_cancellation_under_a_worker_has_failed(store):
    async def agent(task):
        raise asyncio.CancelledError("given up")

    task_id = await TaskBroker(store).submit("x")
    await Worker(store, None, {"default": agent}).execute(task_id)
    task = await store.get(task_id)
    assert task.state is TaskState.FAILED
    assert "given up" in task.error


def test_an_interrupt_in_an_agent_ends_the_task_and_then_the_program(caplog):
    store = TaskStoreMemory()
    ids = []

    async def agent(task):
        raise KeyboardInterrupt

    async def main():
        async with TaskBroker(store, agent_specs={"default": agent}) as broker:
            ids.append(await broker.submit("x"))
            await broker.wait(ids[0], timeout=5)
            await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    task = asyncio.run(store.get(ids[0]))
    assert (task.state, task.error) == (
        TaskState.FAILED,
        "the agent raised KeyboardInterrupt()",
    )


async def test_a_run_that_could_not_be_settled_is_an_orphan_over_six_methods_too():
    class Away(SixMethods):
        async def update_state(self, task_id, state, **fields):
            if state is not TaskState.RUNNING and task_id not in lifted:
                raise OSError("disk is away")
            return await super().update_state(task_id, state, **fields)

    async def agent(task):
        return "done"

    lifted: set[str] = set()
    clock = Clock()
    store = AdaptedStore(Away(), clock=clock)
    broker = TaskBroker(store, agent_specs={"default": agent})
    broker._worker._sleep = lambda seconds: asyncio.sleep(0)
    task_id = await broker.submit("x")
    task = await store.claim("owner", 10)
    await broker._worker.run(task, "owner")
    assert (await store.get(task_id)).state is TaskState.RUNNING
    assert await store.expired() == []
    clock.advance(10)
    assert [task.id for task in await store.expired()] == [task_id]
    lifted.add(task_id)
    await broker._dispatcher._take_in_orphans()
    assert (await store.get(task_id)).state is TaskState.FAILED


async def test_an_outcome_the_store_does_not_take_fails_the_task():
    class Picky(TaskStoreMemory):
        async def _swap(self, old, new):
            if new.result is not None:
                raise TaskError("too large for me")
            return await super()._swap(old, new)

    async def agent(task):
        return "done"

    broker = TaskBroker(Picky(), agent_specs={"default": agent}, poll_interval=QUICK)
    broker._worker._sleep = lambda seconds: asyncio.sleep(0)
    async with broker:
        task = await broker.wait(await broker.submit("x"), timeout=5)
    assert task.state is TaskState.FAILED
    assert task.error == "it was completed, but the store could not keep that: too large for me"


class Answer(BaseModel):
    value: object


def deep(depth):
    value = "core"
    for _ in range(depth):
        value = [value]
    return value


def circle():
    value = []
    value += [value, value]
    return value


RESULTS = {
    "a lone surrogate": ("a\ud800b", "a\ufffdb"),
    "two halves": ("\ud83d\ude00", "\N{GRINNING FACE}"),
    "bytes": (b"a\xffb", "a\ufffdb"),
    "not a number": (math.nan, "nan"),
    "a huge integer": (10**5000, hex(10**5000)),
    "a model with a surrogate": (Answer(value="\ud800"), "{'value': '\ufffd'}"),
    "a model with bytes": (Answer(value=b"\xff"), "{'value': '\ufffd'}"),
    "a model with a circle": (Answer(value=circle()), "{'value': ['…', '…']}"),
    "a circle": (circle(), "[[...], [...]]"),
    "too deep": (deep(10_000), str(deep(99)).replace("core", "…").replace("'…'", "['…']")),
    "too long": (
        "ü" * (MOST_TEXT + 3),
        "ü" * (MOST_TEXT - 100) + "\n… (103 more characters not kept)",
    ),
    "nothing": (None, "None"),
    "without words": (SpeechlessError(), "<SpeechlessError that has no text>"),
}


@pytest.mark.parametrize(("value", "kept"), RESULTS.values(), ids=RESULTS)
async def test_a_result_is_kept_whatever_it_is(store, value, kept):
    async def agent(task):
        return value

    async with TaskBroker(store, agent_specs={"default": agent}, poll_interval=QUICK) as broker:
        task = await broker.wait(await broker.submit("x"), timeout=10)
    assert (task.state, task.result) == (TaskState.COMPLETED, kept)


ODD = VALUES | st.binary() | st.lists(st.binary() | VALUES, max_size=3)


@given(value=ODD | ODD.map(lambda value: Answer(value=value)))
def test_every_outcome_is_text_that_every_store_can_keep(value):
    outcome(value).encode()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(payload=st.dictionaries(st.text(st.characters()), ODD), depth=st.integers(0, 400))
def test_every_event_can_be_written_and_read_again(payload, depth):
    given_ = payload | {"deep": deep(depth), "circle": circle()}
    event = TaskEvent(task_id="a\ud800", event_type=EventType.LOG, payload=given_)
    assert TaskEvent.model_validate_json(event.model_dump_json()).payload == event.payload


async def test_odd_words_of_a_caller_and_a_model_are_kept_as_far_as_they_can(store):
    spec = AgentSpec(name="default", tools=(ask_user,))
    model = ScriptedModel(call("ask_user", question="Which?"), "This \udfff.")
    async with TaskBroker(store, model=model, agent_specs=[spec], poll_interval=QUICK) as broker:
        task_id = await broker.submit("half \ud800", note="\ud800", number=math.inf)
        task = await broker.wait(task_id, timeout=5)
        assert (task.input, task.question) == ("half \ufffd", "Which?")
        assert task.metadata == {"note": "\ufffd", "number": None}
        await broker.answer(task_id, "the \udead one")
        task = await broker.wait(task_id, timeout=5)
    assert (task.answers, task.result) == (["the \ufffd one"], "This \ufffd.")


async def test_a_question_with_odd_words_is_asked(store):
    async def agent(task):
        if not task.answers:
            raise InputRequiredError("Which \ud800?")
        return task.answers[-1]

    async with TaskBroker(store, agent_specs={"default": agent}, poll_interval=QUICK) as broker:
        task_id = await broker.submit("x")
        assert (await broker.wait(task_id, timeout=5)).question == "Which \ufffd?"


async def test_a_broker_is_entered_once_and_again_when_it_was_left(store, gate):
    gate.open.set()
    broker = TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK)
    async with broker:
        with pytest.raises(TaskError, match=r"is entered already: .* a second one the same store"):
            await broker.__aenter__()
        assert (await broker.wait(await broker.submit("x"), timeout=5)).result == "x!"
    async with broker:
        assert (await broker.wait(await broker.submit("y"), timeout=5)).result == "y!"
    assert threading.active_count() < 50


async def test_a_callback_that_raises_anything_harms_nobody(store, gate, caplog):
    gate.open.set()
    errors = [SystemExit(3), asyncio.CancelledError(), GeneratorExit()]

    async def odd(task):
        raise errors.pop()

    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK) as broker:
        for _ in range(3):
            task_id = await broker.submit("x")
            await broker.notify(task_id, {TaskState.COMPLETED}, odd)
            assert (await broker.wait(task_id, timeout=5)).result == "x!"
    assert not errors
    assert caplog.text.count("a callback for task") == 3


async def test_a_tool_that_exits_does_not_end_the_process(store):
    @tool
    async def leave() -> str:
        """Leave."""
        raise SystemExit(4)

    @tool
    def leave_at_once() -> str:
        """Leave."""
        raise SystemExit(4)

    for chosen in (leave, leave_at_once):
        spec = AgentSpec(name="default", tools=(chosen,))
        model = ScriptedModel(call(chosen.name), "done")
        async with TaskBroker(
            store, model=model, agent_specs=[spec], poll_interval=QUICK
        ) as broker:
            task = await broker.wait(await broker.submit("x"), timeout=5)
        assert task.is_terminal
