"""What waits for a person in the cluster: who is shown it, and what sessions ask."""

import asyncio
import logging

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.eventually import eventually

from orbiter.server._internal import session_questions
from orbiter.server._internal.cluster_detail import brief_of
from orbiter.server._internal.session_questions import asked_at_the_end
from orbiter.server._internal.waiting import waiting_of
from orbiter_contracts.transcript import MessageEvent, VerdictEvent

from .asking_sessions import (
    OURS,
    QUESTIONS,
    SESSION,
    answer,
    comes_to,
    launch,
    names,
    put_chat,
    put_session,
    redis_server,
    waiting,
    worker,
)
from .test_server_cluster_actions import ASKED
from .test_server_transcripts import AT, put_secret, put_task

__all__ = ["launch", "redis_server", "worker"]


@pytest.mark.integration
async def test_tasks_and_sessions_are_listed_the_longest_first(launch, api, worker):
    for at, name in ((3, "alice"), (1, "bert")):
        put_session(api, name)
        await worker.asks(f"What, {name}?", name=name, at=AT.replace(hour=at))
    for name in ("still", "done"):
        put_session(api, name, pendingMessages=1 if name == "still" else 0)
    await worker.asks(name="still")
    await worker.notes([worker.event(VerdictEvent, "r-1", status="success")], "done")
    put_task(api, phase="InputRequired",
             inputRequest={**ASKED, "askedAt": "2026-01-01T02:00:00Z"})  # fmt: skip
    ada, bob, eve = await launch()
    found = await waiting(ada)
    assert [(each["kind"], each["name"]) for each in found["items"]] == [
        ("session", "bert"), ("task", "fix"), ("session", "alice"),
    ]  # fmt: skip
    assert (found["total"], found["left_out"]) == (3, [])
    assert found["items"][0] == {
        "kind": "session", "namespace": "team-a", "name": "bert", "agent": "claude",
        "question": "What, bert?", "question_id": "r-1", "asked_at": "2026-01-01T01:00:00Z",
        "calls": [], "actions": ["answer"],
    }  # fmt: skip
    assert found["items"][1]["question_id"] == "q1"
    shown = (await ada.http.get(SESSION)).json()
    told = [shown[key] for key in ("question", "question_id", "asked_at", "actions")]
    assert told == ["What, alice?", "r-1", "2026-01-01T03:00:00Z", ["answer"]]
    assert (await bob.http.get(SESSION)).json()["actions"] == []
    for reader in (bob, eve):
        assert [each["actions"] for each in (await waiting(reader))["items"]] == [[], [], []]
    first = await waiting(ada, "?limit=1")
    assert ([each["name"] for each in first["items"]], first["total"]) == (["bert"], 3)


@pytest.mark.integration
async def test_everybody_is_shown_what_they_may_read(launch, api, reviews, worker):
    put_session(api)
    await worker.asks()
    put_task(api, phase="InputRequired", inputRequest=ASKED)
    ada, bob, eve = await launch()
    reviews.take("bob")
    reviews.give("bob", "list", "posessions", "team-a")
    reviews.give("bob", "get", "posessions/transcript", "team-a", "another")
    assert await names(bob) == []
    reviews.give("bob", "get", "posessions", "team-a")
    assert (await bob.http.get(SESSION)).json()["question"] == ""
    reviews.take("eve")
    reviews.give("eve", "list", "posessions", "team-a")
    reviews.give("eve", "get", "posessions/transcript", "team-a", "alice")
    assert await names(eve) == ["alice"]
    assert await names(eve, "?namespace=team-a") == ["alice"]
    assert (await eve.http.get(f"{QUESTIONS}?namespace=team-b")).status_code == 403
    assert sorted(await names(ada)) == ["alice", "fix"]


