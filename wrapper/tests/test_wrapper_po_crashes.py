"""A PO worker that dies at any moment: every message is answered once, and meant once.

The agent here answers with all it remembers, so a prompt that was lost or told twice shows.
"""

import asyncio
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.queues import Queues
from support.redis_server import RedisServer, client_of
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts.queues import BARE, PO_GROUP

pytestmark = pytest.mark.integration

PROMPTS = ("one", "/new two", "three")
FIRST_STEP = 4
"""Before that it has only announced itself."""
LAST_STEP = 60
"""More talks with Redis than three messages take."""
AT_ONCE = 4


@dataclass(frozen=True)
class Talk:
    """What is said to one worker, and what its agent remembers at each answer."""

    worker: str
    user: int
    home: Path
    prompts: tuple[str, ...] = PROMPTS
    texts: tuple[str, ...] = ("one|", "two|", "two|three|")

    @property
    def env(self) -> dict[str, str]:
        return {
            "WORKER_TYPE": "po",
            "SNAPSHOT_KEY": BARE.po_snapshot(self.worker),
            "HOME": str(self.home),
        }

    async def say(self, queues: Queues) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        for number, prompt in enumerate(self.prompts):
            request = f"{self.worker}-{number}"
            await queues.message(prompt, worker=self.worker, user_id=self.user, request_id=request)

    async def was_answered_once(self, queues: Queues) -> None:
        worker, count = self.worker, len(self.prompts)
        answers = await queues.answers(count, worker=worker)
        assert [answer.text for answer in answers] == list(self.texts)
        assert [answer.request_id for answer in answers] == [f"{worker}-{n}" for n in range(count)]
        assert await queues.is_settled(BARE.po_input(worker), PO_GROUP)
        state = await queues.state(worker)
        assert (state.turns, state.input_tokens, state.rotations) == (count, 10 * count, 1)
        assert state.rotation is not None
        assert state.rotation.reason == "Command"
        assert state.rotation.from_session == answers[0].session_id
        assert state.rotation.to == answers[-1].session_id == state.session_id
        assert [turn.text for turn in await queues.turns(worker)] == list(self.texts)


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


def start(wrappers: Wrappers, worker: str = "po-1", **env: str) -> WrapperProcess:
    return wrappers.start(worker, WORKER_TYPE="po", SNAPSHOT_KEY=BARE.po_snapshot(worker), **env)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("disk", ["kept", "lost"])
async def test_killed_after_any_of_its_steps_it_says_everything_once(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, tmp_path: Path, disk: str
) -> None:
    fake_claude.remembers()

    async def finished_before(step: int) -> bool:
        """Kill a worker after that step, let another go on; True when there was no such step."""
        prompts, texts = (PROMPTS, ("one|", "two|", "two|three|"))
        if disk == "lost":
            prompts, texts = prompts[:2], texts[:2]
        talk = Talk(f"po-{step}", step, tmp_path / f"home-{step}", prompts, texts)
        await talk.say(queues)
        first = wrappers.start_dying(talk.worker, after=step, **talk.env)
        finished = not await dies(first, queues, talk)
        if disk == "lost":
            shutil.rmtree(talk.home)
            talk.home.mkdir()
        second = wrappers.start(talk.worker, **talk.env)
        await talk.was_answered_once(queues)
        for wrapper in (first, second):
            wrapper.end()
        return finished

    for begin in range(FIRST_STEP, LAST_STEP, AT_ONCE):
        steps = range(begin, begin + AT_ONCE)
        if any(await asyncio.gather(*(finished_before(step) for step in steps))):
            return
    pytest.fail(f"there are more steps than {LAST_STEP}")


async def dies(wrapper: WrapperProcess, queues: Queues, talk: Talk) -> bool:
    """Wait until the wrapper is dead (True) or has nothing more to do; then it is killed too."""

    async def over() -> bool:
        if wrapper.process.poll() is not None:
            return True
        story = (await queues.story(talk.worker)).split()
        return story.count("busy") == len(talk.prompts) and story[-1] == "ready"

    await eventually(over)
    died = wrapper.process.poll() is not None
    if not died:
        wrapper.send(signal.SIGKILL)
    await wrapper.exit_code()
    return died


