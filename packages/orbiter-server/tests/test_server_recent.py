"""Answers that hold for seconds: how long, how many, and how often they are asked for."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter.server._internal.recent import Recent


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Oracle:
    """Answers with the question, when it may, and counts."""

    def __init__(self):
        self.asked = []
        self.open = asyncio.Event()
        self.open.set()

    def about(self, key):
        async def ask():
            self.asked.append(key)
            await self.open.wait()
            if isinstance(key, Exception):
                raise key
            return key

        return ask


class Silence:
    """A question that is answered by a no."""

    def __bool__(self):
        return False


def ten(answer):
    return 10.0


async def test_an_answer_holds_until_its_seconds_are_over():
    clock, oracle = Clock(), Oracle()
    recent = Recent(9, clock)
    assert await recent.get("a", oracle.about("a"), ten) == ("a", 110.0)
    clock.now = 109.9
    assert await recent.get("a", oracle.about("a"), ten) == ("a", 110.0)
    clock.now = 110.0
    assert await recent.get("a", oracle.about("a"), ten) == ("a", 120.0)
    assert oracle.asked == ["a", "a"]


async def test_the_seconds_count_from_the_question_and_not_from_the_answer():
    clock, oracle = Clock(), Oracle()
    oracle.open.clear()
    waiting = asyncio.create_task(Recent(9, clock).get("a", oracle.about("a"), ten))
    await asyncio.sleep(0)
    clock.now = 107.0
    oracle.open.set()
    assert await waiting == ("a", 110.0)


async def test_many_who_wait_for_an_answer_ask_once_and_one_who_leaves_takes_nothing_away():
    oracle = Oracle()
    oracle.open.clear()
    recent = Recent(9)
    first, *others = [
        asyncio.create_task(recent.get("a", oracle.about("a"), ten)) for _ in range(5)
    ]
    await asyncio.sleep(0)
    first.cancel()
    oracle.open.set()
    assert [answer for answer, _ in await asyncio.gather(*others)] == ["a"] * 4
    assert oracle.asked == ["a"]


async def test_what_could_not_be_found_out_is_asked_again():
    oracle = Oracle()
    recent = Recent(9)
    problem = LookupError("away")
    for _ in range(2):
        with pytest.raises(LookupError):
            await recent.get("a", oracle.about(problem), ten)
    assert len(oracle.asked) == 2
    assert len(recent) == 0


async def test_any_number_of_noes_takes_the_place_of_no_yes():
    oracle = Oracle()
    recent = Recent(2)
    for key in ("a", "b"):
        await recent.get(key, oracle.about(key), ten)
    for _ in range(9):
        nobody = Silence()
        assert (await recent.get(nobody, oracle.about(nobody), ten))[0] is nobody
    assert len(recent) == 4
    for key in ("a", "b"):
        await recent.get(key, oracle.about(key), ten)
    assert oracle.asked.count("a") == oracle.asked.count("b") == 1
    assert (recent.had("a"), recent.had(nobody)) == (True, False)


async def test_a_yes_that_has_become_a_no_is_one():
    clock = Clock()
    recent = Recent(2, clock)
    for answer in ("yes", ""):

        async def ask(answer=answer):
            return answer

        assert (await recent.get("a", ask, ten))[0] == answer
        clock.now += 10
    assert (recent.had("a"), len(recent)) == (False, 1)


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 6), st.booleans()), max_size=40),
)
def test_an_answer_is_that_of_its_question_never_too_old_and_never_one_too_many(most, questions):
    async def play():
        clock = Clock()
        recent = Recent(most, clock)
        truth = {}
        for key, pause, changed in questions:
            clock.now += pause
            if changed or key not in truth:
                truth[key] = (key, clock.now)

            async def ask(key=key):
                return truth[key]

            (found, since), until = await recent.get(key, ask, ten)
            assert found == key
            assert clock.now < until
            # what it says was so within the last ten seconds
            assert truth[key][1] == since or clock.now - truth[key][1] < 10
            assert len(recent) <= most

    asyncio.run(play())
