"""Limits that all calls of a process share: order, minutes, waits, cancellation, event loops."""

import asyncio
import gc
import threading

import pytest
from support.eventually import eventually
from support.model_wire import Answer, Refusal

from orbiter import Agent, run
from orbiter.models import (
    LimitedModel,
    ModelError,
    ModelLimits,
    ModelProvider,
    ModelResponse,
    ScriptedModel,
    StreamChunk,
    get_provider,
    limit_model,
)
from orbiter.models._internal.clock import Clock
from orbiter.models.openai import OpenAIProvider
from orbiter.types import OrbiterError, Usage, UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

HI = [UserMessage(content="hi")]


class Time:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now = 1000.0
        self.timers = []
        self.slept = []
        self.clock = Clock(
            sleep=self._sleep,
            now=lambda: self.now,
            chance=lambda: 1.0,
            monotonic=lambda: self.now,
            later=self._later,
        )

    async def _sleep(self, seconds):
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def _later(self, seconds, then):
        timer = Timer(self, self.now + seconds, then)
        self.timers.append(timer)
        return timer

    async def move(self, seconds):
        """Let time pass, and whoever was waiting for it go on."""
        self.now += seconds
        for timer in [t for t in self.timers if t.at <= self.now]:
            self.timers.remove(timer)
            timer.then()
        await settle()


class Timer:
    def __init__(self, time, at, then):
        self.time, self.at, self.then = time, at, then

    def cancel(self):
        if self in self.time.timers:
            self.time.timers.remove(self)


class Gate(ModelProvider):
    """Answers when it is told to, and knows who is being answered."""

    settings = True
    model = "gate"

    def __init__(self, usage=10):
        self.inside = []
        self.most = 0
        self.usage = Usage(total_tokens=usage)

    async def complete(self, messages, **options):
        leave = asyncio.Event()
        self.inside.append((messages[-1].content, leave))
        self.most = max(self.most, len(self.inside))
        try:
            await leave.wait()
        finally:
            self.inside = [one for one in self.inside if one[1] is not leave]
        return ModelResponse(content=messages[-1].content, usage=self.usage)

    @property
    def names(self):
        return [name for name, _ in self.inside]

    async def let_out(self, name):
        next(leave for who, leave in self.inside if who == name).set()
        await settle()


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


def ask(model, name, **options):
    return asyncio.create_task(model.complete([UserMessage(content=name)], **options))


@pytest.fixture
def time():
    return Time()


async def test_no_more_calls_than_allowed_are_under_way_and_they_go_in_their_order():
    gate = Gate()
    model = LimitedModel(gate, ModelLimits(concurrent=2))
    tasks = [ask(model, name) for name in "abcde"]
    await settle()
    assert gate.names == ["a", "b"]
    await gate.let_out("b")
    assert gate.names == ["a", "c"]
    await gate.let_out("a")
    assert gate.names == ["c", "d"]
    for name in "cde":
        await gate.let_out(name)
    assert [(await task).content for task in tasks] == list("abcde")
    assert gate.most == 2


async def test_who_waits_and_is_cancelled_leaves_the_queue():
    gate = Gate()
    model = LimitedModel(gate, ModelLimits(concurrent=1))
    first, second, third = (ask(model, name) for name in "abc")
    await settle()
    second.cancel()
    await settle()
    assert second.cancelled()
    await gate.let_out("a")
    assert gate.names == ["c"]
    third.cancel()
    await settle()
    fourth = ask(model, "d")
    await settle()
    assert gate.names == ["d"], "one that is cancelled under way gives its place back"
    await gate.let_out("d")
    assert [(await task).content for task in (first, fourth)] == ["a", "d"]


async def test_a_minute_has_no_more_requests_than_allowed(time):
    gate = Gate()
    model = LimitedModel(gate, ModelLimits(requests_per_minute=2, clock=time.clock))
    tasks = [ask(model, name) for name in "abcd"]
    await settle()
    assert gate.names == ["a", "b"]
    await time.move(59.9)
    assert gate.names == ["a", "b"]
    await time.move(0.1)
    assert gate.names == ["a", "b", "c", "d"]
    for name in "abcd":
        await gate.let_out(name)
    await asyncio.gather(*tasks)


