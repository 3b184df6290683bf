from hypothesis import given
from hypothesis import strategies as st

from orbiter.context import token_count
from orbiter.context._internal.retriever import CHUNK_TOKENS, chunks_of


@given(st.text(alphabet=st.sampled_from("ab# .\n\r\u2028é你"), max_size=3000), st.integers(1, 50))
def test_chunks_put_together_are_the_text(text: str, size: int) -> None:
    chunks = chunks_of(text, token_count, size)
    assert "".join(chunk.text for chunk in chunks) == text


@given(st.lists(st.text(alphabet="abc é", max_size=60), max_size=60))
def test_a_chunk_knows_its_first_line(lines: list[str]) -> None:
    text = "\n".join(lines)
    for chunk in chunks_of(text, token_count, 20):
        if chunk.text:
            first = chunk.text.splitlines()[0]
            assert text.splitlines()[chunk.line].startswith(first)


def test_a_heading_begins_a_chunk_when_the_one_before_is_half_full() -> None:
    text = "words " * 120 + "\n## Next\nmore words\n"
    assert [chunk.text.split("\n")[0] for chunk in chunks_of(text, token_count)][-1] == "## Next"


def test_small_paragraphs_stay_together() -> None:
    assert len(chunks_of("one\n\ntwo\n\nthree\n", token_count)) == 1


def test_a_line_longer_than_a_chunk_is_cut_between_words() -> None:
    text = "word " * 2000
    chunks = chunks_of(text, token_count)
    assert len(chunks) > 5
    assert all(token_count(chunk.text) <= CHUNK_TOKENS for chunk in chunks)
    assert all(chunk.text.startswith("word") for chunk in chunks)
