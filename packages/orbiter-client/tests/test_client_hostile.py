"""What an API server, a Redis, a Secret or a name says that is none: one reason, and in time."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from orbiter.client import ClientError, NewTask, TaskClient, TaskQuery, connect
from orbiter.client import _records as records
from orbiter.client.objects import Object

from .conftest import put_task

pytestmark = pytest.mark.integration
TEAM = "team-a"
ITEM = '{"metadata": {"name": "fix", "namespace": "team-a", "uid": "6e1f"}, "spec": {}}'


async def refusal(doing):
    with pytest.raises(ClientError) as caught:
        await doing
    return caught.value


@asynccontextmanager
async def answering(text: str, status: int = 200) -> AsyncIterator[TaskClient]:
    """A client of an API server that answers everything so."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=text, status=status, content_type="application/json")

    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with connect(url=url, token="x") as client:
            yield client
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        "null",
        '"x"',
        "7",
        "{}",
        '{"metadata": []}',
        '{"metadata": {"name": 7}}',
        "\x00",
        "[",
        '{"items": {}}',
        '{"metadata": {"name": "fix"}, "spec": 3}',
    ],
)
async def test_an_answer_that_is_no_task_has_one_reason(answer):
    async with answering(answer) as client:
        for doing in (
            client.get(TEAM, "fix"),
            client.cancel(TEAM, "fix"),
            client.retry(TEAM, "fix"),
            client.artifacts(TEAM, "fix"),
            client.transcript(TEAM, "fix"),
            client.submit(NewTask(prompt="x", agent="codex"), namespace=TEAM),
            client.list(TaskQuery(namespace=TEAM)),
        ):
            assert (await refusal(doing)).code == "unreachable"


async def test_one_item_that_is_none_is_left_out_of_a_list():
    async with answering(f'{{"items": [7, {ITEM}, {{"metadata": 3}}], "metadata": 3}}') as client:
        page = await client.list(TaskQuery(namespace=TEAM))
    assert ([each.name for each in page.items], page.next) == (["fix"], "")


@pytest.mark.parametrize("words", ["[" * 100_000, '{"message": {}}'])
async def test_a_refusal_in_any_words_is_one(words):
    async with answering(words, 500) as client:
        assert (await refusal(client.get(TEAM, "fix"))).code == "unreachable"


@pytest.mark.parametrize(
    "name", ["..", "../secrets", "a/b", "%2e%2e", "a\n", "A", "", "é", "x" * 300]
)
async def test_a_name_that_is_none_is_asked_nobody(api, tasks, name):
    for doing in (
        tasks.get(TEAM, name),
        tasks.get(name, "fix"),
        tasks.cancel(TEAM, name),
        tasks.submit(NewTask(prompt="x", agent="codex"), namespace=name),
        anext(tasks.watch(TEAM, name)),
    ):
        assert (await refusal(doing)).code == "invalid"
    assert not api.bearers


class FakeRedis:
    """A Redis that gives the same answer to everything."""

    def __init__(self, reply: object) -> None:
        self.reply, self.asked = reply, 0

    @asynccontextmanager
    async def open(self, namespace, users):
        async def ask(*words):
            self.asked += 1
            return self.reply

        yield ask


async def test_a_transcript_of_entries_that_are_none_ends(api, monkeypatch):
    monkeypatch.setattr(records, "MOST_EVENTS", 20)
    redis = FakeRedis([(b"1-0", [b"data", b"?"])] * 4)

    class Tasks:
        async def get(self, namespace: str, name: str) -> Object:
            meta = {"name": name, "namespace": namespace, "uid": "6e1f"}
            return {"metadata": meta, "spec": {}, "status": {"attempts": 1}}

    async with asyncio.timeout(90):
        assert await TaskClient(Tasks(), redis).transcript(TEAM, "fix") == []
    assert redis.asked <= 20


@asynccontextmanager
async def saying(reply: bytes) -> AsyncIterator[str]:
    """A server at which each line is answered so; its URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line.startswith(b"*"):
                writer.write(reply)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"


def put_secret(api, url):
    data = {"transcript-url": base64.b64encode(url.encode()).decode()}
    meta = {"name": "orbiter-transcript", "namespace": TEAM}
    api.put("secrets", {"metadata": meta, "data": data})


@pytest.mark.parametrize(
    "reply",
    [b":1\r\n", b"+OK\r\n", b"*1\r\n:1\r\n", b"*1\r\n*2\r\n:1\r\n:2\r\n", b"HTTP/1.1 400\r\n"],
)
async def test_a_redis_that_is_none_is_said(api, tasks, reply):
    put_task(api, phase="Completed", attempts=1)
    async with saying(reply) as url:
        put_secret(api, url)
        assert (await refusal(tasks.transcript(TEAM, "fix"))).code == "unreachable"


@pytest.mark.parametrize(
    "url",
    [
        "unix:///var/run/a.sock",
        "UNIX:///a",
        "rediss://127.0.0.1:1/0?ssl_certfile=/a/pipe",
        "rediss://127.0.0.1:1/0?ssl_ca_certs=/a/pipe",
        "redis://127.0.0.1:1/0?parser_class=x",
    ],
)
async def test_a_secret_leads_to_no_file_and_no_socket_of_this_machine(api, tasks, url):
    put_task(api, phase="Completed", attempts=1)
    put_secret(api, url)
    error = await refusal(tasks.transcript(TEAM, "fix"))
    assert (error.code, "the Secret orbiter-transcript" in str(error)) == ("unreachable", True)
