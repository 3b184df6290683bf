"""What the small client does when the API server refuses."""

from typing import Any

import pytest
from localcluster import kube
from localcluster.errors import ClusterError
from localcluster.kube import Kube

HELD = (422, b'{"message": "failed to allocate IP 10.96.0.10: provided IP is already allocated"}')


class Answering(Kube):
    """A client of a server that gives these answers."""

    def __init__(self, *answers: tuple[int, bytes]) -> None:
        self.answers = list(answers)

    def _request(self, *asked: Any) -> tuple[int, bytes]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(kube.time, "sleep", slept.append)
    return slept


def test_an_address_that_a_killed_up_still_holds_is_waited_for(pauses: list[float]) -> None:
    Answering(HELD, HELD, (201, b"{}")).apply("/services/kube-dns", {})
    assert len(pauses) == 2


def test_one_that_stays_taken_is_said_in_the_end(pauses: list[float]) -> None:
    with pytest.raises(ClusterError, match="already allocated"):
        Answering(HELD).apply("/services/kube-dns", {})
    assert sum(pauses) < 10


def test_what_is_invalid_is_said_at_once(pauses: list[float]) -> None:
    with pytest.raises(ClusterError, match="422"):
        Answering((422, b"spec: Invalid value")).apply("/services/kube-dns", {})
    assert pauses == []
