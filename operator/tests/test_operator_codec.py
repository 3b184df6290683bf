"""Watch events are decoded without what nobody reads, and otherwise unchanged."""

import json
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_api import RefusedRequestError
from support.strange_values import WRITTEN

from orbiter_operator.kube.client import ApiError
from orbiter_operator.kube.connection import OBJECT, decode, decode_event, events
from orbiter_operator.kube.patches import patch
from orbiter_operator.kube.resources import JOBS
from orbiter_operator.tasks.models import TaskStatus

FIELDS = [
    {
        "manager": "kubelet",
        "fieldsV1": {"f:env": {'k:{"name":"]},\\"spec\\":{"}': {}}, "f:spec": {"f:x": {}}},
    }
]
SPEC: dict[str, Any] = {"template": {"metadata": {"finalizers": ["a"]}, "spec": {"b": [1]}}}


def line(metadata: dict[str, Any]) -> bytes:
    event = {"type": "MODIFIED", "object": {"metadata": metadata, "spec": SPEC, "status": {}}}
    return json.dumps(event, separators=(",", ":")).encode()


OWNERS = [{"name": "fix", "uid": "1"}]


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "fix-1", "labels": {"a": "b"}, "managedFields": FIELDS},
        {"name": "fix-1", "ownerReferences": OWNERS, "managedFields": FIELDS},
        {"labels": {"a": "b"}, "managedFields": FIELDS, "name": "fix", "ownerReferences": OWNERS},
    ],
    ids=["built-in kind", "owned", "custom kind"],
)
def test_an_object_comes_without_its_managed_fields(metadata):
    event = decode_event(line(metadata))
    left = {key: value for key, value in metadata.items() if key != "managedFields"}
    expected = {"metadata": left, "spec": SPEC, "status": {}}
    assert event == {"type": "MODIFIED", "object": expected}


@pytest.mark.parametrize(
    "found",
    [
        {"metadata": {"name": "fix-1"}},
        {"metadata": {"name": "fix-1", "ownerReferences": OWNERS}},
        {
            "metadata": {"name": "fix"},
            "spec": {"a": 1},
            "status": {"data": {"x": 1, "managedFields": [2], "name": "mine"}},
        },
        {"metadata": {"resourceVersion": "7"}},
    ],
    ids=["nothing to leave out", "another list at the end", "a user's own words", "bookmark"],
)
def test_everything_else_is_decoded_as_it_is(found):
    event = {"type": "MODIFIED", "object": found}
    encoded = json.dumps(event, separators=(",", ":")).encode()
    assert decode_event(encoded) == event


@pytest.mark.parametrize("depth", [1, 64, 190])
def test_whatever_is_decoded_can_be_compared_and_written_again(depth):
    data: dict[str, Any] = {}
    for _ in range(depth):
        data = {"a": data}
    obj = {"status": {"phase": "Running", "result": {"status": "success", "data": data}}}
    found = decode(json.dumps(obj).encode(), OBJECT)
    status = TaskStatus.model_validate(found["status"])
    changed = status.model_copy(update={"phase": "Completed"})
    assert orjson.loads(orjson.dumps(changed.to_api()))["result"]["data"] == data
    assert patch(status, changed) == {"phase": "Completed"}


async def test_an_answer_that_is_no_json_is_an_error_of_the_server(api, kube):
    for answer in (b"<html>", b"[]", b'"\xff'):
        api.encode = lambda value, answer=answer: answer
        with pytest.raises(ApiError, match="no JSON") as caught:
            await kube.list(JOBS)
        assert caught.value.status == 502


async def test_a_refusal_in_other_words_than_json_is_told_as_it_is(api, kube):
    async def refuse(verb, plural, body):
        raise RefusedRequestError(503, "ServiceUnavailable", "etcd is away")

    api.before = refuse
    with pytest.raises(ApiError, match="etcd is away"):
        await kube.list(JOBS)


async def test_events_come_whole_however_the_bytes_come():
    text = line({"name": "a"}) + b"\n\n[]\n" + line({"name": "b"}) + b"\n{torn"

    async def drops():
        for start in range(0, len(text), 7):
            yield text[start : start + 7]

    names = [event["object"]["metadata"]["name"] async for event in events(drops())]
    assert names == ["a", "b"]


@given(st.binary(max_size=200) | WRITTEN.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_whatever_a_tenant_has_stored_an_event_is_decoded_or_refused(stored):
    good = b'{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{"podTemplate":%b}}}' % stored
    try:
        event = decode_event(good)
    except ValueError:
        return
    orjson.dumps(event)
    assert event["type"]


def change(kind: str, uid: str, version: int, name: str = "fix-1-abcde", **more: Any) -> bytes:
    """A change of a pod as an API server writes it: the fields of built-in kinds in their order."""
    meta = {"name": name, "generateName": "fix-1-", "namespace": "team", "uid": uid}
    meta |= {"resourceVersion": str(version), **more}
    obj = {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {}, "status": {}}
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


async def read_all(*chunks: bytes) -> list[tuple[str, str, int]]:
    """Kind, uid and version of the events in what was read at a time."""

    async def reads():
        for chunk in chunks:
            yield chunk

    found = [(event["type"], event["object"]["metadata"]) async for event in events(reads())]
    return [(kind, meta["uid"], int(meta["resourceVersion"])) for kind, meta in found]


async def test_of_the_changes_of_an_object_that_are_read_together_the_last_counts():
    pods = [change("ADDED", "a", 1), change("MODIFIED", "b", 2), change("MODIFIED", "a", 3)]
    assert await read_all(b"".join(pods)) == [("MODIFIED", "b", 2), ("MODIFIED", "a", 3)]
    assert len(await read_all(*pods)) == 3


async def test_a_deletion_overtakes_nothing_and_is_not_overtaken():
    pods = [change("MODIFIED", "a", 1), change("MODIFIED", "a", 2), change("DELETED", "a", 3)]
    anew = change("ADDED", "b", 4)
    expected = [("MODIFIED", "a", 2), ("DELETED", "a", 3), ("ADDED", "b", 4)]
    assert await read_all(b"".join([*pods, anew])) == expected


async def test_what_somebody_has_written_is_not_taken_for_another_objects_change():
    words = {"annotations": {"a": change("MODIFIED", "b", 9).decode()}}
    pods = [change("MODIFIED", "b", 1), change("MODIFIED", "a", 2, **words)]
    assert await read_all(b"".join(pods)) == [("MODIFIED", "b", 1), ("MODIFIED", "a", 2)]


@given(
    happened=st.lists(
        st.tuples(st.sampled_from(["MODIFIED", "MODIFIED", "DELETED"]), st.sampled_from("abc")),
        max_size=12,
    ),
    ends=st.sets(st.integers(0, 3000), max_size=5),
)
async def test_however_changes_are_read_their_objects_are_the_same_in_the_end(happened, ends):
    known: dict[str, int] = {}
    text, expected = b"", {}
    for version, (kind, uid) in enumerate(happened, 1):
        expected[uid] = version if kind == "MODIFIED" else 0
        text += change(kind if uid in known else "ADDED", uid, version)
        if kind == "DELETED" and uid not in known:
            expected[uid] = version
        known[uid] = version
    cuts = [0, *sorted(end for end in ends if end < len(text)), len(text)]
    chunks = [text[begin:end] for begin, end in pairwise(cuts)]
    found = {uid: 0 if kind == "DELETED" else at for kind, uid, at in await read_all(*chunks)}
    assert found == expected
