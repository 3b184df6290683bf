"""Redis with TLS and a CA of one's own, and servers that are no use whatever the URL."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.certificates import Certificates, make_certificates
from support.eventually import eventually
from support.queues import Queues
from support.redis_server import PATIENT, RedisServer, running_server
from support.tls_sentinel import tls_sentinel
from support.wrapper import FakeClaude, Wrappers, connected

from worker_wrapper.queue.connection import RedisConnection, RedisUnavailableError

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[RedisServer]:
    directory = tmp_path_factory.mktemp("redis")
    with running_server(directory, password="data-word", tls=certificates) as server:
        yield server


async def test_a_wrapper_works_with_the_ca_that_its_url_names(
    server: RedisServer, tmp_path: Path, fake_claude: FakeClaude
) -> None:
    wrappers = Wrappers(tmp_path, server.url, fake_claude)
    async with Redis.from_url(server.url, decode_responses=True, protocol=2, **PATIENT) as redis:
        queues = Queues(redis)
        try:
            wrapper = wrappers.start(**await queues.bound_task())
            assert await wrapper.exit_code() == 0
        finally:
            wrappers.end()
        assert [output.status for output in await queues.outputs()] == ["success"]


@pytest.mark.parametrize("ca", ["other", "system"])
async def test_another_ca_is_refused_with_a_sentence(
    server: RedisServer, certificates: Certificates, tmp_path: Path, ca: str
) -> None:
    other = make_certificates(tmp_path / "theirs").ca
    options = f"?ssl_ca_certs={other}" if ca == "other" else ""
    async with connected(server.url.partition("?")[0] + options) as connection:
        with pytest.raises(RedisUnavailableError) as caught:
            await connection.call("PING")
    said = str(caught.value)
    assert f"the certificate of rediss://127.0.0.1:{server.port}/0 is not trusted" in said
    assert "?ssl_ca_certs=/a/ca.crt" in said
    assert "data-word" not in said


async def test_sentinels_with_tls_lead_to_a_server_with_tls(
    certificates: Certificates, tmp_path: Path
) -> None:
    with tls_sentinel(tmp_path, certificates) as (_, url):
        async with connected(f"{url}?ssl_ca_certs={certificates.ca}") as connection:
            await eventually(lambda: _answers(connection))
        async with connected(url) as connection:
            with pytest.raises(
                RedisUnavailableError, match=r"certificate is not trusted; .*ssl_ca_certs="
            ):
                await connection.call("PING")


async def _answers(connection: RedisConnection) -> bool:
    """Whether it does; a Sentinel that is about to start does not yet."""
    try:
        return bool(await connection.call("PING", tries=1) == "PONG")
    except RedisUnavailableError:
        return False


async def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    elsewhere = make_certificates(tmp_path / "elsewhere", "redis.example.com")
    with running_server(tmp_path, tls=elsewhere) as server:
        async with connected(server.url) as connection:
            with pytest.raises(RedisUnavailableError, match=r"not trusted \(IP address mismatch"):
                await connection.call("PING")


async def test_a_ca_that_cannot_be_read_is_named(server: RedisServer) -> None:
    url = server.url.partition("?")[0] + "?ssl_ca_certs=/not/there/ca.crt"
    async with connected(url) as connection:
        with pytest.raises(RedisUnavailableError, match=r"CA in /not/there/ca\.crt cannot be read"):
            await connection.call("PING")


async def test_a_server_that_is_a_clusters_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with running_server(tmp_path, options={"cluster-enabled": "yes"}) as server:
        async with connected(server.url) as connection:
            with pytest.raises(RedisUnavailableError) as caught:
                await connection.call("PING")
    said = str(caught.value)
    assert f"leads to a Redis Cluster (redis://127.0.0.1:{server.port}/0)" in said
    assert "redis+sentinel://" in said
