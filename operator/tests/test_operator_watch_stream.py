"""Watches are read much at once, lose nothing by it, and notice a connection that has died."""

import asyncio
import ssl
import subprocess
import sys
from fcntl import ioctl
from termios import FIONREAD
from time import monotonic
from unittest.mock import Mock

import aiohttp
import kopf
import pytest
import uvloop
from support.eventually import eventually

from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.connection import Credentials, chunks
from orbiter_operator.kube.resources import JOBS
from orbiter_operator.runtime.supervisor import Throttle, next_moment

# What TLS 1.3 adds to each piece: header, type and tag.
TLS_RECORD = 5 + 1 + 16


def add_jobs(api, first, last):
    for number in range(first, last):
        api.put("jobs", {"metadata": {"name": f"job-{number}", "namespace": "team"}, "spec": {}})


class Held(Throttle):
    """Pauses that last until the test ends them."""

    def __init__(self):
        super().__init__(1.0)
        self.over = asyncio.Event()
        self.began = 0

    async def wait(self, taken):
        self.began += 1
        await self.over.wait()


async def test_what_comes_while_nothing_is_read_is_handed_out_in_its_order(api, kube):
    names, pauses, written = [], Held(), 0
    _, since = await kube.list(JOBS, "team")
    encode = api.encode

    def counted(value):
        nonlocal written
        written += 1
        return encode(value)

    async def follow():
        async for event in kube.watch(JOBS, "team", since=since, throttle=pauses):
            names.append(event["object"]["metadata"]["name"])  # noqa: PERF401 - each as it comes

    following = asyncio.create_task(follow())
    add_jobs(api, 0, 1)
    await eventually(lambda: pauses.began)
    assert names == ["job-0"], "the first at once"
    api.encode = counted
    add_jobs(api, 1, 500)
    await eventually(lambda: written == 499)
    assert names == ["job-0"], "nothing is read in between"
    pauses.over.set()
    await eventually(lambda: len(names) == 500)
    following.cancel()
    assert names == [f"job-{number}" for number in range(500)]
    assert pauses.began < 10, "the others many at a time"


async def test_all_that_is_there_is_read_before_the_next_pause():
    taken = []

    class Noted(Throttle):
        async def wait(self, read):
            taken.append(read)

    async def several():
        for size in (9_000, 300_000, 9_000, 200_000, 400_000, 9_000, 9_000):
            yield b"x" * size

    response = Mock()
    response.connection.transport.is_closing.return_value = False
    response.content.iter_any = several
    sizes = [len(chunk) async for chunk in chunks(response, silence=30.0, throttle=Noted(1.0))]
    assert sizes == [9_000, 300_000, 9_000, 200_000, 400_000, 9_000, 9_000]
    assert taken == [9_000, 309_000, 609_000, 9_000]


async def test_the_more_came_the_shorter_is_the_pause():
    """Whoever takes a second's worth once a second must not fall behind when that is megabytes."""
    loop, pauses = asyncio.get_running_loop(), Throttle(30.0)
    began = loop.time()
    await pauses.wait(taken=300 * 262_144)
    assert loop.time() - began < 5.0


async def test_all_pauses_end_when_much_is_to_be_expected():
    pauses = Throttle(3600.0)
    waiting = [asyncio.ensure_future(pauses.wait(0)) for _ in range(2)]
    await asyncio.sleep(0)
    for _ in range(15):
        pauses.expect()
    await asyncio.sleep(0)
    assert not any(waiter.done() for waiter in waiting)
    pauses.expect()
    await asyncio.wait_for(asyncio.gather(*waiting), 5.0)


