"""Each attack is refused with its reason, its control succeeds, and other work goes on."""

import re

import pytest

from attacks.catalog import ATTACKS
from attacks.field import Field
from attacks.table import Attack, Guard, Refused
from attacks.work import Work

_ASKED_EVERY = 10
_STARVES = (Guard.QUOTA, Guard.LIMITS)
"""What would be felt by others at once; after each of these they are asked."""


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_is_refused_with_its_reason(
    field: Field, work: Work, attack: Attack, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(Refused) as caught:
        attack.action(field)
    assert re.search(attack.refusal, str(caught.value), re.DOTALL), str(caught.value)[:2000]
    attack.control(field)
    if attack.guard in _STARVES or ATTACKS.index(attack) % _ASKED_EVERY == 0:
        work.goes_on()
