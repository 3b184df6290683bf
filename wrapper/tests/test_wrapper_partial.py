"""What of an agent's words may be shown before it has finished."""

import pytest

from worker_wrapper.redact import Redactor
from worker_wrapper.turn.streaming import PartialText

SECRET = "sk-ant-0123456789"


def shown(*deltas: str) -> list[str]:
    text = PartialText(Redactor([SECRET]))
    return [*(text.feed(delta) for delta in deltas), text.finish()]


def test_plain_text_is_shown_as_it_comes() -> None:
    assert shown("one", " two", " three") == ["one", " two", " three", ""]


def test_blank_ends_wait_for_what_follows() -> None:
    assert shown("one\n\n", "two ", "") == ["one", "\n\ntwo", "", ""]


def test_a_result_block_is_never_shown() -> None:
    block = '<result>{"status": "success", "summary": "s"}</result>'
    assert shown(f"done\n\n{block}") == ["done", ""]
    assert shown(f"done\n\n{block}\n\nbye") == ["done\n\nbye", ""]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_a_result_block_is_not_shown_however_it_is_cut(size: int) -> None:
    text = 'It works.\n\n<result>{"summary": "</resul <result>"}</result>\n And more < than that'
    deltas = [text[at : at + size] for at in range(0, len(text), size)]
    assert "".join(shown(*deltas)) == "It works.\n And more < than that"


def test_a_block_that_never_ends_is_not_shown() -> None:
    assert "".join(shown("done ", '<result>{"sum', "mary", "…")) == "done"


def test_what_only_looks_like_a_block_at_first_is_shown_in_the_end() -> None:
    assert shown("a <res", "t of it") == ["a", " <rest of it", ""]
    assert shown("a <resul") == ["a", " <resul"]


@pytest.mark.parametrize("size", [1, 2, 5, 16, 40])
def test_a_secret_is_not_shown_however_it_is_cut(size: int) -> None:
    text = f"the key is {SECRET}, keep sk-ant-0 safe"
    deltas = [text[at : at + size] for at in range(0, len(text), size)]
    assert "".join(shown(*deltas)) == "the key is [redacted], keep sk-ant-0 safe"


def test_a_long_block_is_not_kept_in_memory() -> None:
    text = PartialText(Redactor([]))
    text.feed("<result>")
    for _ in range(100):
        assert text.feed("x" * 10_000) == ""
    assert len(text._held) < 20


def test_blanks_without_end_are_not_kept_in_memory() -> None:
    text = PartialText(Redactor([]))
    text.feed("begun")
    shown = [text.feed(" " * 1000) for _ in range(100)]
    assert len(text._held) < 10_000
    assert "".join(shown).isspace()
