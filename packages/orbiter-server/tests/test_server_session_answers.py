"""An answer to what a session asks: given once, by who may, and only while it is asked."""

import json

import pytest
from support.eventually import eventually
from support.fake_api import RefusedRequestError
from support.queues import Queues

from orbiter_contracts import redis_users
from orbiter_contracts.queues import Keys

from .asking_sessions import (
    OURS,
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
from .test_server_cluster_actions import ADA, BOB
from .test_server_transcripts import put_secret

__all__ = ["launch", "redis_server", "worker"]


@pytest.mark.integration
async def test_a_session_is_answered_once_and_only_what_was_shown(launch, api, worker):
    put_session(api)
    await worker.asks()
    ada, *_ = await launch()
    assert await names(ada) == ["alice"]
    stale = await answer(ada, request="r-0")
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "other_request")
    given = await answer(ada)
    assert given.status_code == 202, given.text
    [heard] = await worker.heard()
    assert (heard.prompt, heard.user_id) == ("blue", 7)
    assert (await ada.http.get(SESSION)).json()["question"] == ""
    sent = {"namespace": "team-a", "name": "alice", "request_id": heard.request_id}
    assert given.json() == sent
    # the operator has not said so yet
    assert await names(ada) == []
    again = await answer(ada, "green")
    assert again.status_code == 409
    assert "has a message already" in again.text
    assert len(await worker.heard()) == 1
    assert ("get", "secrets", f"Bearer {ADA}") in api.bearers


@pytest.mark.integration
@pytest.mark.parametrize(
    ("status", "more", "told"),
    [
        ("success", {}, "asks nothing any more"),
        ("input_required", {}, "asks something else"),
        ("success", {"is_final": False}, "asks nothing any more"),
    ],
)
async def test_what_was_said_meanwhile_takes_the_question_away(
    launch, api, worker, status, more, told
):
    put_session(api)
    await worker.asks()
    ada, *_ = await launch()
    await worker.says(status, "r-2", **more)
    refused = await answer(ada)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "other_request")
    assert told in refused.text
    assert await worker.heard() == []


@pytest.mark.integration
async def test_a_message_that_was_none_leaves_the_question(launch, api, worker):
    put_session(api)
    await worker.asks()
    await worker.says("error", "r-2", reason="InvalidMessage")
    ada, *_ = await launch()
    assert (await answer(ada)).status_code == 202


@pytest.mark.integration
async def test_a_front_ends_own_user_of_redis_is_enough(launch, api, worker, redis_server):
    rules = redis_users.chat_rules(OURS, "team-a", OURS.session_records())
    await worker.redis.execute_command("ACL", "SETUSER", "c:team-a", "reset", "on", ">pw", *rules)
    try:
        put_chat(api, redis_server.url.replace("redis://", "redis://c%3Ateam-a:pw@"))
        put_session(api)
        await worker.asks()
        ada, *_ = await launch()
        assert (await answer(ada)).status_code == 202
        before = [rule.replace("+watch", "") for rule in rules]
        await worker.redis.execute_command(
            "ACL", "SETUSER", "c:team-a", "reset", "on", ">pw", *before
        )
        refused = await answer(ada)
        assert (refused.status_code, refused.json()["error"]["code"]) == (502, "no_chat")
        assert len(await worker.heard()) == 1
    finally:
        await worker.redis.execute_command("ACL", "DELUSER", "c:team-a")


@pytest.mark.integration
async def test_who_may_not_chat_does_not_answer(launch, api, worker):
    put_session(api)
    await worker.asks()
    ada, bob, eve = await launch()
    assert await names(ada) == ["alice"]
    refused = await answer(bob)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "reads_only")
    assert not [token for *_, token in api.bearers if BOB in token]

    async def refuse(verb, plural, body):
        if plural == "secrets":
            raise RefusedRequestError(403, "Forbidden", 'secrets "orbiter-chat" is forbidden')

    api.before = refuse
    refused = await answer(eve)
    assert refused.status_code == 403
    assert "is forbidden" in refused.text
    assert await worker.heard() == []
    api.remove("secrets", "team-a", "orbiter-chat")

    async def allow(verb, plural, body):
        return None

    api.before = allow
    assert (await answer(ada)).json()["error"]["code"] == "no_chat"


