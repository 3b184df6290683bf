"""`spec.notify` as people write it, and events as receivers get them."""

import base64
import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter_contracts.cloud_events import (
    MAX_EVENT_BYTES,
    cloud_event,
    read_signing_keys,
    signed_headers,
    source_of,
)
from orbiter_contracts.notify import (
    MAX_SINKS,
    OCCASIONS,
    OF_AN_END,
    merged_sinks,
    read_sinks,
)
from orbiter_contracts.webhook_signatures import is_signed_message

KEY = {"name": "orbiter-notify"}
SINK = {"url": "https://hooks.example.com/a?b=c", "secretRef": KEY}
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
WHEN = datetime(2026, 11, 29, 12, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def event(**changes: Any) -> bytes:
    told: dict[str, Any] = {
        "identifier": "9f1c.completed",
        "source": source_of("team", "agenttasks", "fix", "https://prod.example.com/"),
        "kind": "dev.orbiter.agenttask.completed",
        "subject": "fix",
        "time": WHEN,
        "data": {"phase": "Completed"},
    }
    return cloud_event(**told | changes)


def test_what_is_left_out_has_the_usual_values() -> None:
    (sink,) = read_sinks([SINK])
    assert (sink.secret_ref.key, sink.events) == ("secret", OF_AN_END)
    (other,) = read_sinks([{"urlFromSecret": KEY, "secretRef": {**KEY, "key": "k"}, "more": 1}])
    assert other.url_from_secret is not None
    assert (other.url_from_secret.key, other.secret_ref.key) == ("url", "k")
    assert read_sinks(None) == ()


def test_a_place_is_told_without_what_may_be_secret() -> None:
    sink, other = read_sinks([SINK, {"urlFromSecret": KEY, "secretRef": KEY}])
    assert sink.place == "https://hooks.example.com"
    assert other.place == "the address in Secret orbiter-notify, key url"


@pytest.mark.parametrize(
    ("notify", "problem"),
    [
        ([{"secretRef": KEY}], "notify[0]: write url or urlFromSecret, one of them"),
        ([{**SINK, "urlFromSecret": KEY}], "notify[0]: write url or urlFromSecret, one of them"),
        ([{"url": "https://a.example"}], "notify[0].secretRef: Field required"),
        ([{**SINK, "secretRef": {"name": "../x"}}], "notify[0].secretRef.name: is no name of a"),
        ([{**SINK, "secretRef": {**KEY, "key": "a/b"}}], "notify[0].secretRef.key: is no key"),
        ([{**SINK, "url": "ftp://a.example"}], "notify[0].url: is no http(s) URL"),
        ([{**SINK, "url": "https://me:pw@a.example"}], "notify[0].url: is no http(s) URL"),
        ([{**SINK, "events": []}], "notify[0].events: "),
        ([{**SINK, "events": ["Cancelled"]}], "notify[0].events[0]: "),
        ([SINK] * (MAX_SINKS + 1), "notify: "),
        ("all of you", "notify: "),
    ],
)
def test_what_cannot_work_is_told_without_its_value(notify: Any, problem: str) -> None:
    with pytest.raises(ValueError, match="notify") as refused:
        read_sinks(notify)
    assert str(refused.value).startswith(problem)
    assert "pw" not in str(refused.value)


@given(JSON | st.lists(st.dictionaries(st.sampled_from(["url", "events", "secretRef"]), JSON)))
def test_whatever_is_written_is_read_or_refused(notify: Any) -> None:
    with suppress(ValueError):
        assert len(read_sinks(notify)) <= MAX_SINKS


def test_one_receiver_of_two_lists_is_one_and_told_of_all() -> None:
    ends = {**SINK, "events": ["Failed"]}
    more = {**SINK, "events": ["BudgetWarning", "Completed"]}
    other = {**SINK, "secretRef": {"name": "another"}}
    both = merged_sinks((*read_sinks([ends]), *read_sinks([more, other])))
    assert [one.events for one in both] == [("Completed", "Failed", "BudgetWarning"), OF_AN_END]
    assert merged_sinks((*both, *both)) == both
    assert {one for sink in both for one in sink.events} < set(OCCASIONS)


def test_an_event_is_a_cloudevent_whose_signature_is_right() -> None:
    body = event()
    assert json.loads(body) == {
        "specversion": "1.0",
        "id": "9f1c.completed",
        "source": "https://prod.example.com/namespaces/team/agenttasks/fix",
        "type": "dev.orbiter.agenttask.completed",
        "subject": "fix",
        "time": "2026-11-29T12:00:00.000Z",
        "datacontenttype": "application/json",
        "data": {"phase": "Completed"},
    }
    older = "whsec_" + base64.b64encode(bytes(24)).decode()
    keys = read_signing_keys(f"{SECRET}\n{older}\n")
    headers = signed_headers(keys, "9f1c.completed", 1796040000, body)
    assert headers["content-type"].startswith("application/cloudevents+json")
    for key in (SECRET, older):
        given_of = (key, headers["webhook-id"], headers["webhook-timestamp"], body)
        assert is_signed_message(headers["webhook-signature"], *given_of)
    assert not is_signed_message(headers["webhook-signature"], SECRET, "other", "1796040000", body)


def test_half_a_character_and_a_long_text_are_no_trouble() -> None:
    assert b'"a?"' in event(data={"text": "a\ud800"})
    with pytest.raises(ValueError, match=f"{MAX_EVENT_BYTES} at most"):
        event(data={"text": "x" * MAX_EVENT_BYTES})


@pytest.mark.parametrize(
    "text",
    [
        *("", " \n", "secret", SECRET.removeprefix("whsec_"), "whsec_AAAA", "whsec_%%", "x" * 5000),
        *(" ".join([SECRET] * 5), SECRET + "\x00"),
    ],
)
def test_what_is_no_signing_key_is_refused_and_not_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"signing key|more than 4") as refused:
        read_signing_keys(text)
    assert not text.strip() or text.strip() not in str(refused.value)
