"""The ports of probes and metrics, which everybody on the network may try."""

import asyncio
import resource
import socket
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from structlog.testing import capture_logs

from orbiter_operator.metrics import OperatorMetrics
from orbiter_operator.runtime.health import (
    LONGEST_HEAD,
    MOST,
    WORD_SECONDS,
    Answer,
    Health,
    HealthServer,
    Port,
)
from orbiter_operator.runtime.metrics import MetricsPage

HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
WHOLE = HALF + b"\r\n"
PATIENCE_SECONDS = 30
LARGE = 64 * 1024 * 1024


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
async def port(now):
    pages = {"/healthz": lambda: Answer(b"ok"), "/broken": lambda: 1 / 0}
    async with Port("health", pages, 0, clock=lambda: now[0]) as made:
        yield made


async def talk(port, said, peer="127.0.0.1"):
    """What a connection gets back for these bytes, from its beginning to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(peer, 0))
    try:
        writer.write(said)
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def status(port, said, peer="127.0.0.1"):
    return (await talk(port, said, peer)).partition(b"\r\n")[0].decode()


async def hold(opened, port, peer="127.0.0.1"):
    """Send half of a request, and keep the connection open on this side."""
    peer_socket = opened.enter_context(socket.socket())
    peer_socket.setblocking(False)
    peer_socket.bind((peer, 0))
    await asyncio.get_running_loop().sock_connect(peer_socket, ("127.0.0.1", port))
    peer_socket.send(HALF)
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (WHOLE, "HTTP/1.1 200 OK"),
        (b"GET /healthz?verbose=1 HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK"),
        (b"GET /elsewhere HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
        (b"POST /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
        (b"GET /broken HTTP/1.1\r\n\r\n", "HTTP/1.1 500 Internal Server Error"),
        (b"GET /healthz HTTP/9\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"a" * LONGEST_HEAD, "HTTP/1.1 431 Request Header Fields Too Large"),
    ],
)
async def test_a_request_is_answered_by_its_status(port, said, answer):
    assert await status(port.number, said) == answer


async def test_a_request_may_come_byte_by_byte_and_head_has_no_body(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    for byte in b"HEAD /healthz HTTP/1.1\r\n\r\n":
        writer.write(bytes((byte,)))
        await asyncio.sleep(0)
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 2\r\n" in answer
    assert b"Connection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@given(said=st.binary(max_size=200))
def test_no_bytes_are_more_than_refused(said):
    port = Port("health", {"/": lambda: Answer(b"ok")}, 0)
    try:
        assert port.answer(said).startswith(b"HTTP/1.1 ")
    except ValueError:
        return


async def test_a_probe_is_answered_while_another_client_holds_every_connection(port):
    with ExitStack() as opened:
        for count in range(2 * MOST):
            await hold(opened, port.number)
            assert port.connections <= MOST
            if count % 64 == 0:
                assert await status(port.number, WHOLE) == "HTTP/1.1 200 OK"
        assert await status(port.number, WHOLE) == "HTTP/1.1 200 OK"


async def test_one_address_takes_no_connection_of_another(port):
    reader, kubelet = await asyncio.open_connection("127.0.0.1", port.number)
    kubelet.write(HALF)
    with ExitStack() as opened:
        for count in range(2 * MOST):
            await hold(opened, port.number, "127.0.0.2")
            if count % 32 == 0:
                assert await status(port.number, WHOLE, "127.0.0.2") == "HTTP/1.1 200 OK"
        kubelet.write(b"\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
    kubelet.close()


@pytest.mark.parametrize("said", [b"", HALF])
async def test_a_request_that_does_not_come_whole_in_time_is_ended(port, said, monkeypatch):
    monkeypatch.setattr("orbiter_operator.runtime.health.HEAD_SECONDS", 0.01)
    assert await talk(port.number, said) == b""
    assert port.connections == 0


async def test_an_answer_that_nobody_takes_is_ended(monkeypatch):
    monkeypatch.setattr("orbiter_operator.runtime.health.ANSWER_SECONDS", 0.01)
    with capture_logs() as lines:
        async with Port("metrics", {"/": lambda: Answer(bytes(LARGE))}, 0) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port.number, limit=1024)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            while not lines:
                await asyncio.sleep(0)
            assert port.connections == 0
            with suppress(ConnectionResetError):
                assert len(await reader.read()) < LARGE
            writer.close()
    assert lines[0]["too_slow"] == 1


async def test_malformed_requests_are_one_line_a_minute_with_their_number(port, now):
    with capture_logs() as lines:
        for _ in range(50):
            await talk(port.number, b"\xff\xfe\r\n\r\n")
        now[0] += WORD_SECONDS
        await talk(port.number, b"\xff\xfe\r\n\r\n")
    assert [(line["event"], line["malformed"], line["last"]) for line in lines] == [
        ("connections refused", 1, "127.0.0.1"),
        ("connections refused", 50, "127.0.0.1"),
    ]


async def test_prometheus_reads_the_metrics_over_http():
    async with HealthServer(Health(), OperatorMetrics().registry, 0, 0) as server:
        text = await asyncio.to_thread(scraped, server.metrics_port)
    names = {family.name for family in text_string_to_metric_families(text)}
    assert "orbiter_tasks_finished" in names


def test_a_page_that_takes_long_is_not_made_for_everybody_who_asks():
    """With a hundred namespaces it takes 45 ms, in which the operator does nothing else."""
    now, made = [1000.0], []

    class Slow(Collector):
        def collect(self):
            made.append(now[0])
            now[0] += 0.05
            return []

    registry = CollectorRegistry()
    registry.register(Slow())
    made.clear()
    page = MetricsPage(registry, lambda: now[0])
    for _ in range(200):
        page.text()
        now[0] += 0.01
    assert len(made) <= 3


def scraped(port):
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics", headers={"Accept": "text/plain;version=0.0.4"})
    response = connection.getresponse()
    assert response.getheader("Content-Type", "").startswith("text/plain; version=")
    text = response.read().decode()
    connection.close()
    return text


@pytest.mark.integration
async def test_the_program_keeps_its_descriptors_and_memory_under_5000_half_sent_requests(world):
    operator = await world.start_operator()
    world.apply("one")
    await world.until("one", "Completed")
    log = operator.log.read_text()
    health, metrics = (
        int(log.split(f'"{name}": ')[1].split(",")[0]) for name in ("health_port", "metrics_port")
    )
    resource.prlimit(operator.pid, resource.RLIMIT_NOFILE, (1024, 1024))
    before = resident(operator.pid)
    with ExitStack() as opened:
        for number in (health, metrics):
            for count in range(5000):
                await hold(opened, number)
                if count % 500 == 0:
                    assert await status(health, WHOLE) == "HTTP/1.1 200 OK"
        assert await status(health, WHOLE) == "HTTP/1.1 200 OK"
        assert resident(operator.pid) - before < 16 * 1024
        world.apply("two")
        await world.until("two", "Completed")
    assert "Traceback" not in operator.log.read_text()


def resident(pid):
    """Memory in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])
