"""The URL in a Secret of a namespace may be a tenant's, and so may what answers there."""

import asyncio
import contextlib
import logging
import os
import socket
import threading

import pytest
from redis.exceptions import RedisError
from support.eventually import eventually
from support.redis_server import redis_server

from orbiter.server._internal import session_answers, transcripts
from orbiter.server._internal.cluster_detail import TEXT_CHARS
from orbiter.server._internal.lookups import Lookups
from orbiter.server._internal.redis_access import Access, connected
from orbiter.server._internal.session_questions import SessionQuestions, asked_at_the_end
from orbiter.server._internal.transcripts import Place
from orbiter.server._internal.waiting import MayAsk
from orbiter_contracts.transcript import InputRequestEvent, VerdictEvent
from orbiter_contracts.transcript_reading import entry_data

from .test_server_questions import answer, launch, put_chat, put_session, waiting, worker
from .test_server_transcripts import AT, put_secret

__all__ = ["launch", "redis_server", "worker"]
pytestmark = pytest.mark.integration
MOST_BYTES = {False: 12 * 1024 * 1024, True: 24 * 1024 * 1024}
"""What may be sent until a reply is given up, with what lies in sockets; and of outputs."""
TEXT = b"$100000\r\n" + b"x" * 100_000 + b"\r\n"
LONG = b"$4000000\r\n" + b"x" * 4_000_000 + b"\r\n"
LINE = b"+" + b"x" * 60_000 + b"\r\n"


class SilentPipe:
    """A pipe of this process, as that of its own log is one; nobody writes to it."""

    def __init__(self):
        self.reading, self._writing = os.pipe()
        self.path = f"/proc/self/fd/{self.reading}"
        # who reads it is let go in the end, so that the test can fail
        self._rescue = threading.Timer(5, self._end)
        self.rescued = False

    def __enter__(self):
        self._rescue.start()
        return self

    def __exit__(self, *_):
        self._rescue.cancel()
        self._rescue.join()
        os.close(self.reading)
        if not self.rescued:
            os.close(self._writing)

    def _end(self):
        self.rescued = True
        os.close(self._writing)


@contextlib.asynccontextmanager
async def tenants_redis(reply, most=None):
    """A listener; `reply(words)` is told what was asked and yields what it says.

    `most` is told how many connections there are.
    """

    async def serve(reader, writer):
        serving.append(asyncio.current_task())
        opened.add(writer)
        if most is not None:
            most.append(len(opened))
        try:
            while words := await reader.read(10_000):
                for part in reply(words):
                    writer.write(part)
                    await writer.drain()
        except OSError:
            pass  # it was hung up
        finally:
            opened.discard(writer)
            writer.transport.abort()

    serving, opened = [], set()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        yield listener.sockets[0].getsockname()[1]
        await asyncio.gather(*serving)


@pytest.mark.parametrize("scheme", ["rediss", "rediss+sentinel"])
@pytest.mark.parametrize("option", ["ssl_ca_certs", "ssl_certfile"])
async def test_a_file_that_a_tenants_url_names_holds_nobody_up(
    launch, api, worker, caplog, scheme, option
):
    caplog.set_level(logging.CRITICAL, "orbiter.server")
    put_session(api)
    ada, *_ = await launch()
    await waiting(ada)
    put_session(api, turns=2)

    async def left_out():
        return (await waiting(ada))["left_out"] == ["team-a"]

    with SilentPipe() as pipe:
        url = f"{scheme}://127.0.0.1:1/x/0" if "+" in scheme else f"{scheme}://127.0.0.1:1/0"
        for put in (put_secret, put_chat):
            put(api, f"{url}?{option}={pipe.path}")
        await eventually(left_out)
        said = await answer(ada)
    assert not pipe.rescued
    assert (said.status_code, said.json()["error"]["code"]) == (502, "no_chat")
    assert option in said.text


