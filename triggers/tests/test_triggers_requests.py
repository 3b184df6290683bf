"""Requests to a hook: what is an event, and for what one reason another is refused."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.webhooks import (
    MASTER_KEY,
    SHA,
    commented,
    github_request,
    labeled,
    pull_request,
    pushed,
    standard_request,
)

from orbiter_contracts.trigger_events import (
    MAX_BODY_BYTES,
    MAX_EVENT_BYTES,
    MAX_PROSE,
    TriggerEvent,
)
from orbiter_contracts.webhook_signatures import (
    SCHEMES,
    Hook,
    Scheme,
    read_hook_path,
    signed_body,
    signed_message,
)
from orbiter_triggers.events.refusals import REASONS, RefusedRequestError
from orbiter_triggers.events.requests import read_event

NOW = 1_796_000_000.0


def hook(scheme: Scheme = "github", **other: str) -> Hook:
    return Hook("team", "fixes", scheme, "9f1c-1")._replace(**other)


def read(
    at: Hook, headers: dict[str, str], body: bytes, now: float = NOW, generation: int = 1
) -> TriggerEvent:
    return read_event(at, headers.items(), body, [at.secret(MASTER_KEY, generation)], now)


def reason(at: Hook, headers: dict[str, str], body: bytes, now: float = NOW) -> str:
    with pytest.raises(RefusedRequestError) as caught:
        read(at, headers, body, now)
    return caught.value.reason


def test_a_comment_on_an_issue_is_read_as_it_was_written() -> None:
    event = read(hook(), *github_request(hook(), "issue_comment", commented(), delivery="d-1"))
    assert (event.kind, event.delivery) == ("issue_comment.created", "d-1")
    assert (event.author, event.writer, event.program) == ("mona", True, False)
    assert (event.number, event.comment_id, event.comment) == (
        *("12", "99262140", "/agent look at this"),
    )
    assert event.title == "The basket forgets its items"
    assert event.told()["commentId"] == "99262140"


def test_a_push_has_its_branch_its_commit_and_its_files() -> None:
    event = read(hook(), *github_request(hook(), "push", pushed("a.py", "docs/b.md")))
    assert (event.kind, event.branch, event.commit) == ("push", "main", SHA)
    assert (event.paths, event.paths_cut, event.writer) == (("a.py", "docs/b.md"), False, True)
    assert event.title == "Fix"


@pytest.mark.parametrize(
    ("event", "body", "writer"),
    [
        ("issue_comment", commented(author_association="NONE"), False),
        ("issue_comment", commented(author="other"), None),
        ("issues", labeled("agent", author="stranger"), True),
        ("issues", labeled("agent"), True),
        ("issues", labeled("agent", sender="bob") | {"action": "opened"}, None),
        ("pull_request", pull_request(author_association="CONTRIBUTOR"), False),
        ("push", pushed(), True),
    ],
)
def test_who_may_write_is_what_github_says_of_who_did_it(
    event: str, body: dict[str, Any], writer: bool | None
) -> None:
    assert read(hook(), *github_request(hook(), event, body)).writer is writer


def test_a_label_that_a_form_gives_is_its_authors() -> None:
    body = labeled("agent", sender="eve", author="eve")
    body["issue"]["author_association"] = "NONE"
    assert read(hook(), *github_request(hook(), "issues", body)).writer is False


@pytest.mark.parametrize(
    "change",
    [
        {"sender": {"login": "dependabot[bot]", "type": "Bot"}},
        {"sender": {"login": "renovate[bot]", "type": "User"}},
        {"sender": {}},
        {"comment": commented()["comment"] | {"body": "<!-- orbiter:task --> /agent again"}},
        {"comment": commented()["comment"] | {"performed_via_github_app": {"id": 1}}},
    ],
)
def test_what_a_program_did_is_known_for_that(change: dict[str, Any]) -> None:
    headers, body = github_request(hook(), "issue_comment", commented() | change)
    assert read(hook(), headers, body).program


def test_standard_webhooks_are_read_with_the_id_that_was_signed() -> None:
    at = hook("standard-webhooks")
    body = {"type": "invoice.paid", "number": 5, "labels": ["a", 3], "data": {"x": [1]}}
    event = read(at, *standard_request(at, body, at=NOW))
    assert (event.kind, event.identity) == ("invoice.paid", "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W")
    assert (event.number, event.labels, json.loads(event.data)) == ("5", ("a",), body)


def test_one_right_signature_among_several_is_enough() -> None:
    at = hook("standard-webhooks")
    headers, body = standard_request(at, {}, at=NOW)
    headers["webhook-signature"] = f"v1a,xx v1,AAAA {headers['webhook-signature']}"
    assert read(at, headers, body).uid == at.uid


@pytest.mark.parametrize("seconds", [-301, 301])
def test_what_was_signed_long_ago_or_for_later_is_replayed(seconds: int) -> None:
    at = hook("standard-webhooks")
    assert reason(at, *standard_request(at, {}, at=NOW + seconds)) == "replayed"
    assert read(at, *standard_request(at, {}, at=NOW + seconds // 301 * 300)).uid == at.uid


def test_a_structured_cloud_event_is_known_by_its_source_and_id() -> None:
    at = hook("cloudevents")
    body = {
        "specversion": "1.0", "id": "e-1", "source": "/shop", "type": "order.made",
        "subject": "4711", "data": {"title": "An order"},
    }  # fmt: skip
    cloud = {"Content_Type": "application/cloudevents+json"}
    event = read(at, *standard_request(at, body, at=NOW, **cloud))
    assert (event.kind, event.title, event.url) == ("order.made", "An order", "/shop")
    again = read(at, *standard_request(at, body, at=NOW + 9, identifier="other", **cloud))
    assert again.identity == event.identity


def test_a_binary_cloud_event_has_its_attributes_in_headers() -> None:
    at = hook("cloudevents")
    attributes = {
        "ce_specversion": "1.0", "ce_id": "e-1", "ce_source": "/shop", "ce_type": "order%20made",
    }  # fmt: skip
    event = read(at, *standard_request(at, {"n": 1}, at=NOW, **attributes))
    assert (event.kind, event.delivery, event.data) == ("order made", "e-1", '{"n":1}')
    assert event.identity == "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"
    del attributes["ce_type"]
    assert reason(at, *standard_request(at, {}, at=NOW, **attributes)) == "malformed"


def test_what_is_neither_is_no_cloud_event() -> None:
    at = hook("cloudevents")
    assert reason(at, *standard_request(at, {}, at=NOW)) == "malformed"


@pytest.mark.parametrize("header", ["X-Hub-Signature-256", "X-Signature-256"])
def test_a_program_that_signs_the_body_alone_is_known_by_the_body(header: str) -> None:
    at, body = hook("hmac"), b'{"event": "built", "title": "Nightly"}'
    signed = {header: signed_body(at.secret(MASTER_KEY), body)}
    event = read(at, signed, body)
    assert (event.kind, event.title) == ("built", "Nightly")
    assert read(at, signed | {"X-Request-Id": "other"}, body).identity == event.identity


@pytest.mark.parametrize(
    "changed", [{"namespace": "other"}, {"name": "x"}, {"uid": "1"}, {"scheme": "hmac"}]
)
def test_a_secret_opens_its_own_address_only(changed: dict[str, str]) -> None:
    headers, body = github_request(hook(), "push", pushed())
    assert reason(hook(**changed), headers, body) == "forged"


def test_a_secret_of_the_generation_before_opens_as_long_as_it_is_said_to() -> None:
    old = hook().secret(MASTER_KEY, 1)
    headers, body = github_request(hook(), "push", pushed(), secret=old)
    both = [hook().secret(MASTER_KEY, number) for number in (2, 1)]
    assert read_event(hook(), headers.items(), body, both, NOW).kind == "push"
    with pytest.raises(RefusedRequestError):
        read(hook(), headers, body, generation=2)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_without_a_signature_nothing_is_looked_at(scheme: Scheme) -> None:
    assert reason(hook(scheme), {"Content-Type": "application/json"}, b"\xff{") == "forged"


def test_a_body_that_was_changed_is_forged() -> None:
    headers, body = github_request(hook(), "push", pushed())
    assert reason(hook(), headers, body + b" ") == "forged"


BOMBS = [
    b"[1]",
    b"\xff",
    b'{"a": NaN}',
    b'{"a": ' * 300 + b"1" + b"}" * 300,
    b'{"a": [' + b"[]," * 60_000 + b"[]]}",
    b'{"a": "\\ud800"}',
    b'{"a": ' + b"9" * 5000 + b"}",
    b"",
]


@pytest.mark.parametrize("body", BOMBS, ids=range(len(BOMBS)))
def test_a_body_that_is_no_bounded_json_is_malformed(body: bytes) -> None:
    at = hook("hmac")
    assert reason(at, {"X-Signature-256": signed_body(at.secret(MASTER_KEY), body)}, body) == (
        "malformed"
    )


def test_a_form_is_malformed_with_what_to_choose_instead() -> None:
    headers, body = github_request(hook(), "push", pushed())
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    with pytest.raises(RefusedRequestError, match="choose application/json"):
        read(hook(), headers, body)


def test_a_header_that_counts_and_is_there_twice_is_malformed() -> None:
    headers, body = github_request(hook(), "push", pushed())
    twice = [*headers.items(), ("x-github-event", "issues")]
    with pytest.raises(RefusedRequestError, match="is there twice"):
        read_event(hook(), twice, body, [hook().secret(MASTER_KEY)], NOW)


def test_one_byte_more_than_a_body_may_have_is_oversized() -> None:
    assert reason(hook("hmac"), {}, b" " * (MAX_BODY_BYTES + 1)) == "oversized"


def test_texts_are_cut_and_the_event_always_fits() -> None:
    long = "\x01" * (MAX_PROSE * 2)
    body = commented(body=long)
    body["issue"] |= {"body": long, "title": "t" * 9999, "labels": [{"name": "l" * 999}] * 200}
    event = read(hook(), *github_request(hook(), "issue_comment", body))
    assert len(event.model_dump_json().encode()) <= MAX_EVENT_BYTES
    assert len(event.labels) == 100
    many = read(hook(), *github_request(hook(), "push", pushed(*map(str, range(400)))))
    assert (len(many.paths), many.paths_cut) == (300, True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    [
        *("action", "sender", "login", "issue", "comment", "commits", "ref", "labels", "user"),
        *("pull_request", "head", "added", "id", "type", "source", "specversion", "number"),
    ]
)
LIKE_A_PAYLOAD = st.dictionaries(NAMES, st.dictionaries(NAMES, JSON, max_size=4) | JSON)


@settings(max_examples=150, deadline=None)
@given(
    scheme=st.sampled_from(SCHEMES),
    body=st.binary(max_size=200) | LIKE_A_PAYLOAD.map(lambda made: json.dumps(made).encode()),
    event=st.sampled_from(["issues", "push", "issue_comment", "pull_request", "workflow_run"]),
    cloud=st.sampled_from(["", "application/json", "application/cloudevents+json"]),
    others=st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=4),
)
def test_whatever_was_signed_is_an_event_or_one_of_the_reasons(
    scheme: Scheme, body: bytes, event: str, cloud: str, others: dict[str, str]
) -> None:
    at = hook(scheme)
    secret = at.secret(MASTER_KEY)
    headers = others | {"content-type": cloud, "x-github-event": event, "ce-type": "x"}
    if scheme in ("github", "hmac"):
        headers["x-hub-signature-256"] = signed_body(secret, body)
    else:
        headers |= {"webhook-id": "m", "webhook-timestamp": str(int(NOW))}
        headers["webhook-signature"] = signed_message(secret, "m", str(int(NOW)), body)
    found, refused = None, None
    try:
        found = read(at, headers, body)
    except RefusedRequestError as error:
        refused = error
    if found is not None:
        assert TriggerEvent.model_validate_json(found.model_dump_json()) == found
    else:
        assert refused is not None
        assert refused.reason in REASONS
        assert str(refused).isprintable()


@settings(max_examples=150, deadline=None)
@given(
    scheme=st.sampled_from(SCHEMES),
    headers=st.lists(
        st.tuples(
            st.text(max_size=20)
            | st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"])
            | st.sampled_from(["x-hub-signature-256", "content-type"]),
            st.text(max_size=40) | st.sampled_from(["v1,", "v1,\udcff", "sha256=", "1e9"]),
        ),
        max_size=8,
    ),
    body=st.binary(max_size=200),
    now=st.floats(min_value=0, max_value=2**33),
)
def test_whatever_nobody_signed_is_forged_or_malformed(
    scheme: Scheme, headers: list[tuple[str, str]], body: bytes, now: float
) -> None:
    at = hook(scheme)
    with pytest.raises(RefusedRequestError) as caught:
        read_event(at, headers, body, [at.secret(MASTER_KEY)], now)
    assert caught.value.reason in ("forged", "malformed")


@given(st.text() | st.from_regex(r"/v1/triggers/[^/]*/[^/]*/[^/]*/[^/]*", fullmatch=True))
def test_an_address_is_read_back_as_it_is_or_not_at_all(path: str) -> None:
    found = read_hook_path(path)
    assert found is None or found.path == path


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_hook_has_an_address_that_is_read(scheme: Scheme) -> None:
    assert read_hook_path(hook(scheme).path) == hook(scheme)
