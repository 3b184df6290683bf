"""The hash of a PO session: its fields are text in Redis, and nothing in them may hurt a reader."""

from datetime import UTC, datetime

from orbiter_contracts import PORotation, POState, SnapshotReport
from orbiter_contracts.queues import BARE

AT = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
STAMP = "2026-01-10T12:00:00Z"
FIELDS = {
    "state": "busy",
    "request_id": "r-1",
    "session_id": "s-2",
    "turns": "3",
    "input_tokens": "100",
    "cost_usd": "0.25",
    "last_activity": STAMP,
    "rotations": "1",
    "rotation": f'{{"reason": "Tokens", "from": "s-1", "to": "s-2", "at": "{STAMP}"}}',
    "snapshot": '{"stored": false, "bytes": 9, "reason": "TooLarge", "limit": 8}',
}


def test_the_keys_are_below_the_workers_prefix() -> None:
    keys = [BARE.po_state("w"), BARE.po_turns("w"), BARE.po_snapshot("w")]
    assert keys == ["worker:po:w:state", "worker:po:w:turns", "worker:po:w:snapshot"]


def test_the_hash_is_read_whole() -> None:
    state = POState.of(FIELDS)
    assert state is not None
    assert (state.state, state.request_id, state.turns, state.input_tokens) == (
        "busy",
        "r-1",
        3,
        100,
    )
    assert (state.cost_usd, state.last_activity, state.ready_at) == (0.25, AT, None)
    assert state.rotation is not None
    assert (state.rotation.reason, state.rotation.from_session) == ("Tokens", "s-1")
    assert state.snapshot == SnapshotReport(stored=False, bytes=9, reason="TooLarge", limit=8)


def test_what_is_paid_for_is_none_of_ours_where_nobody_says_it() -> None:
    state = POState.of({"state": "ready", "asked": "3", "settled": "2", "turns_allowed": "3"})
    assert state is not None
    assert (state.asked, state.settled, state.unpriced, state.turns_allowed) == (3, 2, 0, 3)
    assert POState().turns_allowed is None
    odd = POState.of({"turns_allowed": "-1", "asked": "many"})
    assert odd == POState()


def test_it_is_read_from_a_client_that_does_not_decode() -> None:
    assert POState.of({k.encode(): v.encode() for k, v in FIELDS.items()}) == POState.of(FIELDS)


def test_no_hash_is_no_state() -> None:
    assert POState.of({}) is None


def test_a_field_that_cannot_be_read_costs_only_itself() -> None:
    state = POState.of(FIELDS | {"turns": "many", "rotation": "{", "mood": "good"})
    assert state is not None
    assert (state.turns, state.rotation, state.state) == (0, None, "busy")


def test_a_rotation_says_from_in_json() -> None:
    rotation = PORotation.model_validate({"reason": "Idle", "from": "a", "to": "b", "at": AT})
    assert '"from":"a"' in rotation.model_dump_json(by_alias=True)
