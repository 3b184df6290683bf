"""Every key is under its prefix, whatever is in an id, and a stream's name is read back."""

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orbiter_contracts.queues import Keys, dead_letter
from orbiter_contracts.stream_names import MAX_STREAM_NAME_BYTES, StreamName, read_stream_name

SEED = {
    "developer_input": "worker:developer:input",
    "developer_output": "worker:developer:output",
    "lifecycle": "worker:lifecycle",
    "po_input": "worker:po:alice:input",
    "po_output": "worker:po:alice:output",
    "po_snapshot": "worker:po:alice:snapshot",
    "po_turns": "worker:po:alice:turns",
    "po_state": "worker:po:alice:state",
    "po_hold": "worker:po:alice:hold",
    "po_transcript": "worker:po:alice:transcript",
    "po_lease": "worker:po:alice:lease",
    "developer_lease": "worker:developer:w-1:lease",
    "bound_lease": "worker:developer:w-1:7-0:lease",
    "session_record": "session:user:4711",
    "session_records": "session:user:",
    "shared_records": "session:user:team-b:",
    "session_registry": "worker:posessions:orbiter-system/orbiter-operator",
    "namespace_registry": "worker:namespaces:orbiter-system/orbiter-operator",
    "attempt_record": "agenttask:9f1c:1",
    "attempt_checkpoint": "agenttask:9f1c:1:checkpoint",
    "task_transcript": "agenttask:9f1c:1:transcript",
    "task_snapshot": "agenttask:9f1c:snapshot",
    "dead_letters": "worker:po:alice:input:dead",
}

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
IDS = st.text(min_size=1, max_size=60) | st.sampled_from(
    ["{team-b}:", "}:worker:po:x", "a:input", "*", "[a-z]", "\\", "..", "a:input:dead", "{", "}"]
)


def all_of(
    keys: Keys, worker: str = "alice", developer: str = "w-1", uid: str = "9f1c"
) -> dict[str, str]:
    """Every key there is, by what it is for."""
    return {
        "developer_input": keys.developer_input,
        "developer_output": keys.developer_output,
        "lifecycle": keys.lifecycle,
        "po_input": keys.po_input(worker),
        "po_output": keys.po_output(worker),
        "po_snapshot": keys.po_snapshot(worker),
        "po_turns": keys.po_turns(worker),
        "po_state": keys.po_state(worker),
        "po_hold": keys.po_hold(worker),
        "po_transcript": keys.po_transcript(worker),
        "po_lease": keys.po_lease(worker),
        "developer_lease": keys.developer_lease(developer),
        "bound_lease": keys.developer_lease(developer, "7-0"),
        "session_record": keys.session_record(4711),
        "session_records": keys.session_records(),
        "shared_records": keys.session_records("team-b"),
        "session_registry": keys.session_registry("orbiter-system", "orbiter-operator"),
        "namespace_registry": keys.namespace_registry("orbiter-system", "orbiter-operator"),
        "attempt_record": keys.attempt_record(uid, 1),
        "attempt_checkpoint": keys.attempt_checkpoint(uid, 1),
        "task_transcript": keys.task_transcript(uid, 1),
        "task_snapshot": keys.task_snapshot(uid),
        "dead_letters": dead_letter(keys.po_input(worker)),
    }


def test_without_a_prefix_the_names_are_the_specifications_letter_for_letter() -> None:
    assert all_of(Keys("")) == SEED
    assert Keys() == Keys("")
    assert Keys().namespace == ""


def test_with_a_namespace_each_is_the_same_behind_the_namespace_in_braces() -> None:
    keys = Keys.of_namespace("team-a")
    assert all_of(keys) == {kind: f"{{team-a}}:{name}" for kind, name in SEED.items()}
    assert all(name.startswith(keys.beginnings) for name in all_of(keys).values())
    assert (keys.prefix, keys.namespace) == ("{team-a}:", "team-a")
    # Of triggers, whose program has its own user: the operator's knows none of these.
    assert keys.trigger_events == "{team-a}:agenttrigger:events"
    assert keys.trigger_memory("9f1c", "ab") == "{team-a}:agenttrigger:9f1c:made:ab"
    assert not keys.trigger_events.startswith(keys.beginnings)
    # Of notifications: the courier's user knows these.
    assert keys.notified("9f1c") == "{team-a}:notify:object:9f1c"
    assert dead_letter(keys.notifications) == "{team-a}:notify:events:dead"
    assert Keys().notifications_waiting("orbiter", "courier") == "notify:waiting:orbiter/courier"
    assert not keys.notified("9f1c").startswith(keys.beginnings)