async def test_any_sixty_seconds_count_not_the_clocks_minutes(time):
    gate = Gate()
    model = LimitedModel(gate, ModelLimits(requests_per_minute=2, clock=time.clock))
    tasks = [ask(model, "a")]
    await settle()
    await time.move(50)
    tasks += [ask(model, name) for name in "bcd"]
    await settle()
    assert gate.names == ["a", "b"]
    await time.move(10)
    assert gate.names == ["a", "b", "c"]
    await time.move(49)
    assert gate.names == ["a", "b", "c"]
    await time.move(1)
    assert gate.names == ["a", "b", "c", "d"]
    for task in tasks:
        task.cancel()


async def test_tokens_are_estimated_before_a_call_and_put_right_after_it(time):
    gate = Gate(usage=90)
    model = LimitedModel(gate, ModelLimits(tokens_per_minute=100, clock=time.clock))
    first = ask(model, "a" * 40)
    second = ask(model, "b" * 40, max_tokens=81)
    await settle()
    assert gate.names == ["a" * 40], "10 tokens and then 91 are more than 100"
    await time.move(30)
    await gate.let_out("a" * 40)
    third = ask(model, "c" * 40)
    await settle()
    assert gate.inside == [], "the first took 90, and nobody goes before the second"
    await time.move(30)
    assert gate.names == ["b" * 40]
    for task in (first, second, third):
        task.cancel()


async def test_what_was_estimated_too_high_is_given_back(time):
    gate = Gate(usage=5)
    model = LimitedModel(gate, ModelLimits(tokens_per_minute=100, clock=time.clock))
    first, second = ask(model, "a", max_tokens=95), ask(model, "b", max_tokens=95)
    await settle()
    assert gate.names == ["a"]
    await gate.let_out("a")
    assert gate.names == ["b"]
    await gate.let_out("b")
    await asyncio.gather(first, second)


async def test_a_call_above_the_limit_goes_alone(time):
    gate = Gate()
    model = LimitedModel(gate, ModelLimits(tokens_per_minute=100, clock=time.clock))
    first, second = ask(model, "a", max_tokens=500), ask(model, "b")
    await settle()
    assert gate.names == ["a"]
    await gate.let_out("a")
    assert gate.names == ["b"]
    first.cancel()
    second.cancel()


async def test_when_the_provider_asks_to_wait_everyone_waits(time):
    busy = ModelError("slow down", status=429, retry_after=7.0)
    model = LimitedModel(
        ScriptedModel(busy, "one", "two"), ModelLimits(clock=time.clock), max_retries=1
    )
    first = ask(model, "a")
    await settle()
    second = ask(model, "b")
    await settle()
    assert len(model._inner.requests) == 1
    await time.move(6.9)
    assert len(model._inner.requests) == 1
    await time.move(0.1)
    assert ((await first).content, (await second).content) == ("one", "two")


async def test_a_failure_without_a_wait_is_tried_again_after_growing_pauses(time):
    tired = ModelError("tired", status=503)
    model = LimitedModel(
        ScriptedModel(tired, tired, "at last"), ModelLimits(clock=time.clock), max_retries=2
    )
    assert (await model.complete(HI)).content == "at last"
    assert time.slept == [0.5, 1.0]


async def test_a_try_is_a_request_and_gives_its_place_away_while_it_pauses(time):
    limits = ModelLimits(concurrent=1, requests_per_minute=2, clock=time.clock)
    tired = ModelError("tired", status=503)
    model = LimitedModel(ScriptedModel(tired, "one", "two"), limits, max_retries=1)
    first, second = ask(model, "a"), ask(model, "b")
    await settle()
    assert (await second).content == "one"
    assert not first.done()
    await time.move(60)
    assert (await first).content == "two"


@pytest.mark.parametrize(
    "error",
    [
        ModelError("bad request", status=400),
        ModelError("come back tomorrow", status=429, retry_after=3600.0),
        ModelError("tired", status=503),
    ],
)
async def test_what_no_try_can_mend_is_raised_and_holds_nobody(time, error):
    model = LimitedModel(ScriptedModel(error, "x"), ModelLimits(concurrent=1, clock=time.clock))
    with pytest.raises(ModelError, match=str(error)):
        await model.complete(HI)
    assert (await model.complete(HI)).content == "x"


async def test_a_stream_keeps_its_place_until_it_is_over_or_left():
    model = LimitedModel(ScriptedModel("to be or", "not", "to be"), ModelLimits(concurrent=1))
    agent = Agent(name="a")
    async with run.stream(agent, "go", provider=model) as stream:
        async for event in stream:
            if event.type == "text":
                second = asyncio.create_task(run(agent, "go", provider=model))
                await settle()
                assert len(model._inner.requests) == 1
                break
    assert (await second).output == "not"
    third = run.stream(agent, "go", provider=model)
    assert "".join([event.text async for event in third if event.type == "text"]) == "to be"


