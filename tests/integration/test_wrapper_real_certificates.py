"""A model behind a company's own CA: each real CLI trusts it by variables of the worker's pod."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis
from support.agent_clis import ModelServer
from support.certificates import Certificates, make_certificates
from support.queues import Queues
from support.real_agents import RealWorkers

pytestmark = pytest.mark.integration

AGENTS = ["claude", "codex", "gemini", "opencode", "orbiter"]
NAMES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "GIT_SSL_CAINFO")
"""As the chart's README has them under every worker (helm/tests/test_chart_workers.py)."""


@asynccontextmanager
async def door(model_server: ModelServer, certificates: Certificates) -> AsyncIterator[str]:
    """The model's server once more, with TLS; yields its URL."""
    behind = urlsplit(model_server.url)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, out = await asyncio.open_connection(behind.hostname, behind.port)
        await asyncio.gather(copy(reader, out), copy(inner, writer))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
def workers(request: pytest.FixtureRequest) -> RealWorkers:
    found: RealWorkers = request.getfixturevalue(f"{request.param}_workers")
    return found


@pytest.mark.parametrize("workers", AGENTS, indirect=True)
async def test_a_model_behind_a_companys_ca_is_asked(
    workers: RealWorkers, redis: Redis, model_server: ModelServer, tmp_path: Path
) -> None:
    queues = Queues(redis)
    certificates = make_certificates(tmp_path / "company")
    async with door(model_server, certificates) as url:
        at = {
            name: value.replace(model_server.url, url)
            for name, value in workers.environ.items()
            if model_server.url in value
        }
        await queues.task("[[result]]")
        worker = workers.start(**at, **dict.fromkeys(NAMES, str(certificates.ca)))
        assert await worker.exit_code(seconds=120) == 0
        output = await queues.output()
    assert (output.status, output.error) == ("success", None)
    assert model_server.stats["prompts"]


async def test_without_them_it_is_not(
    claude_workers: RealWorkers, redis: Redis, model_server: ModelServer, tmp_path: Path
) -> None:
    queues = Queues(redis)
    async with door(model_server, make_certificates(tmp_path / "company")) as url:
        await queues.task("[[result]]")
        await claude_workers.start(ANTHROPIC_BASE_URL=url).exit_code(seconds=120)
        output = await queues.output()
    assert output.status == "error"
    assert not model_server.stats["prompts"]