@pytest.mark.integration
async def test_whoever_may_not_look_at_a_session_does_not_answer_it(launch, api, reviews, worker):
    put_session(api)
    await worker.asks()
    ada, *_ = await launch()
    reviews.take("ada")
    reviews.give("ada", "get", "secrets", "team-a", "orbiter-chat")
    assert (await answer(ada)).status_code == 403
    for path in ("/v1/cluster/sessions/team-b/alice", "/v1/cluster/sessions/*/alice"):
        assert (await answer(ada, path=path)).status_code in (403, 404)
    assert await worker.heard() == []


@pytest.mark.integration
@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "Suspended"},
        {"phase": "Failed"},
        {"turns": None},
        {"pendingMessages": 2},
        {"inputStream": None},
        {"inputStream": Keys.of_namespace("team-b").po_input("alice")},
        {"inputStream": OURS.po_output("alice")},
    ],
)
async def test_a_session_that_would_not_answer_is_sent_nothing(launch, api, worker, changes):
    put_session(api, **changes)
    await worker.asks()
    ada, *_ = await launch()
    assert (await answer(ada)).status_code == 409
    assert [each["actions"] for each in (await waiting(ada))["items"] if each["actions"]] == []
    assert await worker.redis.keys("*:input") == []


@pytest.mark.integration
@pytest.mark.parametrize(
    "body",
    [
        {"id": "r-1"},
        {"id": "r-1", "text": ""},
        {"id": "", "text": "x"},
        {"id": "r-1", "text": "x" * 65_537},
        {"id": "r-1", "text": "x", "user_id": 8},
        {"id": "r-1", "text": "\ud800"},
    ],
)
async def test_a_malformed_answer_is_refused(launch, api, worker, body):
    put_session(api)
    await worker.asks()
    ada, *_ = await launch()
    refused = await ada.http.post(f"{SESSION}/answer", content=json.dumps(body))
    assert refused.status_code == 422
    assert await worker.heard() == []


@pytest.mark.integration
async def test_the_shared_token_sees_and_does_not_answer(
    start, api, worker, redis_server, tmp_path
):
    put_session(api)
    put_secret(api, redis_server.url)
    await worker.asks()
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*", transcripts=True)
    [only] = (await waiting(server))["items"]
    assert (only["name"], only["actions"]) == ("alice", [])
    assert (await answer(server)).json()["error"]["code"] == "reads_only"
    assert await worker.heard() == []


@pytest.mark.integration
async def test_a_workers_own_question_is_shown_answered_and_gone(
    launch, api, redis, redis_server, wrappers, fake_claude
):
    queues = Queues(redis)
    fake_claude.says('Two. <result>{"status": "input_required", "question": "Which?"}</result>')
    wrappers.start("team-a.alice", WORKER_TYPE="po", USER_ID="7")
    await queues.message("Mend one", worker="team-a.alice")
    [asked] = await queues.answers(1, worker="team-a.alice")
    stream = Keys().po_input("team-a.alice")
    put_session(api, inputStream=stream)
    ada, *_ = await launch()
    [shown] = (await waiting(ada))["items"]
    assert (shown["question"], shown["question_id"]) == ("Which?", asked.request_id)
    fake_claude.says("Done.")
    given = await answer(ada, "the first", asked.request_id)
    assert given.status_code == 202, given.text
    done = (await queues.answers(2, worker="team-a.alice"))[1]
    assert (done.text, done.request_id) == ("Done.", given.json()["request_id"])
    assert [turn.prompt for turn in fake_claude.turns] == ["Mend one", "the first"]
    put_session(api, inputStream=stream, turns=2)
    await eventually(lambda: comes_to(lambda: names(ada), []))
    assert (await answer(ada, "again", asked.request_id)).status_code == 409
