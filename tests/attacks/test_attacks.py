"""Each attack is refused with its reason, its control succeeds, and A's work goes on meanwhile."""

import re

import pytest

from attacks.catalog import ATTACKS
from attacks.field import Field
from attacks.scene import Work
from attacks.table import Attack, Refused

_ASKED_EVERY = 50


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_is_refused_with_its_reason(
    field: Field, work: Work, attack: Attack, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(Refused) as caught:
        attack.action(field)
    assert re.search(attack.refusal, str(caught.value), re.DOTALL), str(caught.value)[:2000]
    attack.control(field)
    if ATTACKS.index(attack) % _ASKED_EVERY == 0:
        work.ask()
