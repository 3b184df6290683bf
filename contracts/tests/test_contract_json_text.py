"""A document that strangers had a part in: every reader takes it, and what is good stays."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json
from support.strange_values import VALUES, WRITTEN, can_be_written

from orbiter_contracts.json_text import MAX_DEPTH, bounded, decode, is_heavy

LEFT_OUT_DEEP = "(left out: nested more than 200 deep)"
LEFT_OUT_WIDE = "(left out: more than 10000 values)"


def listed(*specs: bytes) -> bytes:
    """A list of objects with these specs."""
    items = b",".join(b'{"metadata":{"name":"a"},"spec":%b}' % spec for spec in specs)
    return b'{"items":[%b]}' % items


def specs(text: bytes) -> list[Any]:
    return [item["spec"] for item in json.loads(bounded(text, root=3))["items"]]


def depth(value: Any) -> int:
    level, levels = [value], 0
    while level := [
        part
        for one in level
        if isinstance(one, dict | list)
        for part in (one.values() if isinstance(one, dict) else one)
    ]:
        levels += 1
    return levels


@pytest.mark.parametrize("levels", [MAX_DEPTH, 990, 1024, 10_000])
@pytest.mark.parametrize(("begin", "end"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["lists", "dicts"])
def test_what_is_nested_too_deep_is_left_out_and_its_neighbours_are_not(levels, begin, end):
    deep = b'{"podTemplate":' + begin * levels + b"1" + end * levels + b',"prompt":"x"}'
    good = b'{"prompt":"[[[{{{ \\" \\\\"}'
    before, found, behind = specs(listed(good, deep, good))
    assert before == behind == json.loads(good)
    assert found["prompt"] == "x"
    assert LEFT_OUT_DEEP in bounded(listed(deep), root=3).decode()
    assert depth(json.loads(bounded(listed(deep), root=3))) <= MAX_DEPTH + 1


def test_what_is_as_deep_as_allowed_stays():
    text = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert bounded(text) == text
    assert not is_heavy(text)


@pytest.mark.parametrize(
    ("root", "form"),
    [(1, b"%b"), (2, b'{"type":"ADDED","object":%b}'), (3, b'{"items":[{},%b]}')],
    ids=["object", "event", "list"],
)
@pytest.mark.parametrize("part", [b"[]", b"0", b'{"a":{}}', b"[[]]"])
def test_a_part_of_a_spec_with_too_many_values_is_left_out_and_no_other_part(root, form, part):
    wide = b"[" + (part + b",") * 40_000 + b"0]"
    obj = b'{"metadata":{"name":"a"},"spec":{"podTemplate":%b,"prompt":"x"}}' % wide
    found = bounded(form % obj, root=root)
    left = b'"' + LEFT_OUT_WIDE.encode() + b'"'
    assert found == form % obj.replace(wide, left)


def test_what_is_both_deep_and_wide_is_left_out_as_one():
    deep = b"[" * 300 + b"]" * 300
    wide = b"[" + (deep + b",") * 200 + b"0]"
    assert specs(listed(b'{"a":%b}' % wide, b"{}")) == [{"a": LEFT_OUT_WIDE}, {}]


def test_many_ordinary_objects_are_no_crowd():
    agent = {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}}
    why = {"type": "Finished", "lastTransitionTime": "2026-01-01T00:00:00Z", "status": "True"}
    spec = json.dumps({"prompt": "do this, and that", "agent": agent, "why": [why] * 4}).encode()
    text = listed(*[spec] * 5000)
    assert not is_heavy(text)
    assert bounded(text, root=3) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rb'"\ud800"', "\ufffd"),
        (rb'"\uDFFF\ud83d"', "\ufffd\ufffd"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\\ud800"', "\\ud800"),
        (b'"\xff\xfe"', "\ufffd\ufffd"),
        (b"1e999", "1e999"),
        (b"-1E+400", "-1E+400"),
        (b"9" * 5000, "9" * 5000),
        (b"9" * 300 + b"e10", "9" * 300 + "e10"),
        (b"0.1e+0400", "0.1e+0400"),
        (b"0e999", 0.0),
        (b"1" + b"0" * 308, 10**308),
        (b"9" * 30, int("9" * 30)),
        (b'"1e999"', "1e999"),
        (b"1e308", 1e308),
    ],
    ids=lambda value: str(value)[:12],
)
def test_characters_and_numbers_that_cannot_be_become_what_can(text, expected):
    assert json.loads(bounded(text)) == expected
    assert decode(text) == expected


@pytest.mark.parametrize("text", [b"", b"<html>", b"[", b"NaN", b'{"a":-Infinity}'])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError, match="line 1"):
        decode(text)


@given(WRITTEN | st.binary(max_size=200), st.sampled_from([1, 2, 3]))
def test_any_document_is_decoded_or_refused_and_can_be_written_again(written, root):
    text = written if isinstance(written, bytes) else written.encode("utf-8", "surrogatepass")
    try:
        found = decode(text, root=root)
    except ValueError:
        return
    assert found == json.loads(bounded(text, root=root))
    to_json(found)


@given(WRITTEN | st.binary(max_size=200), st.sampled_from([1, 2, 3]))
@example("[" * 20_000, 1)
@example("]" * 20_000, 3)
@example('"' + "[" * 300, 2)
@example("[" * 300 + '"' + '\\"' * 500_000, 1)
@example("[" * 300 + '"\\', 1)
@example("[" * 300 + "0" * 1_000_000, 1)
@example("[]" + " " * 1_000_000, 1)
@example("[" * 300 + 'x"' * 500_000, 1)
def test_any_document_is_bounded_and_what_was_json_still_is(written, root):
    text = written if isinstance(written, bytes) else written.encode("utf-8", "surrogatepass")
    found = bounded(text, root=root)
    assert bounded(found, root=root) == found
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return
    if not any(word in text for word in (b"NaN", b"Infinity")):
        from_json(found)
    to_json(json.loads(found))


@given(VALUES.filter(can_be_written))
def test_an_ordinary_document_stays_as_it_is(value):
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    if not any(number in text for number in (b"000000", b"NaN", b"Infinity")):
        assert bounded(text) == text
