"""What the operator says of a Redis that it cannot use: another CA, a Cluster."""

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from support.certificates import make_certificates
from support.redis_server import running_server

from orbiter_operator.streams.client import blocking_client, redis_client

pytestmark = pytest.mark.integration


@pytest.fixture(params=[redis_client, blocking_client])
def client(request):
    return request.param


async def test_a_ca_of_ones_own_is_believed_where_the_url_names_it_and_only_there(client, tmp_path):
    with running_server(tmp_path, tls=make_certificates(tmp_path / "ours")) as server:
        redis = client(server.url)
        assert await redis.set("key", "value")
        await redis.aclose()
        other = client(
            f"{server.url.partition('=')[0]}={make_certificates(tmp_path / 'theirs').ca}"
        )
        with pytest.raises(RedisConnectionError, match=r"is not trusted .*\?ssl_ca_certs="):
            await other.ping()
        await other.aclose()


async def test_a_ca_that_is_renewed_in_its_place_is_believed_by_the_client_of_before(
    client, tmp_path
):
    with running_server(tmp_path, tls=make_certificates(tmp_path / "ours")) as server:
        redis = client(server.url)
        assert await redis.ping()
        server.stop()
        with pytest.raises(RedisConnectionError):
            await redis.ping()
        make_certificates(tmp_path / "ours")
        server.start()
        assert await redis.ping()
        await redis.aclose()


async def test_a_cluster_is_refused_with_a_sentence_that_shows_no_password(client, tmp_path):
    options = {"cluster-enabled": "yes"}
    with running_server(tmp_path, password="hidden-word", options=options) as server:
        redis = client(server.url)
        with pytest.raises(RedisConnectionError) as caught:
            await redis.ping()
        await redis.aclose()
    said = str(caught.value)
    assert f"leads to a Redis Cluster (redis://127.0.0.1:{server.port}/0)" in said
    assert "redis+sentinel://" in said
    assert "hidden-word" not in said
