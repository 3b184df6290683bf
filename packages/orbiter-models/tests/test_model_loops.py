"""A provider serves any event loop: one after the other, and several at the same time."""

import asyncio
import gc
import importlib
import os
import subprocess
import sys
import threading
import warnings

import pytest
from support.eventually import eventually
from support.model_wire import Answer

from orbiter import Agent, run

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

AGENT = Agent(name="a")


def streamed(provider):
    """Run as a stream in an event loop of its own, and return what it came to."""

    async def main():
        stream = run.stream(AGENT, "go", provider=provider)
        async for _ in stream:
            pass
        return stream.result

    return asyncio.run(main())


def ran(provider):
    """Run in an event loop of its own."""
    return run.sync(AGENT, "go", provider=provider)


@pytest.mark.parametrize("once", [ran, streamed])
async def test_run_sync_works_again_and_again_with_one_provider(vendor, once):
    provider = vendor.will(*[Answer(text=f"answer {i}") for i in range(3)])
    said = [(await asyncio.to_thread(once, provider)).output for _ in range(3)]
    assert said == ["answer 0", "answer 1", "answer 2"]


@pytest.mark.parametrize("once", [ran, streamed])
async def test_several_threads_share_one_provider(vendor, once):
    provider = vendor.will(*[Answer(text="hi")] * 12)

    def often(_):
        return [once(provider).output for _ in range(3)]

    said = await asyncio.gather(*(asyncio.to_thread(often, i) for i in range(4)))
    assert said == [["hi"] * 3] * 4


async def test_a_provider_goes_on_in_its_first_loop_while_others_come_and_go(vendor):
    provider = vendor.will(*[Answer(text="hi")] * 3)
    assert (await run(AGENT, "go", provider=provider)).output == "hi"
    assert (await asyncio.to_thread(ran, provider)).output == "hi"
    assert (await run(AGENT, "go", provider=provider)).output == "hi"
    # the first loop has kept its connection
    assert vendor.server.connections == 1


async def test_the_connections_of_a_loop_are_closed_at_its_end(vendor):
    provider = vendor.will(*[Answer(text="hi")] * 2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        await asyncio.to_thread(ran, provider)
        await asyncio.to_thread(streamed, provider)
        gc.collect()
    assert [str(w.message) for w in told if issubclass(w.category, ResourceWarning)] == []
    await eventually(lambda: vendor.server.connections == 0)


async def test_a_provider_is_closed_for_the_loop_that_closes_it_and_can_be_used_again(vendor):
    provider = vendor.will(*[Answer(text="hi")] * 2)
    await run(AGENT, "go", provider=provider)
    await provider.aclose()
    await provider.aclose()
    await eventually(lambda: vendor.server.connections == 0)
    assert (await run(AGENT, "go", provider=provider)).output == "hi"


async def test_a_loop_that_ended_without_a_word_leaves_nothing_behind(vendor):
    provider = vendor.will(*[Answer(text="hi")] * 4)

    def abandoned():
        # neither asyncio.run nor a Runner: nobody shuts down what the loop has open
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(run(AGENT, "go", provider=provider)).output
        finally:
            loop.close()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(3):
            assert await asyncio.to_thread(abandoned) == "hi"
        await run(AGENT, "go", provider=provider)
        gc.collect()
    assert len(provider._client._clients._open) == 1


async def test_the_sdk_is_imported_beside_the_event_loop(vendor, monkeypatch):
    threads = []
    real = importlib.import_module

    def noting(name, *rest):
        threads.append(threading.current_thread())
        return real(name, *rest)

    provider = vendor.will(Answer(text="hi"))
    monkeypatch.setattr(importlib, "import_module", noting)
    assert (await run(AGENT, "go", provider=provider)).output == "hi"
    assert threads
    assert threading.current_thread() not in threads


async def test_calls_that_begin_together_share_one_client(vendor):
    provider = vendor.will(*[Answer(text="hi")] * 4)
    said = await asyncio.gather(*(run(AGENT, "go", provider=provider) for _ in range(4)))
    assert [result.output for result in said] == ["hi"] * 4
    assert len(provider._client._clients._open) == 1
    await provider.aclose()
    await eventually(lambda: vendor.server.connections == 0)


async def test_a_loop_of_one_s_own_is_left_without_a_warning(vendor, monkeypatch):
    provider = vendor.will(Answer(text="hi"))
    monkeypatch.setattr("orbiter._internal.providers._load", lambda model: provider)

    async def main():
        try:
            return (await run(AGENT, "go")).output
        finally:
            await run.aclose()

    def own():
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(main())
        finally:
            loop.close()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert await asyncio.to_thread(own) == "hi"
        gc.collect()
    assert [str(w.message) for w in told if issubclass(w.category, ResourceWarning)] == []


TYPED = """
import asyncio, sys, threading
from orbiter import Agent, run
from orbiter.models import ModelError, get_provider

class Noting:
    def find_spec(self, name, path=None, target=None):
        if name in ("anthropic", "openai"):
            print(threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Noting())

async def main():
    address = {"api_key": "k", "base_url": "http://127.0.0.1:9", "max_retries": 0}
    model = get_provider(sys.argv[1], **address)
    try:
        await run(Agent(name="a", output_type=list[int]), "go", provider=model)
    except ModelError:
        pass

asyncio.run(main())
"""


@pytest.mark.parametrize("model", ["anthropic:claude-sonnet-4-5", "openai:gpt-4o"])
def test_a_typed_answer_does_not_import_the_sdk_on_the_event_loop(model):
    done = subprocess.run(
        [sys.executable, "-c", TYPED, model], capture_output=True, text=True, timeout=240,
        env={**os.environ, "ORBITER_FORBID_MODEL_CALLS": ""},
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (["False"], "")
