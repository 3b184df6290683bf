"""run.sync where an event loop runs already, as in a notebook."""

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from orbiter import Agent, run, tool
from orbiter.models import ModelError, ScriptedModel, call  # pyright: ignore[reportMissingImports]

AGENT = Agent(name="a")


async def test_a_run_has_a_loop_and_a_thread_of_its_own_beside_one_that_runs():
    seen = []

    @tool
    async def where() -> str:
        """Say where it runs."""
        seen.append((asyncio.get_running_loop(), threading.current_thread()))
        return "here"

    agent = Agent(name="a", tools=[where])
    result = run.sync(agent, "go", provider=ScriptedModel(call("where"), "done"))
    assert result.output == "done"
    [(loop, thread)] = seen
    assert loop is not asyncio.get_running_loop()
    assert loop.is_closed()
    assert not thread.is_alive()


async def test_it_may_be_called_again_and_again():
    model = ScriptedModel("one", "two")
    assert [run.sync(AGENT, "go", provider=model).output for _ in range(2)] == ["one", "two"]


async def test_its_errors_are_those_of_the_run():
    with pytest.raises(ModelError, match="overloaded") as failed:
        run.sync(AGENT, "go", provider=ScriptedModel(ModelError("overloaded")))
    assert failed.value.steps == 1


async def test_it_sees_the_caller_s_context_variables():
    user: ContextVar[str] = ContextVar("user", default="nobody")
    user.set("ada")
    model = ScriptedModel(lambda messages: user.get())
    assert run.sync(AGENT, "go", provider=model).output == "ada"


async def test_the_loop_that_stood_still_goes_on():
    later = asyncio.ensure_future(asyncio.sleep(0, "later"))
    assert run.sync(AGENT, "go", provider=ScriptedModel("now")).output == "now"
    assert await later == "later"


INTERRUPTED = """
import asyncio, os, signal
from orbiter import Agent, run

ended = []

class Hanging:
    async def complete(self, messages, **options):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

async def cell():
    try:
        run.sync(Agent(name="a"), "go", provider=Hanging())
    except KeyboardInterrupt:
        print("interrupted", *ended)

# as in a notebook, whose loop leaves signals alone
loop = asyncio.new_event_loop()
loop.run_until_complete(cell())
loop.close()
"""


def test_whoever_interrupts_it_cancels_the_run():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("interrupted cancelled\n", "")


async def test_one_that_is_interrupted_while_its_thread_starts_is_cancelled(monkeypatch):
    begun, ended = threading.Event(), []

    class Hanging(ScriptedModel):
        async def complete(self, messages, **_):
            try:
                begun.set()
                return await asyncio.Future()
            finally:
                ended.append("cancelled")

    started = threading.Thread.start

    def start(thread):
        started(thread)
        if thread.name == "orbiter run.sync":
            assert begun.wait(60)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt):
        run.sync(AGENT, "go", provider=Hanging())
    assert ended == ["cancelled"]
