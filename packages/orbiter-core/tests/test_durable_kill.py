"""A process is killed in the middle of a run, and the same call in the next one goes on."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from support.eventually import eventually
from support.model_wire import Answer, WireServer

from orbiter.replay import CUT_OFF

pytestmark = pytest.mark.integration
PROGRAM = Path(__file__).with_name("kept_program.py")
BOOK = Answer(calls=(("c1", "book", {}),), input_tokens=10, output_tokens=1)
PAY = Answer(calls=(("c2", "pay", {}),), input_tokens=10, output_tokens=1)
BOTH = Answer(calls=(("c1", "book", {}), ("c2", "pay", {})), input_tokens=10, output_tokens=1)
DONE = Answer(text="Booked and paid.", input_tokens=10, output_tokens=1)
UNSURE = Answer(text="Please look whether it is paid.", input_tokens=10, output_tokens=1)
BOOKED = ["book began", "book done"]
PAID = ["pay began", "pay done"]


class Clerk:
    """The program, its model and its directory."""

    def __init__(self, directory: Path, model: WireServer) -> None:
        self.directory = directory
        self.model = model
        self.environment = {
            **os.environ,
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "any",
            # this one is nobody's but ours
            "ORBITER_FORBID_MODEL_CALLS": "",
        }

    async def start(self, *answers: Answer) -> asyncio.subprocess.Process:
        self.model.answers += answers
        return await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), str(self.directory), env=self.environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def reaches(self, place: str, child: asyncio.subprocess.Process) -> None:
        there = self.directory / f"at-{place}"
        await eventually(lambda: there.exists() or child.returncode is not None)
        assert child.returncode is None, (await child.communicate())[1].decode()

    async def killed_at(self, place: str, *answers: Answer) -> None:
        (self.directory / f"hold-{place}").touch()
        child = await self.start(*answers)
        await self.reaches(place, child)
        child.send_signal(signal.SIGKILL)
        await child.communicate()
        (self.directory / f"hold-{place}").unlink()

    async def says(self, *answers: Answer) -> str:
        child = await self.start(*answers)
        said, trouble = await child.communicate()
        assert child.returncode == 0, trouble.decode()
        return said.decode().strip()

    @property
    def marks(self) -> list[str]:
        file = self.directory / "marks"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def requests(self) -> int:
        return len(self.model.received)

    @property
    def told(self) -> dict[str, str]:
        """What the latest request tells of the tools, by the call's id."""
        messages = self.model.received[-1].body["messages"]
        return {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}


@pytest.fixture
async def clerk(tmp_path):
    async with WireServer().running() as model:
        yield Clerk(tmp_path, model)


async def test_between_two_tools(clerk):
    await clerk.killed_at("model-2", BOOK)
    assert (clerk.requests, clerk.marks) == (1, BOOKED)
    # one step of the process that died, and two of this one, whose second request was not made
    assert await clerk.says(PAY, DONE) == "Booked and paid. 4 33"
    assert (clerk.requests, clerk.marks) == (3, BOOKED + PAID)
    assert clerk.told == {"c1": "book is done", "c2": "pay is done"}


async def test_within_a_tool(clerk):
    await clerk.killed_at("pay", BOOK, PAY)
    assert (clerk.requests, clerk.marks) == (2, [*BOOKED, "pay began"])
    assert await clerk.says(UNSURE) == "Please look whether it is paid. 3 33"
    assert (clerk.requests, clerk.marks) == (3, [*BOOKED, "pay began"])
    assert clerk.told["c1"] == "book is done"
    assert CUT_OFF in clerk.told["c2"]


async def test_within_one_of_two_tools_that_run_at_once(clerk):
    (clerk.directory / "hold-pay").touch()
    child = await clerk.start(BOTH)
    await eventually(lambda: {"pay began", "book done"} <= set(clerk.marks))
    store = clerk.directory / "runs.db"
    await eventually(lambda: b"book is done" in b"".join(
        path.read_bytes() for path in (store, Path(f"{store}-wal")) if path.exists()
    ))  # fmt: skip
    child.send_signal(signal.SIGKILL)
    await child.communicate()
    (clerk.directory / "hold-pay").unlink()
    marks = clerk.marks
    assert await clerk.says(UNSURE) == "Please look whether it is paid. 2 22"
    assert (clerk.requests, clerk.marks) == (2, marks)
    assert clerk.told["c1"] == "book is done"
    assert CUT_OFF in clerk.told["c2"]


async def test_after_the_models_answer(clerk):
    await clerk.killed_at("before-pay", BOOK, PAY)
    assert (clerk.requests, clerk.marks) == (2, BOOKED)
    # nobody can know that it had not begun
    assert await clerk.says(UNSURE) == "Please look whether it is paid. 3 33"
    assert (clerk.requests, clerk.marks) == (3, BOOKED)
    assert CUT_OFF in clerk.told["c2"]


async def test_after_the_models_last_answer(clerk):
    await clerk.killed_at("finished", BOOK, PAY, DONE)
    assert clerk.requests == 3
    for _ in range(2):
        assert await clerk.says() == "Booked and paid. 3 33"
    assert (clerk.requests, clerk.marks) == (3, BOOKED + PAID)


async def test_again_and_again(clerk):
    await clerk.killed_at("model-1")
    await clerk.killed_at("book", BOOK)
    await clerk.killed_at("before-pay", PAY)
    await clerk.killed_at("finished", UNSURE)
    assert await clerk.says() == "Please look whether it is paid. 4 33"
    assert (clerk.requests, clerk.marks) == (3, ["book began"])
    assert [CUT_OFF in text for text in clerk.told.values()] == [True, True]


async def test_a_second_process_is_refused_while_the_first_goes_on(clerk):
    (clerk.directory / "hold-book").touch()
    first = await clerk.start(BOOK)
    await clerk.reaches("book", first)
    second = await clerk.start()
    _, trouble = await second.communicate()
    assert second.returncode == 1
    assert f"run 'trip-1' goes on in process {first.pid}: wait for its end" in trouble.decode()
    assert (clerk.requests, clerk.marks) == (1, ["book began"])
    first.send_signal(signal.SIGKILL)
    await first.communicate()
