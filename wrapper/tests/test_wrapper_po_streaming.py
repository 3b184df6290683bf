"""Answers that come in pieces: in order, not too many, and the whole answer in the end."""

from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.namespaced import NAMESPACES
from support.queues import Queues
from support.wrapper import API_KEY, FakeClaude, WrapperProcess, Wrappers

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("namespace", NAMESPACES, indirect=True),
]

SPEAKS = r"""
delta() {
  printf '{"type":"stream_event","parent_tool_use_id":%s,"event":' "${2:-null}"
  printf '{"type":"content_block_delta","delta":{"type":"text_delta","text":"%s"}}}\n' "$1"
}
opens() {
  printf '{"type":"stream_event","parent_tool_use_id":null,"event":'
  printf '{"type":"content_block_start","content_block":{"type":"text","text":""}}}\n'
}
ends() {
  printf '{"type":"result","num_turns":1,"result":"%s","total_cost_usd":0.25,' "$1"
  printf '"usage":{"input_tokens":10,"output_tokens":5},'
  printf '"modelUsage":{"m":{"inputTokens":10,"outputTokens":5}}}\n'
}
"""


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


def start(wrappers: Wrappers, **env: str) -> WrapperProcess:
    return wrappers.start("po-1", WORKER_TYPE="po", STREAMING="Enabled", **env)


async def test_pieces_come_in_order_and_the_answer_is_whole(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.does(
        SPEAKS + "opens; for n in 1 2 3 4 5; do delta $n.; sleep 0.15; done; ends 1.2.3.4.5."
    )
    start(wrappers)
    await queues.message("count", request_id="r-1")
    (final,) = await queues.finals(1)
    *pieces, last = await queues.answers(1)
    assert last == final
    assert len(pieces) >= 2
    assert "".join(piece.text for piece in pieces) == final.text == "1.2.3.4.5."
    assert [piece.sequence for piece in [*pieces, final]] == list(range(len(pieces) + 1))
    assert {piece.request_id for piece in pieces} == {"r-1"}
    assert {piece.session_id for piece in pieces} == {final.session_id}
    assert [piece.usage for piece in pieces] == [None] * len(pieces)
    assert final.usage is not None
    assert final.usage.cost_usd == 0.25
    state = await queues.state()
    assert state.first_output_at == pieces[0].timestamp


async def test_there_are_no_more_than_ten_pieces_a_second(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.does(
        SPEAKS + "opens; n=0; while [ $n -lt 200 ]; do delta $n.; n=$((n+1)); sleep 0.01; done;"
        " ends done"
    )
    start(wrappers)
    await queues.message("count")
    await queues.finals(1)
    times = [answer.timestamp.timestamp() for answer in await queues.answers(1)]
    assert len(times) > 5
    windows = [sum(begin <= time < begin + 1 for time in times) for begin in times]
    assert max(windows) <= 10


async def test_it_is_off_unless_asked_for(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.does(SPEAKS + "opens; delta hello; ends hello")
    wrappers.start("po-1", WORKER_TYPE="po")
    await queues.message("hi")
    await queues.finals(1)
    assert len(await queues.answers(1)) == 1


async def test_what_subagents_say_among_themselves_is_not_sent(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.does(SPEAKS + """opens; delta mine; delta theirs '"toolu_1"'; ends mine""")
    start(wrappers)
    await queues.message("hi")
    await queues.finals(1)
    pieces = (await queues.answers(1))[:-1]
    assert "".join(piece.text for piece in pieces) == "mine"


async def test_neither_verdicts_nor_secrets_show_in_pieces(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    half = len(API_KEY) // 2
    fake_claude.does(
        SPEAKS
        + f"""opens; delta 'The key: {API_KEY[:half]}'; sleep 0.3; delta '{API_KEY[half:]}.'
        sleep 0.3; delta ' <res'; sleep 0.3; delta 'ult>{{}}'; sleep 0.3; delta '</result>'
        ends 'The key: {API_KEY}. <result>{{}}</result>'"""
    )
    start(wrappers)
    await queues.message("hi")
    (final,) = await queues.finals(1)
    pieces = (await queues.answers(1))[:-1]
    assert "".join(piece.text for piece in pieces) == final.text == "The key: [redacted]."


async def test_a_turn_that_was_cut_off_is_streamed_anew_from_0(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.does(
        SPEAKS + 'opens; delta one; sleep 0.3; [ -e "$home/died" ] || '
        '{ touch "$home/died"; kill -9 $PPID; }; delta " two"; ends "one two"'
    )
    await queues.message("count")
    await start(wrappers).exit_code()
    start(wrappers)
    (final,) = await queues.finals(1)
    sequences = [piece.sequence for piece in await queues.answers(1)]
    again = sequences.index(0, 1)
    assert sequences[:again] == list(range(again))
    assert sequences[again:] == list(range(len(sequences) - again))
    assert final.text == "one two"


async def test_fifty_megabytes_neither_grow_memory_nor_the_stream(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.does(
        SPEAKS + 'opens; long=$(head -c 20000 /dev/zero | tr "\\0" x); line=$(delta "$long");'
        ' yes "$line" | head -n 2500; ends done'
    )
    wrapper = start(wrappers)
    await queues.message("count")
    await queues.finals(1)
    pieces = (await queues.answers(1))[:-1]
    assert sum(len(piece.text) for piece in pieces) == 256 * 1024
    assert peak_mb(wrapper) < 100


def peak_mb(wrapper: WrapperProcess) -> float:
    status = Path(f"/proc/{wrapper.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
