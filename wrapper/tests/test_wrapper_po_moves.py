"""Who is to blame for a message that is delivered again: the message, or the loss of its pod.

The fake agent kills its wrapper, as what a message does to its worker; whether that was the loss of
a pod is what the next worker's host name says.
"""

import json

import pytest
from redis.asyncio import Redis
from support.queues import Queues
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts.bounds import MAX_ID_CHARACTERS
from orbiter_contracts.queues import BARE, PO_GROUP
from worker_wrapper.queue.deliveries import (
    DELIVERY_FIELD,
    MOVED_DELIVERIES,
    Delivery,
    delivered,
    poisoned,
)
from worker_wrapper.queue.streams import Entry

DIES = 'case "$(cat "$turn/prompt")" in bad) kill -9 $PPID ;; esac'


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


def start_in(wrappers: Wrappers, pod: str) -> WrapperProcess:
    return wrappers.start_in(pod, "po-1", WORKER_TYPE="po", SNAPSHOT_KEY=BARE.po_snapshot("po-1"))


def entry(deliveries: int) -> Entry:
    return Entry("7-0", {}, deliveries)


class Field:
    """What Redis has of the last delivery."""

    def __init__(self, value: bytes = b"") -> None:
        self.value = value
        self.reads = 0

    async def run(self, *words: object, **how: object) -> tuple[int, bytes]:
        self.reads += 1
        most = words[3]
        assert isinstance(most, int)
        return len(self.value), self.value if len(self.value) <= most else b""


def last(host: str, *, moved: int = 0, cuts: int = 0, entry: str = "7-0") -> bytes:
    return Delivery(entry=entry, host=host, moved=moved, cuts=cuts).model_dump_json().encode()


async def after(value: bytes, *, deliveries: int = 2, cuts: int = 0) -> int:
    """How many deliveries ended with the loss of their pod, as a worker in `here` sees it."""
    found = await delivered(Field(value), "state", entry(deliveries), cuts=cuts)  # type: ignore[arg-type]
    assert found.host == "here"
    return found.moved


@pytest.fixture
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "here")


@pytest.mark.usefixtures("_here")
async def test_a_first_delivery_asks_redis_nothing():
    field = Field(last("there"))
    assert (await delivered(field, "state", entry(1))).moved == 0  # type: ignore[arg-type]
    assert field.reads == 0


@pytest.mark.usefixtures("_here")
async def test_a_delivery_that_another_pod_follows_was_lost_with_its_pod():
    assert await after(last("there")) == 1
    assert await after(last("there", moved=4)) == 5
    assert await after(last("here", moved=4)) == 4


@pytest.mark.usefixtures("_here")
async def test_a_delivery_whose_turn_was_kept_counts_as_that_alone():
    assert await after(last("there", cuts=1), cuts=2) == 0
    assert await after(last("there", cuts=2), cuts=2) == 1


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        b"[" * 3000,
        b'{"entry": "7-0", "host": "there", "moved": 1e400}',
        b'{"entry": "7-0", "host": "there", "moved": -1}',
        last("there").replace(b"there", b"t" * 5000),
        json.dumps({"entry": "7-0", "host": "t" * (MAX_ID_CHARACTERS + 1)}).encode(),
        last("there", moved=3, entry="8-0"),
    ],
)
async def test_what_is_no_record_of_this_message_is_none(value: bytes):
    assert await after(value) == 0


async def test_a_host_without_a_name_has_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("socket.gethostname", lambda: "")
    assert (await delivered(Field(), "state", entry(2))).host == "-"  # type: ignore[arg-type]


def test_lost_pods_say_nothing_against_a_message_for_a_while():
    assert poisoned(entry(3)) is not None
    assert poisoned(entry(3), moved=1) is None
    assert poisoned(entry(3), moved=1, cuts=1) is None
    most = MOVED_DELIVERIES + 3
    assert poisoned(entry(most - 1), moved=most - 2) is None
    why = poisoned(entry(most), moved=most - 1)
    assert why is not None
    assert f"delivered {most} times" in why


@pytest.mark.integration
async def test_a_message_whose_pods_are_lost_again_and_again_is_answered(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    dies_four_times = f'n=$(ls "$home/turns" | wc -l); [ "$n" -gt 4 ] || {{ {DIES}; }}'
    fake_claude.remembers(then=dies_four_times)
    await queues.message("bad", request_id="r-0")
    for number in range(4):
        await start_in(wrappers, f"pod-{number}").exit_code()
    start_in(wrappers, "pod-4")
    (answer,) = await queues.answers(1)
    assert (answer.request_id, answer.status) == ("r-0", "success")
    await queues.told("ready", 2)
    assert not await queues.redis.hexists(BARE.po_state("po-1"), DELIVERY_FIELD)
    assert await queues.is_settled(BARE.po_input("po-1"), PO_GROUP)


@pytest.mark.integration
async def test_a_message_that_ends_its_worker_within_one_pod_is_poison_whatever_was_lost_before(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(then=DIES)
    await queues.message("bad", request_id="r-0")
    await queues.message("good", request_id="r-1")
    for pod in ("pod-0", "pod-1", "pod-2", "pod-2"):
        await start_in(wrappers, pod).exit_code()
    start_in(wrappers, "pod-2")
    bad, good = await queues.answers(2)
    assert (bad.request_id, bad.status, bad.reason) == ("r-0", "error", "WorkerCrashed")
    assert good.status == "success"
    (letter,) = await queues.dead_letters(BARE.po_input("po-1"))
    assert "delivered 5 times" in letter["reason"]