def test_what_goes_with_a_session_is_every_key_of_its_worker() -> None:
    assert set(Keys.of_namespace("team-a").po_keys("alice")) == {
        f"{{team-a}}:worker:po:alice:{kind}"
        for kind in (
            *("input", "output", "input:dead", "output:dead"),
            *("snapshot", "turns", "state", "hold", "lease", "transcript"),
        )
    }


@pytest.mark.parametrize(
    "prefix",
    [
        "team-a",
        "team-a:",
        "{}:",
        "{team-a}",
        "{Team}:",
        "{a}:{b}:",
        "{a*}:",
        "{-a}:",
        "{a}:\n",
        ":",
    ],
)
def test_what_is_no_namespace_in_braces_is_no_prefix(prefix: str) -> None:
    with pytest.raises(ValueError, match="no prefix of keys"):
        Keys(prefix)


@pytest.mark.parametrize("name", ["", "Team", "a b", "a}", "*", "a" * 64, "a/b", "a.b", "ä"])
def test_what_is_no_name_of_a_namespace_has_no_keys(name: str) -> None:
    with pytest.raises(ValueError, match=r"namespace|no prefix"):
        Keys.of_namespace(name)


@given(NAMES, IDS)
def test_no_id_leaves_its_prefix(namespace: str, id_: str) -> None:
    prefix = f"{{{namespace}}}:"
    keys = all_of(Keys.of_namespace(namespace), id_, id_, id_)
    assert all(key.startswith(prefix) for key in keys.values())
    assert Keys.of_namespace(namespace).session_record(id_).startswith(prefix)


@given(NAMES, NAMES, IDS, IDS)
def test_no_two_namespaces_share_a_key_or_the_beginning_of_one(
    one: str, other: str, id_: str, id2: str
) -> None:
    assume(one != other)
    ours, theirs = Keys.of_namespace(one), Keys.of_namespace(other)
    mine = set(all_of(ours, id_, id_, id_).values())
    for foreign in (theirs, Keys()):
        keys = set(all_of(foreign, id2, id2, id2).values())
        assert not mine & keys
        assert not any(key.startswith(ours.prefix) for key in keys)


STREAMS: list[Callable[[Keys, str], StreamName]] = [
    lambda keys, _: StreamName(keys, "developer_input"),
    lambda keys, _: StreamName(keys, "developer_output"),
    lambda keys, _: StreamName(keys, "lifecycle"),
    lambda keys, id_: StreamName(keys, "po_input", id_),
    lambda keys, id_: StreamName(keys, "po_output", id_),
]


@given(st.just("") | NAMES, IDS, st.sampled_from(STREAMS), st.booleans())
def test_a_streams_name_is_read_back(
    namespace: str, id_: str, made: Callable[[Keys, str], StreamName], dead: bool
) -> None:
    keys = Keys.of_namespace(namespace) if namespace else Keys()
    stream = made(keys, id_)._replace(dead=dead)
    assert read_stream_name(stream.key) == stream
    if id_.encode("utf-8", "surrogateescape").isascii():
        assert read_stream_name(stream.key.encode()) == stream


PIECES = st.sampled_from(
    [b"worker:", b"po:", b"developer:", b"input", b":", b"{team-a}:", b"{", b"}", b":dead", b"\xff"]
)


@given(st.binary() | st.lists(PIECES | st.binary(max_size=3)).map(b"".join))
def test_whatever_the_bytes_a_name_is_ours_or_it_is_not(name: bytes) -> None:
    stream = read_stream_name(name)
    assert stream is None or stream.key.encode() == name


@pytest.mark.parametrize(
    "name",
    [
        b"worker:po::input",
        b"worker:po:input",
        b"worker:po:a:state",
        b"worker:developer:w-1:lease",
        b"worker:developer:input:dead:dead",
        b"{Team}:worker:lifecycle",
        b"{a}:{b}:worker:lifecycle",
        b"x{a}:worker:lifecycle",
        b"worker:lifecycle\n",
        b"worker:po:\xff:input",
        b"worker:po:" + b"a" * MAX_STREAM_NAME_BYTES + b":input",
        b"",
    ],
)
def test_what_is_none_of_our_streams_is_none(name: bytes) -> None:
    assert read_stream_name(name) is None
