from email.utils import formatdate

import pytest

from orbiter.models._internal.retry import is_worth_retrying, pause


def wait(attempt: int, retry_after: str | None = None, chance: float = 1.0) -> float | None:
    return pause(attempt, retry_after, now=1_000_000.0, chance=chance)


@pytest.mark.parametrize("status", [None, 408, 409, 429, 500, 502, 503, 529])
def test_what_may_succeed_later_is_retried(status):
    assert is_worth_retrying(status)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_what_will_fail_again_is_not(status):
    assert not is_worth_retrying(status)


def test_pauses_double_up_to_eight_seconds():
    assert [wait(n) for n in range(1, 8)] == [0.5, 1, 2, 4, 8, 8, 8]


def test_chance_takes_away_up_to_half_of_a_pause():
    assert wait(3, chance=0.0) == 1.0


def test_the_server_may_ask_for_seconds():
    assert wait(1, "7") == 7.0
    assert wait(1, "0.25") == 0.25


def test_the_server_may_ask_for_a_date():
    assert wait(1, formatdate(1_000_012, usegmt=True)) == 12.0
    assert wait(1, formatdate(999_000, usegmt=True)) == 0.0


def test_a_server_that_asks_for_more_than_a_minute_is_not_waited_for():
    assert wait(1, "61") is None


def test_nonsense_is_not_asked_for():
    assert wait(1, "soon") == 0.5