@pytest.mark.parametrize("disk", ["kept", "lost"])
async def test_killed_with_the_answer_in_hand_it_asks_an_agent_that_does_not_know_the_question(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, tmp_path: Path, disk: str
) -> None:
    fake_claude.remembers()
    talk = Talk("po-1", 7, tmp_path / "home-1")
    await talk.say(queues)
    await wrappers.start_dying("po-1", before="'LTRIM'", **talk.env).exit_code()
    if disk == "lost":
        shutil.rmtree(talk.home)
        talk.home.mkdir()
    wrappers.start("po-1", **talk.env)
    await talk.was_answered_once(queues)


@pytest.mark.parametrize("disk", ["kept", "lost"])
@pytest.mark.parametrize("moment", ["", "sleep 0.2; "], ids=["at once", "later"])
async def test_killed_with_its_agent_at_work_it_tells_the_agent_once(
    wrappers: Wrappers,
    queues: Queues,
    fake_claude: FakeClaude,
    tmp_path: Path,
    disk: str,
    moment: str,
) -> None:
    talk = Talk("po-1", 7, tmp_path / "home-1")
    fake_claude.remembers(
        then=f'[ -e "$home/died" ] || {{ touch "$home/died"; {moment}kill -9 $PPID; }}'
    )
    await talk.say(queues)
    await wrappers.start("po-1", **talk.env).exit_code()
    if disk == "lost":
        shutil.rmtree(talk.home)
        talk.home.mkdir()
    wrappers.start("po-1", **talk.env)
    await talk.was_answered_once(queues)


async def test_a_turn_that_was_cut_off_leaves_a_session_that_says_busy(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers()
    fake_claude.hold()
    wrapper = start(wrappers)
    await queues.message("one", request_id="r-1")
    await eventually(lambda: fake_claude.turns)
    wrapper.send(signal.SIGKILL)
    await wrapper.exit_code()
    state = await queues.state()
    assert (state.state, state.request_id) == ("busy", "r-1")
    fake_claude.release()
    start(wrappers)
    await queues.answers(1)
    await queues.told("ready", 2)
    state = await queues.state()
    assert (state.state, state.request_id, state.turns) == ("ready", None, 1)


async def test_a_poisoned_message_is_answered_at_its_third_time_and_the_state_says_so(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(then='case "$(cat "$turn/prompt")" in bad) kill -9 $PPID ;; esac')
    for number, prompt in enumerate(("good", "bad", "better")):
        await queues.message(prompt, request_id=f"r-{number}")
    for _ in range(2):
        await start(wrappers).exit_code()
    start(wrappers)
    good, bad, better = await queues.answers(3)
    assert (bad.request_id, bad.status, bad.reason) == ("r-1", "error", "WorkerCrashed")
    assert [good.text, better.text] == ["good|", "good|better|"]
    (letter,) = await queues.dead_letters(BARE.po_input("po-1"))
    assert "delivered 3 times" in letter["reason"]
    await queues.told("ready", 5)
    state = await queues.state()
    assert (state.state, state.turns, state.request_id) == ("ready", 2, None)
    assert [turn.prompt for turn in await queues.turns()] == ["good", "better"]


async def test_a_redis_that_restarts_in_the_middle_of_a_turn_costs_nothing(
    wrappers: Wrappers, own_redis_server: RedisServer, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers()
    async with client_of(own_redis_server) as client:
        queues = Queues(client)
        wrapper = start(wrappers, REDIS_URL=own_redis_server.url, STREAMING="Enabled")
        await queues.message("one")
        await queues.answers(1)
        fake_claude.hold()
        await queues.message("two")
        await eventually(lambda: len(fake_claude.turns) == 2)
        own_redis_server.kill()
        fake_claude.release()
        await wrapper.logged("redis_retry")
        own_redis_server.start()
        answers = await queues.answers(2)
        assert [answer.text for answer in answers] == ["one|", "one|two|"]
        assert (await queues.state()).turns == 2
