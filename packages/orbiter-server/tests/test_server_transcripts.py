"""What agents of the cluster say and do, told to those who may read it."""

import asyncio
import base64
import contextlib
import tracemalloc
from contextlib import aclosing
from datetime import UTC, datetime

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.redis_server import RedisServer, redis_server

from orbiter.server._internal import batches, cluster_detail, transcripts
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.redis_access import Access
from orbiter_contracts.queues import Keys
from orbiter_contracts.transcript import TextEvent, VerdictEvent
from orbiter_contracts.transcript_reading import entry_data
from orbiter_contracts.transcript_scripts import END_FIELD, NEXT_FIELD

__all__ = ["redis_server"]
pytestmark = pytest.mark.integration
AT = datetime(2026, 1, 1, tzinfo=UTC)
UID = "5e55104e-0000-4000-8000-000000000000"
PATH = "/v1/cluster/tasks/team-a/fix/transcript"
ADA, BOB = "ada.token", "bob.token"


def stream(attempt=1, namespace="team-a"):
    return Keys.of_namespace(namespace).task_transcript(UID, attempt)


def put_task(api, *, phase="Running", attempts=1, namespace="team-a", **status):
    api.put(
        "agenttasks",
        {
            "metadata": {"name": "fix", "namespace": namespace, "uid": UID},
            "spec": {"prompt": "Fix it", "agent": {"type": "claude", "model": "opus"}},
            "status": {
                "phase": phase, "attempts": attempts,
                "inputStream": f"{{{namespace}}}:worker:developer:input", **status,
            },
        },
    )  # fmt: skip


def put_secret(api, url, namespace="team-a"):
    data = {"transcript-url": base64.b64encode(url.encode()).decode()}
    api.put(
        "secrets",
        {"metadata": {"name": "orbiter-transcript", "namespace": namespace}, "data": data},
    )


class Writer:
    """A worker that writes a transcript."""

    def __init__(self, redis):
        self.redis = redis
        self.sequence = self.bytes = 0

    async def say(self, *texts, key=None, verdict=False):
        events = [self.event(TextEvent, text=text) for text in texts]
        if verdict:
            events.append(self.event(VerdictEvent, status="success"))
        data = entry_data(events)
        self.bytes += len(data)
        fields = {"data": data, END_FIELD: self.bytes, NEXT_FIELD: self.sequence}
        await self.redis.xadd(key or stream(), fields)

    def event(self, kind, **fields):
        self.sequence += 1
        return kind(sequence=self.sequence - 1, at=AT, attempt=1, **fields)


async def test_what_is_kept_for_viewers_is_counted_as_it_lies_in_memory():
    """One character beyond U+FFFF makes four bytes of each in a text, and a text of 60 has 109."""

    async def nowhere(namespace):
        raise RequestError(502, "no Redis")

    for words in ("\U0001f600" + "a" * 7000, ""):
        feed = transcripts._Feed(("team-a", stream()), Access("redis://127.0.0.1:1"), nowhere)
        tracemalloc.start()
        for number in range(30_000 if not words else 1000):
            feed._keep(TextEvent(sequence=number, at=AT, attempt=1, text=words))
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await feed.close()
        assert transcripts.MOST_BYTES / 2 < held < 1.5 * transcripts.MOST_BYTES


async def test_what_a_viewer_is_given_at_a_time_has_a_bound_and_all_of_it_comes():
    async def nowhere(namespace):
        raise RequestError(502, "no Redis")

    feed = transcripts._Feed(("team-a", stream()), Access("redis://127.0.0.1:1"), nowhere)
    for number in range(300):
        feed._keep(TextEvent(sequence=number, at=AT, attempt=1, text="x" * 1000))
    seen = [0]
    while batch := feed.behind(seen[-1]):
        assert sum(len(text) for _, text in batch) < 2 * batches.MOST_AT_ONCE
        seen += [seq for seq, _ in batch]
    assert seen == [*range(301)]
    await feed.close()


@pytest.fixture
async def writer(redis_server: RedisServer):
    redis = Redis.from_url(redis_server.url)
    await redis.flushall()
    yield Writer(redis)
    await redis.aclose()


