"""Pieces of an answer: their order, their numbers, how many there are."""

import asyncio

import pytest

from worker_wrapper.agents.base import Piece
from worker_wrapper.agents.json_output import LONGEST_BYTES, ObjectLines
from worker_wrapper.queue.connection import RedisUnavailableError
from worker_wrapper.redact import Redactor
from worker_wrapper.turn import streaming
from worker_wrapper.turn.streaming import STREAMED_CHARACTERS, Streamer

Sent = tuple[str, int, int]


class Reader:
    """What a reader of the output stream gets: (text, part, sequence)."""

    def __init__(self) -> None:
        self.pieces: list[Sent] = []
        self.troubles = 0
        self.arrives_all_the_same = False

    async def send(self, text: str, part: int, sequence: int) -> None:
        if self.troubles:
            self.troubles -= 1
            if self.arrives_all_the_same:
                self.pieces.append((text, part, sequence))
            raise RedisUnavailableError("away")
        self.pieces.append((text, part, sequence))


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "SECONDS_BETWEEN", 0)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_comes_between_two_pauses_travels_together(reader: Reader) -> None:
    async with Streamer(reader.send, Redactor([])) as streamer:
        for word in ("one", " two", " three"):
            streamer.take(Piece(word))
        await streamer.finish()
    assert reader.pieces == [("one two three", 0, 0)]
    assert streamer.next_sequence == 1


async def test_pieces_are_numbered_in_their_order(reader: Reader, no_pause: None) -> None:
    async with Streamer(reader.send, Redactor([])) as streamer:
        for count in range(3):
            streamer.take(Piece(f"{count}."))
            await settle()
        await streamer.finish()
    assert reader.pieces == [("0.", 0, 0), ("1.", 0, 1), ("2.", 0, 2)]
    assert streamer.next_sequence == 3


async def test_a_long_piece_goes_in_several_that_a_reader_takes(reader: Reader) -> None:
    long = "x" * (2 * streaming.PIECE_CHARACTERS + 5)
    async with Streamer(reader.send, Redactor([])) as streamer:
        streamer.take(Piece(long))
        streamer.take(Piece("the end", opens=True))
        await streamer.finish()
    assert [(len(text), part) for text, part, _ in reader.pieces] == [
        (streaming.PIECE_CHARACTERS, 0),
        (streaming.PIECE_CHARACTERS, 0),
        (5, 0),
        (len("\n\nthe end"), 1),
    ]
    assert [sequence for _, _, sequence in reader.pieces] == [0, 1, 2, 3]


async def test_a_new_text_is_a_new_part_after_a_blank_line(reader: Reader, no_pause: None) -> None:
    async with Streamer(reader.send, Redactor([])) as streamer:
        streamer.take(Piece("", opens=True))
        streamer.take(Piece("Let me look."))
        await settle()
        streamer.take(Piece("Done", opens=True))
        streamer.take(Piece("."))
        await streamer.finish()
    assert [piece[:2] for piece in reader.pieces] == [("Let me look.", 0), ("\n\nDone.", 1)]


async def test_many_texts_at_once_are_two_pieces_and_the_last_is_alone(reader: Reader) -> None:
    async with Streamer(reader.send, Redactor([])) as streamer:
        for word in "abcde":
            streamer.take(Piece(word, opens=True))
        await streamer.finish()
    assert reader.pieces == [("a\n\nb\n\nc\n\nd", 3, 0), ("\n\ne", 4, 1)]


async def test_a_silent_agent_sends_nothing(reader: Reader) -> None:
    async with Streamer(reader.send, Redactor([])) as streamer:
        streamer.take(Piece("", opens=True))
        await streamer.finish()
    assert (reader.pieces, streamer.next_sequence) == ([], 0)


async def test_a_piece_that_could_not_be_sent_is_sent_again(reader: Reader, no_pause: None) -> None:
    reader.troubles = 3
    async with Streamer(reader.send, Redactor([])) as streamer:
        streamer.take(Piece("one"))
        await settle()
        streamer.take(Piece(" two"))
        await settle()
        await streamer.finish()
    assert reader.pieces == [("one", 0, 0), (" two", 0, 1)]


async def test_a_piece_whose_arrival_is_unknown_comes_unchanged_under_its_number(
    reader: Reader, no_pause: None
) -> None:
    reader.troubles, reader.arrives_all_the_same = 1, True
    async with Streamer(reader.send, Redactor([])) as streamer:
        streamer.take(Piece("one"))
        await settle()
        await streamer.finish()
    assert reader.pieces == [("one", 0, 0)] * 2


async def test_the_answers_number_is_free_also_when_redis_is_away(reader: Reader) -> None:
    reader.troubles = 100
    async with Streamer(reader.send, Redactor([])) as streamer:
        streamer.take(Piece("one"))
        await streamer.finish()
    assert streamer.next_sequence == 1


async def test_what_waits_for_a_slow_redis_is_bounded(reader: Reader) -> None:
    async with Streamer(reader.send, Redactor([])) as streamer:
        for _ in range(1000):
            streamer.take(Piece("x" * 10_000))
        await streamer.finish()
    assert sum(len(text) for text, _, _ in reader.pieces) == STREAMED_CHARACTERS


def test_objects_are_heard_as_soon_as_their_line_is_complete() -> None:
    heard: list[object] = []
    lines = ObjectLines(heard.append)
    lines.feed(b'noise\n{"a": 1}\n{"b"')
    assert heard == [{"a": 1}]
    lines.feed(b": 2}\n[3]\n{broken}\n")
    assert heard == [{"a": 1}, {"b": 2}]


def test_a_line_without_an_end_is_skipped_and_not_kept() -> None:
    heard: list[object] = []
    lines = ObjectLines(heard.append)
    for _ in range(50):
        lines.feed(b"{" + b"x" * 100_000)
    assert len(lines._begun) <= LONGEST_BYTES
    lines.feed(b'\n{"a": 1}\n')
    assert heard == [{"a": 1}]
