"""The table of attacks in docs/security.md is the suite's, and the suite is whole."""

import re
from pathlib import Path

import attacks_page
import pytest
from attacks.catalog import ATTACKS, ELSEWHERE
from attacks.table import Guard, Party

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_attacks_of_today() -> None:
    text = attacks_page.PAGE.read_text()
    assert attacks_page.renewed(text) == text, "run `make attacks-page`"


def test_every_party_attacks_each_guard_stops_one_and_no_two_attacks_have_one_name() -> None:
    assert {attack.party for attack in ATTACKS} == set(Party)
    assert {attack.guard for attack in ATTACKS} == set(Guard)
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 60


def test_every_reason_is_a_pattern_that_not_everything_fits() -> None:
    for attack in ATTACKS:
        assert not re.search(attack.refusal, ""), attack.name


@pytest.mark.parametrize("test", [test for _, test, _ in ELSEWHERE])
def test_what_other_tests_try_they_still_try(test: str) -> None:
    file, _, name = test.partition("::")
    assert re.search(rf"def {name}\(", (ROOT / file).read_text()), test
