"""A session's pod that has to go within a turn: the next one goes on with it, and answers once."""

import json
import os
import shlex
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.namespaced import NAMESPACES
from support.queues import Queues
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts.exit_codes import INTERRUPTED
from orbiter_contracts.queues import BARE, PO_GROUP

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("namespace", NAMESPACES, indirect=True),
]
KEY, STREAM, STATE = BARE.po_snapshot("po-1"), BARE.po_input("po-1"), BARE.po_state("po-1")
EVENTS = [
    {
        "type": "stream_event",
        "event": {"type": "message_start", "message": {"usage": {"input_tokens": 100}}},
    },
    {"type": "stream_event", "event": {"type": "message_delta", "usage": {"output_tokens": 20}}},
]
UNTIL_ENDED = f"""
printf '%s\\n' {" ".join(shlex.quote(json.dumps(event)) for event in EVENTS)}
touch "$home/working"
trap 'exit 143' TERM
while :; do sleep 0.05; done
"""
WITH_SNAPSHOT, WITH_VOLUME = {"SNAPSHOT_KEY": KEY}, dict[str, str]()


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


def start(wrappers: Wrappers, **env: str) -> WrapperProcess:
    return wrappers.start("po-1", WORKER_TYPE="po", TERMINATION_GRACE_SECONDS="2", **env)


async def cut(wrappers: Wrappers, pod: WrapperProcess, claude: FakeClaude, *, disk: bool) -> None:
    """Drain the node of a worker that is within a turn."""
    working: Path = claude.bin.parent / "working"
    await eventually(working.exists)
    working.unlink()
    pod.send(signal.SIGTERM)
    assert await pod.exit_code() == INTERRUPTED
    if not disk:
        shutil.rmtree(wrappers.home)


@pytest.mark.parametrize("kept", [WITH_SNAPSHOT, WITH_VOLUME], ids=["snapshot", "volume"])
async def test_a_turn_that_a_drain_cuts_off_goes_on_in_the_next_pod_and_is_answered_once(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, kept: dict[str, str]
) -> None:
    fake_claude.remembers()
    pod = start(wrappers, **kept)
    await queues.converse("one")
    fake_claude.remembers(then=UNTIL_ENDED)
    await queues.message("two", request_id="r-2")
    await cut(wrappers, pod, fake_claude, disk=not kept)
    assert len(await queues.finals(1)) == 1
    assert not await queues.is_settled(STREAM, PO_GROUP)
    fake_claude.remembers()
    start(wrappers, **kept)
    first, second = await queues.finals(2)
    assert (second.request_id, second.status) == ("r-2", "success")
    assert second.session_id == first.session_id
    assert second.text.startswith("one|two|Your work was interrupted from outside")
    told = fake_claude.turns[-1]
    assert "--resume" in told.argv
    assert ("the files are" in told.prompt) is not bool(kept)
    assert second.usage is not None
    assert (second.usage.input_tokens, second.usage.output_tokens) == (110, 25)
    assert await queues.is_settled(STREAM, PO_GROUP)
    assert not await queues.redis.hexists(STATE, "interrupted")
    assert (await queues.state()).input_tokens == 120
    await queues.message("three", request_id="r-3")
    assert (await queues.finals(3))[-1].text.endswith("|three|")