@pytest.mark.integration
async def test_a_transcript_is_read_again_when_something_was_said_since(launch, api, worker):
    put_session(api)
    await worker.asks("One?")
    ada, *_ = await launch()

    async def asked():
        return [each["question"] for each in (await waiting(ada))["items"]]

    assert await asked() == ["One?"]
    await worker.notes([worker.event(MessageEvent, "r-2", text="Two.")])
    assert await asked() == ["One?"], "its status has not changed"
    put_session(api, lastActivityTime="2026-01-01T00:00:01Z")
    await eventually(lambda: comes_to(asked, []))
    await worker.asks("Three?", "r-2")
    put_session(api, turns=2)
    await eventually(lambda: comes_to(asked, ["Three?"]))


@pytest.mark.integration
@pytest.mark.parametrize("url", ["", "unix:///tmp/redis", "http://10.0.0.1", "redis://127.0.0.1:1"])
async def test_a_namespace_that_cannot_be_read_leaves_the_others(
    launch, api, reviews, worker, caplog, url
):
    caplog.set_level(logging.CRITICAL, "orbiter.server")
    put_session(api)
    put_session(api, "zoe", namespace="team-b")
    put_secret(api, url, "team-b")
    put_chat(api, url)
    await worker.asks()
    ada, *_ = await launch()
    everywhere = [("list", "posessions"), ("get", "posessions/transcript")]
    for right in everywhere:
        reviews.give("ada", *right)
    found = await waiting(ada)
    assert ([each["name"] for each in found["items"]], found["left_out"]) == (["alice"], ["team-b"])
    assert (await answer(ada)).status_code == 502
    assert await worker.heard() == []


@pytest.mark.integration
async def test_a_transcript_that_is_none_is_that_sessions_affair(launch, api, worker):
    for name in ("alan", "alice"):
        put_session(api, name)
    await worker.redis.set(OURS.po_transcript("alan"), "no stream")
    await worker.asks()
    ada, *_ = await launch()
    found = await waiting(ada)
    assert ([each["name"] for each in found["items"]], found["left_out"]) == (["alice"], [])


@pytest.mark.integration
async def test_what_takes_long_is_left_out_and_not_asked_again_at_once(
    launch, api, worker, caplog, monkeypatch
):
    connections = []

    async def silent(reader, writer):
        connections.append(writer)
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    caplog.set_level(logging.CRITICAL, "orbiter.server")
    monkeypatch.setattr(session_questions, "READ_SECONDS", 0.2)
    put_session(api)
    put_secret(api, f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    ada, *_ = await launch()
    for _ in range(2):
        assert (await waiting(ada))["left_out"] == ["team-a"]
    assert len(connections) == 1
    listener.close()


@pytest.mark.integration
async def test_without_transcripts_tasks_alone_are_shown(launch, api, worker):
    put_session(api)
    await worker.asks()
    put_task(api, phase="InputRequired", inputRequest=ASKED)
    ada, *_ = await launch(transcripts=False)
    assert await names(ada) == ["fix"]
    refused = await answer(ada)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "no_transcripts")


FIELDS = st.lists(st.binary(max_size=40), max_size=6) | st.none()
ENTRY = st.tuples(st.binary(), FIELDS).map(list)


@given(st.lists(ENTRY, max_size=3) | st.none())
def test_whatever_ends_a_transcript_it_is_read(reply):
    assert asked_at_the_end(reply) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=9), each, max_size=3)
    ),
)
PARTS = st.dictionaries(
    st.sampled_from(
        [
            *("userId", "input", "managedBy", "phase", "turns", "inputRequest", "inputStream"),
            *("agent", "conditions", "usage"),
        ]
    ),
    JSON | st.just("InputRequired") | st.just({"id": "q", "calls": [1, {}]}),
)


@given(PARTS | JSON, PARTS | JSON)
@example({"userId": 1}, {"conditions": [1]})
def test_whatever_an_object_holds_it_ends_no_watch(spec, status):
    meta = {"name": "one", "namespace": "team-a"}
    item = {"metadata": meta, "spec": spec, "status": status}
    assert brief_of(item).name == "one"
    waits = waiting_of(item)
    assert waits is None or waits.answerable in (True, False)