class Breaking(ModelProvider):
    """Streams what it is given, then fails, the first time."""

    def __init__(self, *chunks):
        self.chunks = chunks
        self.calls = 0

    async def complete(self, messages, **options):
        raise AssertionError

    async def stream(self, messages, **options):
        self.calls += 1
        if self.calls > 1:
            yield StreamChunk(delta="again")
            return
        for chunk in self.chunks:
            yield chunk
        raise ModelError("tired", status=503)


async def test_a_stream_is_begun_again_only_before_its_first_chunk(time):
    limits = ModelLimits(concurrent=1, clock=time.clock)
    model = LimitedModel(Breaking(), limits, max_retries=1)
    assert [chunk.delta async for chunk in model.stream(HI)] == ["again"]
    begun = LimitedModel(Breaking(StreamChunk(delta="Once")), limits, max_retries=1)
    said = []

    async def read():
        async for chunk in begun.stream(HI):
            said.append(chunk.delta)  # noqa: PERF401

    with pytest.raises(ModelError, match="tired"):
        await read()
    assert (said, begun._inner.calls) == (["Once"], 1)
    assert [chunk.delta async for chunk in begun.stream(HI)] == ["again"]


async def test_all_event_loops_and_threads_share_the_limits():
    class Counting(ModelProvider):
        now = most = done = 0
        lock = threading.Lock()

        async def complete(self, messages, **options):
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
            await settle()
            with self.lock:
                self.now -= 1
                self.done += 1
            return ModelResponse(content="x")

    counting = Counting()
    model = LimitedModel(counting, ModelLimits(concurrent=3))
    agent = Agent(name="a")

    def in_a_loop_of_its_own():
        async def main():
            await asyncio.gather(*(run(agent, "hi", provider=model) for _ in range(25)))

        asyncio.run(main())

    await asyncio.gather(*(asyncio.to_thread(in_a_loop_of_its_own) for _ in range(4)))
    assert (counting.done, counting.now) == (100, 0)
    assert counting.most <= 3


async def test_a_loop_that_is_gone_with_calls_in_it_blocks_nobody():
    gate = Gate()
    model = LimitedModel(gate, ModelLimits(concurrent=1))

    def abandoned():
        # nobody cancels what this loop has open: one call under way, one in the queue
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(model.complete([UserMessage(content=n)])) for n in "ab"]
        for task in tasks:
            task._log_destroy_pending = False
        loop.run_until_complete(settle())
        loop.close()

    await asyncio.to_thread(abandoned)
    gate.inside.clear()
    gc.collect()
    last = ask(model, "c")
    await eventually(lambda: gate.names == ["c"])
    await gate.let_out("c")
    assert (await last).content == "c"


async def test_a_model_string_is_limited_for_all_agents(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    limits = ModelLimits(concurrent=1)
    limit_model("openai:gpt-4o", limits)
    limit_model("gpt-4o-mini", limits)
    try:
        one, two = get_provider("gpt-4o"), get_provider("openai:gpt-4o-mini", max_retries=5)
        assert isinstance(one, LimitedModel)
        assert one._limits is two._limits is limits
        assert (one._max_retries, two._max_retries) == (3, 5)
        assert two._inner._client.config.max_retries == 0
        assert isinstance(get_provider("openai:gpt-5"), OpenAIProvider)
    finally:
        limit_model("openai:gpt-4o", None)
        limit_model("openai:gpt-4o-mini", None)
    assert isinstance(get_provider("openai:gpt-4o"), OpenAIProvider)


async def test_over_the_real_sdks_a_wait_is_honoured_and_what_they_can_is_kept(vendor, time):
    answers = (
        Refusal(429, headers={"retry-after": "7"}),
        Answer(text="Hello."),
    )
    vendor.will(*answers)
    vendor.provider._client.config = vendor.provider._client.config.model_copy(
        update={"max_retries": 0}
    )
    model = LimitedModel(vendor.provider, ModelLimits(clock=time.clock), max_retries=1)
    assert model.structured_output == vendor.provider.structured_output
    assert model.settings
    task = asyncio.create_task(run(Agent(name="a"), "hi", provider=model))
    await eventually(lambda: bool(time.timers))
    assert len(vendor.server.received) == 1
    await time.move(7)
    assert (await task).output == "Hello."


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2"])
def test_a_limit_that_is_none_is_refused(value):
    with pytest.raises(OrbiterError, match=r"ModelLimits\(concurrent=.*give an integer from 1"):
        ModelLimits(concurrent=value)
