"""Watch events are decoded without what nobody reads, and otherwise unchanged."""

import json
from typing import Any

import pytest

from orbiter_operator.wire import decode_event

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