@pytest.mark.parametrize(
    "options", ["connection_class=x", "foo=1", "retry=x", "path=/x", "socket_timeout=x"]
)
async def test_an_option_that_is_none_is_that_namespaces_affair(
    launch, api, worker, caplog, options
):
    caplog.set_level(logging.CRITICAL, "orbiter.server")
    put_session(api)
    ada, *_ = await launch()
    put_chat(api, f"redis://127.0.0.1:1/0?{options}")
    said = await answer(ada)
    assert (said.status_code, said.json()["error"]["code"]) == (502, "no_chat")


async def test_what_a_tenants_redis_says_is_a_short_line_in_the_log(caplog):
    """Whoever reads the server's log does so in a terminal."""
    refusal = b"-ERR \x1b]0;yours\x07\xe2\x80\xae" + b"x" * 50_000 + b"\r\n"

    async def readers(namespace):
        return access

    async with tenants_redis(lambda _: [refusal]) as port:
        access = Access(f"redis://t:x@127.0.0.1:{port}/0", None, "team-a")
        place = Place("team-a", "{team-a}:worker:po:team-a.a:transcript")
        feed = transcripts._Feed(place, access, readers)
        await eventually(lambda: caplog.records)
        await feed.close()
        asks = MayAsk(place, None, "a", "claude", "1", answerable=True)
        assert await SessionQuestions(readers).of([asks]) == ({}, ["team-a"])
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    for line in lines:
        assert line.isprintable()
        assert line.isascii()
        assert len(line) < 400


@pytest.mark.parametrize("outputs", [False, True])
@pytest.mark.parametrize(
    ("url", "head", "part"),
    [
        ("redis://{}/0", b"*4096\r\n", TEXT),
        ("redis://{}/0", b"*4096\r\n" * 2, b"*2\r\n" + TEXT * 2),
        ("redis://{}/0", b"*4096\r\n" * 4, b"*1\r\n" + TEXT),
        ("redis://{}/0", b"*1\r\n" * 4 + b"*900000000\r\n", LINE),
        ("redis://{}/0", b"*4096\r\n*4096\r\n", LINE),
        ("redis://{}/0", b"*4096\r\n", LONG),
        ("redis+sentinel://{}/x/0", b"$900000000\r\n", TEXT),
        ("redis+sentinel://{}/x/0", b"*900000000\r\n", LINE),
    ],
)
async def test_a_reply_without_an_end_is_given_up(url, head, part, outputs):
    sent = 0

    def reply(_):
        nonlocal sent
        yield head
        while True:
            sent += len(part)
            yield part

    async with tenants_redis(reply) as port:
        access = Access(url.format(f"127.0.0.1:{port}"))
        with pytest.raises((RedisError, OSError)):
            async with asyncio.timeout(5), connected(access, 1.0, outputs=outputs):
                pass
    assert sent < MOST_BYTES[outputs]


async def test_a_namespace_has_few_answers_on_their_way_at_a_time(
    launch, api, worker, monkeypatch, caplog
):
    caplog.set_level(logging.CRITICAL, "orbiter.server")
    monkeypatch.setattr(session_answers, "SEND_SECONDS", 1.0)
    put_session(api)
    ada, *_ = await launch()
    counts = []
    async with tenants_redis(lambda _: (), counts) as port:
        put_chat(api, f"redis://127.0.0.1:{port}/0")
        said = await asyncio.gather(*(answer(ada) for _ in range(12)))
    assert {each.status_code for each in said} == {502}
    assert 0 < max(counts) <= 5  # one that was given up may still be closing


@pytest.mark.parametrize(
    "reply", [b"*0\r\n", b"*1\r\n:1\r\n", b"*2\r\n+x\r\n+y\r\n", b":1\r\n", b"*1\r\n" * 5000]
)
async def test_a_sentinel_that_names_no_address_names_none(reply):
    async with tenants_redis(lambda _: [reply]) as port:
        with pytest.raises(RedisError, match="no Sentinel"):
            async with connected(Access(f"redis+sentinel://127.0.0.1:{port}/x/0"), 1.0):
                pass