@pytest.fixture
async def launch(start, api, reviews, redis_server, tmp_path):
    put_task(api)
    put_secret(api, redis_server.url)
    for token, user in ((ADA, "ada"), (BOB, "bob")):
        reviews.token(token, user)
        reviews.give(user, "get", "agenttasks", "team-a")
    reviews.give("ada", "get", "agenttasks/transcript", "team-a")

    async def begin(**config):
        server = await start(
            auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path), namespace="*",
            **{"transcripts": True, **config},
        )  # fmt: skip
        return server.signed_in(ADA), server.signed_in(BOB)

    return begin


async def test_a_verdict_behind_which_the_attempt_went_on_is_not_the_end(launch, writer):
    for text in ("one", "two", "three"):
        await writer.say(text)
    await writer.say(verdict=True)
    await writer.say("four", verdict=True)
    ada, _ = await launch()
    told = [event.get("text") async for event in ada.events(PATH)]
    assert told == ["one", "two", "three", "", "four", ""]


def following(server):
    """Follow in the background; what was told so far is in the list."""
    found = []

    async def read():
        async for event in server.events(PATH):
            found.append(event)  # noqa: PERF401 - seen one by one

    return found, asyncio.create_task(read())


async def taken(server, count, path=PATH, **options):
    found = []
    async with aclosing(server.events(path, **options)) as events:
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


def texts(events):
    return [event.get("text", event["type"]) for event in events]


async def test_what_is_there_and_what_comes_is_told_once_and_in_order(launch, writer):
    await writer.say("one", "two")
    ada, _ = await launch()
    found, reading = following(ada)
    await eventually(lambda: len(found) == 2)
    await writer.say("three")
    await eventually(lambda: len(found) == 3)
    await writer.say("four", verdict=True)
    await reading  # a task's verdict is the last
    assert texts(found) == ["one", "two", "three", "four", ""]
    assert [event["seq"] for event in found] == [1, 2, 3, 4, 5]
    assert found[0]["at"].startswith("2026-01-01")


async def test_who_comes_back_goes_on_behind_the_last_event_seen(launch, writer):
    await writer.say("one", "two", "three", verdict=True)
    ada, _ = await launch()
    assert texts(await taken(ada, 9, last=2)) == ["three", ""]
    assert texts(await taken(ada, 9, f"{PATH}?after=3")) == [""]
    assert await taken(ada, 9, last=4) == []


async def test_a_task_that_has_ended_without_a_verdict_ends_its_stream(launch, writer, api):
    await writer.say("one")
    ada, _ = await launch(heartbeat_seconds=0.2)
    reading = asyncio.create_task(taken(ada, 9))
    await asyncio.wait([reading], timeout=0.5)
    assert not reading.done()
    put_task(api, phase="Failed")
    assert texts(await reading) == ["one"]


async def test_an_attempt_that_another_one_follows_has_ended(launch, writer, api):
    await writer.say("first")
    await writer.redis.xadd(stream(2), await _entry("second"))
    put_task(api, attempts=2)
    ada, _ = await launch(heartbeat_seconds=0.2)
    assert texts(await taken(ada, 9, f"{PATH}?attempt=1")) == ["first"]
    assert texts(await taken(ada, 1)) == ["second"]


async def _entry(text):
    event = TextEvent(sequence=0, at=AT, attempt=2, text=text)
    return {"data": entry_data([event]), END_FIELD: 10, NEXT_FIELD: 1}


async def test_reading_needs_a_right_of_its_own(launch, writer):
    await writer.say("secret words")
    _, bob = await launch()
    answer = await bob.http.get(PATH)
    assert answer.status_code == 403
    assert "bob may not get agenttasks/transcript.orbiter.dev fix" in answer.text
    assert (await bob.http.get(PATH.removesuffix("/transcript"))).status_code == 200
    assert "secret words" not in answer.text


async def test_a_right_that_is_taken_away_ends_the_stream(launch, writer, reviews, monkeypatch):
    from orbiter.server._internal import reviews as module

    monkeypatch.setattr(module, "YES_SECONDS", 0.2)
    await writer.say("one")
    ada, _ = await launch()
    reading = asyncio.create_task(taken(ada, 9))
    await asyncio.wait([reading], timeout=0.5)
    assert not reading.done()
    reviews.take("ada")
    assert texts(await reading) == ["one"]
    assert (await ada.http.get(PATH)).status_code == 403


