"""How a worker's process ended is told by its exit code and its last words."""

import pytest

from orbiter_contracts.exit_codes import NAME_LOST, UNUSABLE, name_in_use, says_name_in_use

SENTENCE = name_in_use("at.alice", "node-1")


@pytest.mark.parametrize("before", ["", "worker-wrapper: ", '{"event": "name_in_use"}\n'])
def test_a_name_in_use_is_recognised_by_the_sentence_that_says_it(before: str) -> None:
    assert says_name_in_use(UNUSABLE, f"{before}{SENTENCE}\n")


@pytest.mark.parametrize(
    ("exit_code", "message"),
    [
        (UNUSABLE, "worker-wrapper: ANTHROPIC_API_KEY is missing"),
        (UNUSABLE, f'{{"event": "unusable_name", "error": "{SENTENCE}"}}'),
        (UNUSABLE, ""),
        (NAME_LOST, SENTENCE),
        (1, SENTENCE),
        (None, SENTENCE),
    ],
)
def test_no_other_ending_is_taken_for_a_name_in_use(exit_code: int | None, message: str) -> None:
    assert not says_name_in_use(exit_code, message)
