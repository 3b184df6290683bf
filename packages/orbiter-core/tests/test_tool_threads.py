"""Sync tools have threads of their own, and a time."""

import asyncio
import subprocess
import sys
import threading

import pytest

from orbiter import Agent, run, tool
from orbiter._threads import Threads
from orbiter.models import ScriptedModel, call  # pyright: ignore[reportMissingImports]
from orbiter.tool import ToolDefinitionError
from orbiter.types import ToolExecutionError


@pytest.fixture
def gate():
    """Opens when the test is over, so that no thread of it is left."""
    event = threading.Event()
    yield event
    event.set()


async def told(*tools, reply) -> str | None:
    result = await run(Agent(name="a", tools=tools), "go", provider=ScriptedModel(reply, "ok"))
    assert result.stop_reason == "completed"
    [answer] = [message for message in result.messages if message.role == "tool"]
    return answer.error


async def test_a_sync_tool_that_hangs_is_an_error_after_its_time(gate):
    @tool(timeout=0.05)
    def hangs() -> str:
        """Hang."""
        gate.wait()
        return ""

    assert await told(hangs, reply=call("hangs")) == "Tool 'hangs' failed: no answer within 0.05 s"


async def test_an_async_tool_has_a_time_too_and_is_cancelled():
    ended = []

    @tool(timeout=0.05)
    async def hangs() -> str:
        """Hang."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return ""

    assert await told(hangs, reply=call("hangs")) == "Tool 'hangs' failed: no answer within 0.05 s"
    assert ended == [True]


async def test_a_timeout_of_the_function_s_own_stays_its_own():
    @tool(timeout=5)
    async def asks() -> str:
        """Ask a server."""
        raise TimeoutError("the server said nothing")

    assert await told(asks, reply=call("asks")) == "Tool 'asks' failed: the server said nothing"


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_time_that_is_none_is_refused(timeout):
    with pytest.raises(ToolDefinitionError, match=f"timeout={timeout}: give seconds"):

        @tool(timeout=timeout)
        def useless() -> str:
            """Do nothing."""
            return ""


async def test_tools_that_hang_take_no_thread_from_others(gate):
    threads = Threads(most=2)

    async def hang() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await threads.call(gate.wait, {})

    for _ in range(3):
        await asyncio.gather(hang(), hang())
    assert await asyncio.wait_for(threads.call(lambda: "here", {}), 5) == "here"


async def test_more_calls_than_threads_wait_for_each_other():
    threads = Threads(most=2)
    now, most, lock, pair = [0], [0], threading.Lock(), threading.Barrier(2)

    def work(number):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        pair.wait()
        with lock:
            now[0] -= 1
        return number

    calls = [threads.call(work, {"number": number}) for number in range(20)]
    assert await asyncio.gather(*calls) == list(range(20))
    assert most == [2]


async def test_a_call_that_is_cancelled_before_it_began_is_never_made(gate):
    threads = Threads(most=1)
    first = asyncio.ensure_future(threads.call(gate.wait, {}))
    made = []
    second = asyncio.ensure_future(threads.call(lambda: made.append(1), {}))
    third = asyncio.ensure_future(threads.call(lambda: "third", {}))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    gate.set()
    assert await third == "third"
    assert await first
    assert made == []


async def test_threads_are_used_again():
    threads = Threads()
    seen = {await threads.call(threading.get_ident, {}) for _ in range(20)}
    assert len(seen) == 1


async def test_the_loop_s_own_executor_is_not_theirs():
    @tool
    def where() -> str:
        """Say in which thread it runs."""
        return threading.current_thread().name

    others = await asyncio.to_thread(lambda: threading.current_thread().name)
    mine = await where.execute()
    assert mine != others
    assert mine.startswith("orbiter tool")


async def test_an_exception_that_no_future_takes_is_an_error_like_any_other():
    @tool
    def ends() -> str:
        """Stop."""
        raise StopIteration("end")

    with pytest.raises(ToolExecutionError, match=r"raised StopIteration\('end'\)"):
        await asyncio.wait_for(ends.execute(), 5)


async def test_a_process_that_was_forked_has_threads_of_its_own():
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "ignore", "-c", FORKED, stdout=subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(done.communicate(), 120)
    assert said.split() == [b"hello", b"hello"]


FORKED = """
import asyncio, os
from orbiter import tool

@tool
def greet() -> str:
    "Greet."
    return "hello"

print(asyncio.run(greet.execute()), flush=True)
child = os.fork()
if child == 0:
    print(asyncio.run(greet.execute()), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""

HANGS = """
import threading
from orbiter import Agent, run, tool
from orbiter.models import ScriptedModel, call

@tool(timeout=0.1)
def hangs() -> str:
    "Hang."
    threading.Event().wait()

model = ScriptedModel(call("hangs"), "It hangs.")
print(run.sync(Agent(name="a", tools=[hangs]), "go", provider=model).output)
"""


async def test_a_tool_that_hangs_does_not_keep_the_process():
    done = await asyncio.create_subprocess_exec(sys.executable, "-c", HANGS, stdout=subprocess.PIPE)
    said, _ = await asyncio.wait_for(done.communicate(), 120)
    assert (said.strip(), done.returncode) == (b"It hangs.", 0)


async def test_a_system_without_a_thread_to_give_fails_the_call_and_not_those_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, more = Threads(most=2), threading.Thread.start

    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await asyncio.wait_for(threads.call(list, {}), 30)
    alone = Threads(most=1)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await asyncio.wait_for(alone.call(list, {}), 30)
    monkeypatch.setattr(threading.Thread, "start", more)
    assert await asyncio.wait_for(alone.call(list, {}), 5) == []
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> str:
        begun.set()
        go_on.wait(30)
        return "held"

    first = asyncio.ensure_future(threads.call(hold, {}))
    assert await asyncio.to_thread(begun.wait, 30)
    monkeypatch.setattr(threading.Thread, "start", no_more)
    second = asyncio.ensure_future(threads.call(lambda: "waited for the one there is", {}))
    await asyncio.sleep(0)
    monkeypatch.setattr(threading.Thread, "start", more)
    go_on.set()
    assert await asyncio.wait_for(first, 30) == "held"
    assert await asyncio.wait_for(second, 30) == "waited for the one there is"
