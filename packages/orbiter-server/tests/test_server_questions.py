"""What waits for a person in the cluster, and the answer to what a session asks."""

import asyncio
import base64
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from support.eventually import eventually
from support.fake_api import RefusedRequestError
from support.fake_reviews import API_AUDIENCE
from support.queues import Queues
from support.redis_server import RedisServer, redis_server

from orbiter.server._internal import session_questions
from orbiter.server._internal.session_questions import asked_at_the_end
from orbiter.server._internal.waiting import waiting_of
from orbiter_contracts import POWorkerInput, POWorkerOutput, decode, encode, redis_users
from orbiter_contracts.queues import Keys
from orbiter_contracts.transcript import InputRequestEvent, MessageEvent, VerdictEvent
from orbiter_contracts.transcript_reading import entry_data

from .test_server_cluster_actions import ADA, ASKED, BOB, EVE
from .test_server_transcripts import AT, put_secret, put_task

__all__ = ["redis_server"]
QUESTIONS = "/v1/cluster/questions"
OURS = Keys.of_namespace("team-a")
SESSION = "/v1/cluster/sessions/team-a/alice"


def put_session(api, name="alice", *, namespace="team-a", mode="Running", **status):
    keys = Keys.of_namespace(namespace)
    told = {
        "phase": "Asleep", "turns": 1, "lastActivityTime": "2026-01-01T00:00:00Z",
        "inputStream": keys.po_input(name), "outputStream": keys.po_output(name), **status,
    }  # fmt: skip
    spec = {"userId": 7, "agent": {"type": "claude"}, "operatingMode": mode}
    meta = {"name": name, "namespace": namespace}
    api.put("posessions", {"metadata": meta, "spec": spec, "status": told})


def put_chat(api, url, namespace="team-a"):
    data = {"chat-url": base64.b64encode(url.encode()).decode()}
    meta = {"name": "orbiter-chat", "namespace": namespace}
    api.put("secrets", {"metadata": meta, "data": data})


class Worker:
    """A session's worker, as far as its streams tell of it."""

    def __init__(self, redis):
        self.redis = redis
        self.sequence = 0

    async def asks(self, text="Which?", request="r-1", *, name="alice", keys=OURS, at=AT):
        asked = [self.event(InputRequestEvent, request, at, question=text)]
        await self.notes([*asked, self.event(VerdictEvent, request, at, status="input_required")],
                         name, keys)  # fmt: skip
        await self.says("input_required", request, text, name=name, keys=keys)

    async def notes(self, events, name="alice", keys=OURS):
        await self.redis.xadd(keys.po_transcript(name), {"data": entry_data(events)})

    async def says(self, status, request="r-1", text="", *, name="alice", keys=OURS, **more):
        output = POWorkerOutput(request_id=request, user_id=7, text=text, status=status, **more)
        await self.redis.xadd(keys.po_output(name), encode(output))

    async def heard(self, name="alice"):
        return [decode(POWorkerInput, f) for _, f in await self.redis.xrange(OURS.po_input(name))]

    def event(self, kind, request, at=AT, **fields):
        self.sequence += 1
        return kind(sequence=self.sequence, at=at, attempt=0, request_id=request, **fields)


@pytest.fixture
async def worker(redis_server: RedisServer):
    redis = Redis.from_url(redis_server.url)
    await redis.flushall()
    yield Worker(redis)
    await redis.aclose()


@pytest.fixture
async def launch(start, api, reviews, redis_server, tmp_path):
    """Ada may do everything, bob's token is for the page alone, and eve only looks."""
    both = ("orbiter-server", API_AUDIENCE)
    reviews.token(ADA, "ada", audience=both)
    reviews.token(BOB, "bob")
    reviews.token(EVE, "eve", audience=both)
    for user in ("ada", "bob", "eve"):
        for verb in ("get", "list"):
            reviews.give(user, verb, "agenttasks", "team-a")
            reviews.give(user, verb, "posessions", "team-a")
        reviews.give(user, "get", "posessions/transcript", "team-a")
    reviews.give("ada", "patch", "agenttasks", "team-a")
    reviews.give("ada", "get", "secrets", "team-a", "orbiter-chat")
    put_secret(api, redis_server.url)
    put_chat(api, redis_server.url)

    async def begin(**config):
        server = await start(
            auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path), namespace="*",
            **{"transcripts": True, **config},
        )  # fmt: skip
        return [server.signed_in(token) for token in (ADA, BOB, EVE)]

    return begin


async def waiting(server, query=""):
    answer = await server.http.get(f"{QUESTIONS}{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def names(server, query=""):
    return [each["name"] for each in (await waiting(server, query))["items"]]


async def answer(server, text="blue", request="r-1", path=SESSION):
    return await server.http.post(f"{path}/answer", json={"id": request, "text": text})


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
    await eventually(lambda: _is(asked, []))
    await worker.asks("Three?", "r-2")
    put_session(api, turns=2)
    await eventually(lambda: _is(asked, ["Three?"]))


async def _is(asked, wanted):
    return await asked() == wanted


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
        ["userId", "input", "managedBy", "phase", "turns", "inputRequest", "inputStream", "agent"]
    ),
    JSON | st.just("InputRequired") | st.just({"id": "q", "calls": [1, {}]}),
)


@given(PARTS | JSON, PARTS | JSON)
def test_whatever_an_object_holds_it_ends_no_watch(spec, status):
    meta = {"name": "one", "namespace": "team-a"}
    waits = waiting_of({"metadata": meta, "spec": spec, "status": status})
    assert waits is None or waits.answerable in (True, False)


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
    await eventually(lambda: _is(lambda: names(ada), []))
    assert (await answer(ada, "again", asked.request_id)).status_code == 409