async def test_a_silent_watch_ends(kube):
    events = kube.watch(JOBS, "team", since="1", silence=0.2)
    with pytest.raises(aiohttp.SocketTimeoutError, match=r"nothing was said for 0\.2 s"):
        await anext(events)


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nServer:", b"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n{"]
)
async def test_a_watch_that_is_not_answered_ends(answer):
    """Connected, and then not a word: a proxy whose server is gone, or one that hangs itself."""
    left = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    connection = kopf.ConnectionInfo(server=f"http://{host}:{port}")
    async with server, Kube(Credentials(lambda: connection), timeout=0.2) as kube:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10) as hangs:
                await anext(kube.watch(JOBS, "team", since="1"))
        assert not hangs.expired()
        await asyncio.wait_for(left.wait(), 10)


async def test_however_many_watches_there_are_a_request_is_answered(api):
    """Four kinds in each of sixteen namespaces of ORBITER_WATCH_NAMESPACES took all connections."""
    add_jobs(api, 0, 1)
    connection = kopf.ConnectionInfo(server=api.url)
    async with Kube(Credentials(lambda: connection), timeout=5.0) as kube:
        watches = [kube.watch(JOBS, "team", since="1") for _ in range(80)]
        await asyncio.gather(*(anext(watch) for watch in watches))
        assert (await kube.get(JOBS, "team", "job-0"))["metadata"]["name"] == "job-0"
        for watch in watches:
            await watch.aclose()


async def test_all_who_wait_for_the_next_moment_wake_at_the_same(monkeypatch):
    loop, now, woke = asyncio.get_running_loop(), 100.0, []
    monkeypatch.setattr(loop, "time", lambda: now)

    async def wait():
        await next_moment(0.5)
        woke.append(now)

    waiting = []
    for hundredths in range(100):
        now = 100.0 + hundredths / 100
        if hundredths in (1, 13, 37):
            waiting.append(asyncio.create_task(wait()))
        for _ in range(3):
            await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert woke == [100.5] * 3


@pytest.fixture
def tls(tmp_path):
    """Contexts of a server and of a client that trusts it."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    server.load_cert_chain(certificate, key)
    return server, ssl.create_default_context(cafile=certificate)


def unread(transport):
    """Bytes in the socket itself."""
    socket = transport.get_extra_info("socket")
    return int.from_bytes(ioctl(socket.fileno(), FIONREAD, bytes(4)), sys.byteorder)


def test_in_between_not_even_the_socket_below_tls_is_read_by_the_loop_of_the_program(tls):
    """Its transports are not instances of asyncio's: nothing was gathered, and nobody saw it."""
    context, trusting = tls
    connected: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nfirst")
        connected.put_nowait(writer)

    async def follow():
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        host, port = server.sockets[0].getsockname()
        connector = aiohttp.TCPConnector(ssl=trusting)
        async with (
            server,
            aiohttp.ClientSession(connector=connector) as session,
            session.get(f"https://{host}:{port}/") as response,
        ):
            transport = response.connection.transport
            pauses = Held()
            parts = chunks(response, silence=30.0, throttle=pauses)
            assert await anext(parts) == b"first"
            writer = await connected.get()
            second = asyncio.ensure_future(anext(parts))
            await eventually(lambda: pauses.began)
            assert not transport.is_reading()
            for _ in range(50):
                writer.write(b"more")
                await writer.drain()
                await asyncio.sleep(0)
            assert transport.get_read_buffer_size() == 0
            await eventually(lambda: unread(transport) == 50 * (len(b"more") + TLS_RECORD))
            pauses.over.set()
            assert await second == b"more" * 50
            writer.close()
            await parts.aclose()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(follow())


@pytest.mark.parametrize(("seconds", "connections"), [(60, 1), (80, 2)])
async def test_a_connection_that_was_idle_for_a_minute_is_used_again(
    api, kube, monkeypatch, seconds, connections
):
    opened = []
    connect = aiohttp.TCPConnector.connect

    async def watched(*arguments, **options):
        connection = await connect(*arguments, **options)
        opened.append(connection.protocol)
        return connection

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", watched)
    await kube.list(JOBS)
    later = monotonic() + seconds
    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: later)
    await kube.list(JOBS)
    assert len(set(opened)) == connections
