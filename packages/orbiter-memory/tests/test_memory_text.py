import pytest

from orbiter.memory.text import sentences, stem, terms


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("city", "cities"),
        ("box", "boxes"),
        ("search", "searching"),
        ("search", "searched"),
        ("run", "running"),
        ("note", "notes"),
        ("name", "named"),
        ("user", "user's"),
        ("pass", "passes"),
    ],
)
def test_stem_brings_forms_of_a_word_together(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize("word", ["bus", "is", "glass", "sing", "red", "été", "x86", "gpt4"])
def test_stem_leaves_what_only_looks_like_an_ending(word: str) -> None:
    assert stem(word) == word


def test_terms_drop_case_accents_and_stop_words() -> None:
    assert terms("The MÜSLI and the Zürich-Bern train") == ["musli", "zurich", "bern", "train"]


def test_terms_of_unspaced_scripts_are_pairs() -> None:
    assert terms("東京都 weather") == ["東京", "京都", "weather"]


def test_sentences_end_at_marks_and_lines() -> None:
    assert sentences("One. Two!\nThree 3.5 kg\n\n你好。再见。") == [
        "One.",
        "Two!",
        "Three 3.5 kg",
        "你好。",
        "再见。",
    ]
