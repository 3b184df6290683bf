"""The soak's judge: nothing that is not as it should be gets past it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support import soak as soak_module
from support.soak import Plan, Soak
from support.soak_judge import Final, messages_lost, tasks_lost

from orbiter_contracts import POWorkerOutput, encode

WELL = {"phase": "Completed", "attempts": 1, "result": {"summary": "0,1,2,3,4,"}}
ANSWERED = [Final("r-1", "1-0", "success"), Final("r-2", "2-0", "success")]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, "t has vanished"),
        ({"t": {}}, "t: None"),
        ({"t": {"phase": "Running"}}, "t: Running"),
        ({"t": {"phase": "Failed", "reason": "WorkerCrashed"}}, "WorkerCrashed"),
        ({"t": WELL | {"attempts": 2}}, "2 attempts"),
        ({"t": WELL | {"result": {"summary": "0,1,2,4,"}}}, "steps ['3']"),
        ({"t": WELL | {"result": None}}, "steps"),
        ({"other": WELL}, "t has vanished"),
    ],
)
def test_a_task_that_is_not_done_in_one_attempt_is_lost(
    found: dict[str, dict[str, Any]], words: str
) -> None:
    (lost,) = tasks_lost(["t"], found)
    assert words in lost


def test_of_a_task_that_is_done_and_of_others_nothing_is_said() -> None:
    assert tasks_lost(["t"], {"t": WELL, "of another test": {"phase": "Failed"}}) == []


@pytest.mark.parametrize(
    ("finals", "words"),
    [
        (ANSWERED[:1], ["not answered r-2", "order"]),
        (ANSWERED[::-1], ["order"]),
        ([*ANSWERED, ANSWERED[1]], ["order"]),
        ([ANSWERED[0], Final("r-2", "2-0", "error", "WorkerCrashed")], ["r-2 with error: Worker"]),
        ([*ANSWERED, Final("unsure", "3-0", "timeout", "AgentTimeout")], ["unsure with timeout"]),
    ],
)
def test_a_message_without_its_one_good_answer_is_lost(
    finals: list[Final], words: list[str]
) -> None:
    lost = messages_lost("s", ["r-1", "r-2"], finals)
    assert len(lost) == len(words)
    assert all(word in said for word, said in zip(words, lost, strict=True))


def test_of_messages_that_were_answered_nothing_is_said() -> None:
    unsure = Final("unsure", "3-0", "success")
    assert messages_lost("s", ["r-1", "r-2"], [*ANSWERED, unsure]) == []


class World:
    """A cluster as far as a soak looks at it."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = {}
        self.gone: set[str] = set()
        self.entries: list[tuple[str, dict[str, str]]] = []

    def tasks(self) -> dict[str, dict[str, Any]]:
        return {name: status for name, status in self.there.items() if name not in self.gone}

    def apply(self, *made: dict[str, Any]) -> None:
        for each in made:
            self.there[each["metadata"]["name"]] = WELL
            self.gone.discard(each["metadata"]["name"])

    def story(self, name: str) -> str:
        return f"the story of {name}"

    def until(self, what: str, condition: Any, seconds: float) -> None:
        for _ in range(3):
            if condition():
                return
        raise AssertionError(f"not within {seconds} s: {what}")

    def xrange(self, stream: str) -> list[tuple[str, dict[str, str]]]:
        return self.entries


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()

    @contextmanager
    def front_end(_: object) -> Iterator[World]:
        yield world

    monkeypatch.setattr(soak_module, "front_end", front_end)
    return world


def settled(world: World) -> Soak:
    plan = Plan(1, seconds=0, tasks=2, at_once=2, sessions=1)
    soak = Soak(world, None, plan, "soak")  # type: ignore[arg-type]
    soak.settle()
    return soak


def test_a_soak_in_which_all_is_done_has_lost_nothing(world: World) -> None:
    soak = settled(world)
    assert list(soak.runs) == ["soak-t000", "soak-t001"]
    assert soak.lost() == []


def test_a_task_that_was_there_and_vanished_is_lost_and_not_made_again(world: World) -> None:
    soak = settled(world)
    world.gone.add("soak-t001")
    soak.settle()
    assert "soak-t001" in world.gone
    assert "soak-t001 had vanished" in soak.lost()


def test_what_ends_after_the_soaks_own_patience_is_lost_all_the_same(world: World) -> None:
    soak = settled(world)
    world.there["soak-t000"] = {"phase": "Running"}
    soak.settle()
    world.there["soak-t000"] = WELL
    (lost,) = soak.lost()
    assert "not all had ended and answered within" in lost


def test_an_answer_that_says_the_worker_crashed_is_none(world: World) -> None:
    soak = settled(world)
    said = POWorkerOutput(
        request_id="r-1", user_id=1, status="error", reason="WorkerCrashed", text=""
    )
    soak.sent[soak.sessions[0]]["r-1"] = "1-0"
    world.entries = [("1-1", encode(said))]
    (lost,) = soak.lost()
    assert "with error: WorkerCrashed" in lost