async def test_the_first_turn_of_a_session_goes_on_too_and_however_often_it_is_cut(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    """A message that its workers die of is not tried a third time; a drain is not its fault."""
    fake_claude.remembers(then=UNTIL_ENDED)
    await queues.message("one", request_id="r-1")
    for _ in range(4):
        await cut(wrappers, start(wrappers, **WITH_SNAPSHOT), fake_claude, disk=False)
    fake_claude.remembers()
    start(wrappers, **WITH_SNAPSHOT)
    (answer,) = await queues.finals(1)
    assert (answer.request_id, answer.status) == ("r-1", "success")
    assert answer.text.startswith("one|Your work")
    assert answer.usage is not None
    assert answer.usage.input_tokens == 410


@pytest.mark.parametrize("kept", [WITH_SNAPSHOT, WITH_VOLUME], ids=["snapshot", "volume"])
async def test_a_turn_is_kept_as_soon_as_its_pod_is_asked_to_leave_however_young_it_is(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, kept: dict[str, str]
) -> None:
    """The machine may be gone long before the grace period is over."""
    fake_claude.remembers(then=UNTIL_ENDED)
    await queues.message("one", request_id="r-1")
    pod = wrappers.start("po-1", WORKER_TYPE="po", TERMINATION_GRACE_SECONDS="600", **kept)
    working = fake_claude.bin.parent / "working"
    await eventually(working.exists)
    pod.send(signal.SIGTERM)
    await killed_once_kept(queues, pod, 1, wrappers.home)
    if kept:
        shutil.rmtree(wrappers.home)
    fake_claude.remembers()
    start(wrappers, **kept)
    (answer,) = await queues.finals(1)
    assert (answer.request_id, answer.status) == ("r-1", "success")
    assert answer.text.startswith("one|Your work was interrupted from outside")
    assert await queues.is_settled(STREAM, PO_GROUP)


@pytest.mark.parametrize("earlier", [["one"], []], ids=["a later turn", "the first turn"])
async def test_killed_in_its_first_minute_on_a_volume_the_agent_hears_that_it_may_have_begun(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, earlier: list[str]
) -> None:
    """There the conversation and the files are in the middle of it, and both stay as they are."""
    fake_claude.remembers()
    pod = start(wrappers)
    for prompt in earlier:
        await queues.converse(prompt)
    fake_claude.remembers(then=UNTIL_ENDED)
    await queues.message("two", request_id="r-2")
    await eventually((fake_claude.bin.parent / "working").exists)
    pod.send(signal.SIGKILL)
    await pod.exit_code()
    end_agents(wrappers.home.parent)
    fake_claude.remembers()
    start(wrappers)
    answer = (await queues.finals(len(earlier) + 1))[-1]
    assert (answer.request_id, answer.status) == ("r-2", "success")
    begun, _, rest = answer.text.partition("two|")
    assert begun == "".join(f"{prompt}|" for prompt in earlier)
    assert rest.startswith("An earlier try to answer the message below was cut off from outside")
    assert rest.endswith(" two|")
    assert "--resume" in fake_claude.turns[-1].argv
    assert await queues.is_settled(STREAM, PO_GROUP)


@pytest.mark.parametrize("kept", [WITH_SNAPSHOT, WITH_VOLUME], ids=["snapshot", "volume"])
async def test_killed_before_its_agent_has_begun_nobody_says_that_it_may_have(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, kept: dict[str, str]
) -> None:
    fake_claude.remembers()
    await queues.message("/one", request_id="r-1")
    await wrappers.start_dying("po-1", before=":state", WORKER_TYPE="po", **kept).exit_code()
    start(wrappers, **kept)
    (answer,) = await queues.finals(1)
    assert (answer.request_id, answer.text) == ("r-1", " /one|")


async def killed_once_kept(queues: Queues, pod: WrapperProcess, cuts: int, home: Path) -> None:
    """Kill a worker that is within a turn, once that is kept for the so-manieth delivery."""

    async def kept() -> bool:
        text = await queues.redis.hget(STATE, "interrupted")
        return bool(text) and json.loads(text)["cuts"] == cuts

    await eventually(kept)
    pod.send(signal.SIGKILL)
    await pod.exit_code()
    end_agents(home.parent)


def end_agents(directory: Path) -> None:
    """What a killed wrapper leaves goes with its container; here nobody else ends it."""
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            if path.name.isdecimal() and directory in (path / "cwd").readlink().parents:
                os.kill(int(path.name), signal.SIGKILL)


@pytest.mark.parametrize("kept", [WITH_SNAPSHOT, WITH_VOLUME], ids=["snapshot", "volume"])
async def test_a_turn_that_gets_on_is_no_poison_however_often_its_pod_is_killed(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, kept: dict[str, str]
) -> None:
    fake_claude.remembers(then=UNTIL_ENDED)
    await queues.message("one", request_id="r-1")
    for cuts in (1, 2, 3, 4):
        pod = start(wrappers, **kept, CHECKPOINT_SECONDS="0.1")
        await killed_once_kept(queues, pod, cuts, wrappers.home)
        if kept:
            shutil.rmtree(wrappers.home)
    fake_claude.remembers()
    start(wrappers, **kept)
    (answer,) = await queues.finals(1)
    assert (answer.request_id, answer.status) == ("r-1", "success")
    assert answer.text.startswith("one|Your work was interrupted from outside")
    assert answer.usage is not None
    assert answer.usage.input_tokens == 410
    assert not await queues.redis.hexists(STATE, "interrupted")


async def test_a_turn_that_uses_up_its_time_ends_however_often_its_pod_is_killed(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(then=UNTIL_ENDED)
    await queues.message("one", request_id="r-1")
    pod = start(wrappers, CHECKPOINT_SECONDS="0.1")
    await killed_once_kept(queues, pod, 1, wrappers.home)
    mark = json.loads(await queues.redis.hget(STATE, "interrupted"))
    mark["checkpoint"]["agent_seconds"] = 604800
    await queues.redis.hset(STATE, "interrupted", json.dumps(mark))
    start(wrappers)
    (answer,) = await queues.finals(1)
    assert (answer.request_id, answer.status, answer.reason) == ("r-1", "timeout", "AgentTimeout")


async def test_a_mark_that_nobody_of_ours_has_written_is_none(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers()
    for forged in ("{", "x" * 1_000_000, '{"entry": "1-0", "cuts": -5}'):
        await queues.redis.hset(STATE, "interrupted", forged)
        pod = start(wrappers, **WITH_SNAPSHOT)
        count = len(fake_claude.turns)
        await queues.message(f"m-{count}")
        assert (await queues.finals(count + 1))[-1].status == "success"
        pod.send(signal.SIGTERM)
        assert await pod.exit_code() == 0
    assert not [turn for turn in fake_claude.turns if "interrupted" in turn.prompt]
