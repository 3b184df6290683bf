"""The server's way to Redis: by Sentinels, with TLS and a CA of one's own, and to no Cluster."""

import logging

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError
from support.certificates import make_certificates
from support.eventually import eventually
from support.redis_server import redis_server
from support.tls_sentinel import tls_sentinel

from orbiter.server._internal.redis_access import Access, connected

from .test_server_transcripts import PATH, Writer, following, launch, put_secret, texts

__all__ = ["launch", "redis_server"]
pytestmark = pytest.mark.integration
BUSY_SECONDS = 90
"""For a machine with much else to do; a connection that takes too long there is made anew."""


async def said(access):
    """What a server answers, or why it does not; a Sentinel that begins does not yet."""
    try:
        async with connected(access, 1.0) as connection:
            await connection.send_command("PING")
            return (await connection.read_response()).decode()
    except RedisError as error:
        return str(error)


async def test_a_transcript_goes_on_from_the_new_primary(launch, api, replicated, caplog):
    caplog.set_level(logging.CRITICAL, "orbiter.server")
    put_secret(api, replicated.url)
    ada, _ = await launch()
    async with Redis.from_url(replicated.primary.url) as redis:
        writer = Writer(redis)
        await writer.say("one")
        found, reading = following(ada)
        await eventually(lambda: len(found) == 1, seconds=BUSY_SECONDS)
        await replicated.fail_over()
    async with Redis.from_url(replicated.primary.url) as writer.redis:

        async def written():
            try:
                await writer.say("two", verdict=True)
            except RedisError:
                return False  # its replica has not found it yet
            return True

        await eventually(written, seconds=BUSY_SECONDS)
        await reading
    assert texts(found)[0] == "one"
    assert texts(found)[-2:] == ["two", ""]


async def test_sentinels_and_server_are_believed_by_the_ca_beside_the_url(tmp_path):
    certificates = make_certificates(tmp_path / "ours")
    with tls_sentinel(tmp_path, certificates) as (server, url):
        for each in (server.url.partition("?")[0], url):
            access = Access(each, ca=certificates.ca.read_text())
            for known, answer in ((access, "PONG"), (access._replace(ca=None), "is not trusted")):

                async def answered(known=known, answer=answer):
                    return answer in await said(known)

                await eventually(answered, seconds=BUSY_SECONDS)


async def test_a_cluster_is_refused_with_a_sentence(launch, api):
    put_secret(api, "redis+cluster://u:secret@one:7000/0")
    ada, _ = await launch()
    response = await ada.http.get(PATH)
    assert response.status_code == 502
    words = response.json()["error"]["message"]
    assert "leads to a Redis Cluster (redis+cluster://one:7000)" in words
    assert "redis+sentinel://" in words
    assert "secret" not in words