@pytest.mark.parametrize(
    "path", ["team-a/..%2Fteam-b", "*/fix", "%00/x", "Team-a/fix", "team-a/" + "x" * 300]
)
async def test_a_forged_path_leads_nowhere(launch, path):
    ada, _ = await launch()
    assert (await ada.http.get(f"/v1/cluster/tasks/{path}/transcript")).status_code == 404


@pytest.mark.parametrize("attempt", ["0", "-1", "1e3", "99999999999", "x"])
async def test_what_is_no_attempt_is_refused(launch, attempt):
    ada, _ = await launch()
    assert (await ada.http.get(PATH, params={"attempt": attempt})).status_code == 422


async def test_without_the_setting_there_are_none(launch):
    ada, _ = await launch(transcripts=False)
    answer = await ada.http.get(PATH)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_transcripts")


async def test_a_namespace_without_readers_says_so(launch, api):
    api.remove("secrets", "team-a", "orbiter-transcript")
    ada, _ = await launch()
    answer = await ada.http.get(PATH)
    assert answer.status_code == 404
    assert "has no Secret orbiter-transcript" in answer.text


async def test_a_task_whose_status_names_another_namespaces_stream_has_none(launch, api):
    put_task(api, inputStream="{team-b}:worker:developer:input")
    ada, _ = await launch()
    assert (await ada.http.get(PATH)).status_code == 404


async def test_one_reader_serves_all_viewers_and_ends_with_the_last(launch, writer):
    await writer.say("one")
    ada, _ = await launch()

    async def readers():
        found = await writer.redis.client_list()
        return sum(client["cmd"].startswith("xread") for client in found)

    streams = [asyncio.create_task(taken(ada, 2)) for _ in range(6)]
    await eventually(lambda: _is(readers, 1))
    await writer.say("two")
    assert [texts(found) for found in await asyncio.gather(*streams)] == [["one", "two"]] * 6
    await eventually(lambda: _is(readers, 0))


async def _is(count, wanted):
    return await count() == wanted


async def test_a_redis_that_was_away_costs_no_event(launch, writer, redis_server):
    await writer.say("one")
    ada, _ = await launch()
    found, reading = following(ada)
    await eventually(lambda: len(found) == 1)
    await writer.redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await writer.say("two", verdict=True)
    await reading
    assert texts(found) == ["one", "two", ""]


async def test_what_is_kept_no_longer_is_a_cut(launch, writer, monkeypatch):
    monkeypatch.setattr(transcripts, "MOST_BYTES", 2000)
    ada, _ = await launch()
    reading = asyncio.create_task(taken(ada, 1))
    await eventually(lambda: ada.app is not None)
    for number in range(40):
        await writer.say(f"{number} " + "x" * 80)
    await reading
    await writer.say("end", verdict=True)
    keeping = asyncio.create_task(taken(ada, 99, last=39))
    late = await taken(ada, 99)
    await keeping
    assert late[0]["type"] in ("cut", "text")
    sequences = [event["seq"] for event in late]
    assert sequences == sorted(set(sequences))
    missing = sum(event.get("events", 0) for event in late)
    assert missing + len([event for event in late if event["type"] != "cut"]) == 42


async def test_whatever_stands_in_the_stream_the_rest_is_told(launch, writer):
    """Whoever runs as a worker may write any bytes there."""
    await writer.say("one")
    for fields in (
        {"data": "x" * 8_000_000}, {"data": b"\xff\xfe"}, {"data": "[" * 5000}, {b"\xff": b"\x00"},
        {f"f{n}": "v" for n in range(5000)}, {"data": "[]", END_FIELD: "9" * 5000},
    ):  # fmt: skip
        await writer.redis.xadd(stream(), fields)
    await writer.say("two", verdict=True)
    ada, _ = await launch()
    assert texts(await taken(ada, 9)) == ["one", "two", ""]


async def test_a_key_of_another_type_ends_no_server(launch, writer):
    await writer.redis.set(stream(), "a string")
    ada, _ = await launch(heartbeat_seconds=0.1)
    reading = asyncio.create_task(taken(ada, 2))
    await asyncio.wait([reading], timeout=0.5)
    await writer.redis.delete(stream())
    await writer.say("one", verdict=True)
    assert texts(await reading) == ["one", ""]


