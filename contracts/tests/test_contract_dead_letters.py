"""What is kept of an entry that nobody can use."""

from hypothesis import given
from hypothesis import strategies as st
from support.strange_values import TEXTS

from orbiter_contracts.bounds import DEAD_LETTER_BYTES, DEAD_LETTER_FIELDS
from orbiter_contracts.dead_letters import dead_letter_fields

RAW = st.binary(max_size=2 * DEAD_LETTER_BYTES) | TEXTS.map(
    lambda text: text.encode("utf-8", "replace")
)
FIELDS = st.dictionaries(
    RAW.map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    RAW.map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    max_size=5,
)


def test_a_small_entry_is_kept_whole_and_its_own_reason_gives_way() -> None:
    assert dead_letter_fields({"data": "{}", "agenttask": "a/b"}, "no prompt") == {
        b"data": b"{}",
        b"agenttask": b"a/b",
        b"reason": b"no prompt",
    }
    told = dead_letter_fields({"reason": "mine", "data": "\udcff"}, "no JSON")
    assert told == {b"data": b"\xff", b"reason": b"no JSON (cut here: reason)"}


def test_of_a_large_entry_the_beginning_is_kept_and_the_reason_says_what_was_cut() -> None:
    told = dead_letter_fields({"data": "x" * 100_000, "note": "y"}, "too large")
    assert len(told[b"data"]) == DEAD_LETTER_BYTES - len("data")
    assert told[b"reason"] == b"too large (cut here: data, note)"


def test_of_many_fields_the_first_are_kept() -> None:
    told = dead_letter_fields({str(number): "x" for number in range(1000)}, "odd")
    assert len(told) == DEAD_LETTER_FIELDS + 1


@given(fields=FIELDS)
def test_whatever_an_entry_holds_its_letter_is_bounded(fields: dict[str, str]) -> None:
    told = dead_letter_fields(fields, "odd")
    reason = told.pop(b"reason")
    assert sum(len(name) + len(value) for name, value in told.items()) <= DEAD_LETTER_BYTES
    assert len(reason) < 1000