@pytest.mark.parametrize(
    "reply",
    [
        b":5\r\n",
        b"+text\r\n",
        b"*1\r\n:5\r\n",
        b"*1\r\n*2\r\n$1\r\nx\r\n:5\r\n",
        b"*1\r\n*2\r\n$1\r\nx\r\n*2\r\n*0\r\n*0\r\n",
    ],
)
async def test_an_answer_to_what_is_no_redis_says_so(launch, api, worker, caplog, reply):
    caplog.set_level(logging.CRITICAL, "orbiter.server")
    put_session(api)
    ada, *_ = await launch()

    def replies(words):
        asked = b"XREVRANGE" in words
        yield reply if asked else b":0\r\n" if b"XLEN" in words else b"+OK\r\n"

    async with tenants_redis(replies) as port:
        put_chat(api, f"redis://127.0.0.1:{port}/0")
        said = await answer(ada)
    assert (said.status_code, said.json()["error"]["code"]) == (502, "no_chat")


@pytest.mark.parametrize("way", ["host", "sentinel", "primary"])
async def test_a_name_that_nobody_looks_up_in_time_keeps_no_thread_from_others(
    launch, api, worker, monkeypatch, caplog, way
):
    """The tenant's own name server says nothing; a lookup that is given up keeps its thread."""
    caplog.set_level(logging.CRITICAL, "orbiter.server")
    monkeypatch.setattr(session_answers, "SEND_SECONDS", 0.5)
    put_session(api)
    ada, *_ = await launch()
    await waiting(ada)
    release, plain, begun = threading.Event(), socket.getaddrinfo, 0

    def slow(host, *rest, **more):
        nonlocal begun
        if str(host).startswith("slow"):
            begun += 1
            release.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return plain(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    named = b"*2\r\n$9\r\nslow.test\r\n$4\r\n6379\r\n"
    async with tenants_redis(lambda _: [named]) as port:
        urls = {"host": "redis://slow.test:1/0", "sentinel": "redis+sentinel://slow.test:1/x/0",
                "primary": f"redis+sentinel://127.0.0.1:{port}/x/0"}  # fmt: skip
        put_chat(api, urls[way])
        try:
            for _ in range(4):
                said = await asyncio.gather(*(answer(ada) for _ in range(4)))
                assert {each.status_code for each in said} == {502}
            async with asyncio.timeout(5):
                await asyncio.gather(*(asyncio.to_thread(int) for _ in range(4)))
            assert begun == 1
        finally:
            release.set()


def test_of_a_question_no_more_is_kept_than_is_shown():
    """Five thousand sessions ask, each in as many odd characters as an entry takes."""
    common = {"sequence": 0, "at": AT, "attempt": 0, "request_id": "r-1"}
    asked = InputRequestEvent(**common, question="\U0001f600x" * 8000)
    over = VerdictEvent(**{**common, "sequence": 1}, status="input_required")
    kept = asked_at_the_end([[b"1-0", [b"data", entry_data([asked, over]).encode()]]])
    assert kept.question == asked.question[:TEXT_CHARS]


async def test_a_namespace_looks_up_two_names_at_a_time_and_others_look_up_theirs(monkeypatch):
    release = threading.Event()

    def slow(host, *rest, **more):
        if host != "quick.test":
            release.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    lookups = Lookups()
    asked = [asyncio.create_task(lookups.known("team-b", name, 1)) for name in "aab"]
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="try again later"):
        await lookups.known("team-b", "c", 1)
    await lookups.known("team-a", "quick.test", 1)
    asked[0].cancel()
    release.set()
    assert [type(each) for each in await asyncio.gather(*asked, return_exceptions=True)] == [
        asyncio.CancelledError, type(None), type(None),
    ]  # fmt: skip
    await lookups.known("team-b", "c", 1)


@pytest.mark.parametrize("host", ["a" * 70, "\udc80", "a..b"])
async def test_a_name_that_can_be_nobodys_has_no_address(host):
    with pytest.raises(OSError, match="this is no name"):
        await Lookups().known("team-b", host, 1)
