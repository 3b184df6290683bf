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


def test_a_built_in_object_comes_without_its_managed_fields():
    encoded = line({"name": "fix-1", "labels": {"a": "b"}, "managedFields": FIELDS})

    event = decode_event(encoded, built_in=True)

    expected = {"metadata": {"name": "fix-1", "labels": {"a": "b"}}, "spec": SPEC, "status": {}}
    assert event == {"type": "MODIFIED", "object": expected}


@pytest.mark.parametrize(
    ("metadata", "built_in"),
    [
        ({"name": "fix-1"}, True),
        ({"name": "fix-1", "ownerReferences": [{"name": "fix"}]}, True),
        ({"managedFields": FIELDS, "name": "fix"}, False),
        ({"managedFields": FIELDS, "ownerReferences": [{"name": "x"}]}, False),
    ],
    ids=["nothing to leave out", "another list at the end", "custom kind", "custom kind, list"],
)
def test_everything_else_is_decoded_as_it_is(metadata, built_in):
    encoded = line(metadata)

    assert decode_event(encoded, built_in=built_in) == json.loads(encoded)