@pytest.mark.parametrize(
    "answer",
    [
        b"$900000000\r\n" + b"x" * 100_000,
        b"*900000000\r\n" + b":1\r\n" * 10_000,
        b"*1\r\n" * 50_000,
        b"+" + b"x" * 200_000,
        b"\xff\x00garbage\r\n",
        b"*1\r\n*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*-1\r\n",
        b"",
    ],
)
async def test_a_redis_of_a_tenants_own_costs_the_server_nothing(launch, api, answer):
    """Whoever may write Secrets in a namespace says where its transcripts are."""
    asked = 0

    async def reply(reader, writer):
        nonlocal asked
        asked += 1
        with contextlib.suppress(OSError):
            while await reader.read(1000):
                writer.write(answer)
                await writer.drain()
                if not answer:
                    break
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as tenants:
        port = tenants.sockets[0].getsockname()[1]
        put_secret(api, f"redis://t:x@127.0.0.1:{port}/0")
        ada, _ = await launch(heartbeat_seconds=0.1)
        reading = asyncio.create_task(taken(ada, 1))
        await eventually(lambda: asked >= 2)
        put_task(api, phase="Failed")
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert (await ada.http.get("/readyz")).status_code == 200


@pytest.mark.parametrize(
    "url", ["", "unix:///var/run/x.sock", "http://h", "redis://h:1/0?protocol=3&parser_class=x",
            "redis+cluster://h:1", "redis://h:99999999/0", "\ud800"],
)  # fmt: skip
async def test_a_url_of_a_tenants_own_is_refused_or_leads_nowhere(launch, api, url):
    data = base64.b64encode(url.encode("utf-8", "surrogatepass")).decode()
    meta = {"name": "orbiter-transcript", "namespace": "team-a"}
    api.put("secrets", {"metadata": meta, "data": {"transcript-url": data}})
    ada, _ = await launch(heartbeat_seconds=0.1)
    reading = asyncio.create_task(taken(ada, 1))
    await asyncio.wait([reading], timeout=0.5)
    if reading.done():
        assert "502" in str(reading.exception())
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert (await ada.http.get("/readyz")).status_code == 200


async def test_new_passwords_are_asked_for(launch, writer, api, redis_server):
    await writer.redis.execute_command("ACL", "SETUSER", "reader", "on", ">new", "~*", "+@all")
    host = redis_server.url.partition("://")[2]
    put_secret(api, f"redis://reader:old@{host}")
    await writer.say("one", verdict=True)
    ada, _ = await launch(heartbeat_seconds=0.1)
    reading = asyncio.create_task(taken(ada, 9))
    await asyncio.wait([reading], timeout=0.5)
    put_secret(api, f"redis://reader:new@{host}")
    assert texts(await reading) == ["one", ""]


@pytest.mark.parametrize(
    "status",
    [
        {"attempts": True}, {"attempts": -1}, {"attempts": "3"}, {"usage": []}, {"result": "x"},
{"startTime": 5}, {"startTime": "never"},
        {"result": {"prURL": "javascript:alert(1)"}}, {"inputRequest": [1]},
    ],
)  # fmt: skip
async def test_whatever_a_status_holds_is_told_or_left_out(launch, api, status):
    put_task(api)
    known = api.get("agenttasks", "team-a", "fix")
    known["status"] |= status
    ada, _ = await launch()
    answer = await ada.http.get(PATH.removesuffix("/transcript"))
    assert answer.status_code == 200, answer.text
    assert answer.json()["pull_request"] == ""
    assert "Infinity" not in answer.text


def test_an_attempt_of_a_session_is_none():
    item = {"metadata": {"namespace": "a"}, "spec": {"userId": 1}, "status": {}}
    assert cluster_detail.transcript_of(item, 0) is None
    item["status"]["inputStream"] = "{a}:worker:po:a.alice:input"
    place = cluster_detail.transcript_of(item, 0)
    assert place == ("a", "{a}:worker:po:a.alice:transcript")
    item["status"]["inputStream"] = "{b}:worker:po:b.alice:input"
    assert cluster_detail.transcript_of(item, 0) is None
