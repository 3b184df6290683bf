"""Redis talks TLS and nothing else, with a CA of one's own, also once it was restarted."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError
from support.certificates import IN_CLUSTER, Certificates, make_certificates
from support.cluster import Cluster
from support.installation import installed
from support.manifests import po_session
from support.plugin import Plugin
from support.session_world import clear_sessions
from support.world import ECHO_IMAGE, NAMESPACE, SYSTEM, World, echo_task, task, worker_container

pytestmark = [pytest.mark.apart, pytest.mark.timeout(600)]
SECRET = "redis-certificate"
REDIS = "orbiter-redis-0"


def certificate(world: World, directory: Path) -> Certificates:
    """Give Redis a certificate that it reads at its next start."""
    made = make_certificates(directory, IN_CLUSTER)
    files = {"tls.crt": made.certificate, "tls.key": made.key, "ca.crt": made.ca}
    data = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": SYSTEM},
            "data": data,
        }
    )
    return made


@pytest.fixture(scope="module")
def encrypted(
    world: World, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """The installation with TLS; behind the last test it is as before."""
    certificate(world, tmp_path_factory.mktemp("tls"))
    words = ("redis.tls.enabled=true", f"redis.tls.existingSecret={SECRET}")
    with installed(cluster, *words):
        yield world
        clear_sessions(world)
    with installed(cluster):
        world.cluster.delete("secret", SECRET, SYSTEM)


def session(world: World, name: str, user: int) -> None:
    """A session that answers without a model."""
    agent = {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}}
    made = po_session(
        name, userId=user, agent=agent, podTemplate=worker_container(image=ECHO_IMAGE)
    )
    made["metadata"]["namespace"] = NAMESPACE
    world.apply(made)


def test_redis_refuses_who_speaks_no_tls(encrypted: World) -> None:
    with encrypted.forward("service/orbiter-redis", 6379) as port:
        client = Redis(host="127.0.0.1", port=port, socket_timeout=10)
        with pytest.raises(RedisError):
            client.ping()
        client.close()


def test_a_task_is_done_and_a_session_answers(encrypted: World) -> None:
    encrypted.apply(task("over-tls", '[[result: {"summary": "over TLS"}]]'))
    session(encrypted, "talks-over-tls", 10**9 + 61)
    status = encrypted.wait("over-tls", "Completed")
    assert status["result"]["summary"] == "over TLS"
    said = Plugin(encrypted).run("chat", "talks-over-tls", "--once", "hello", "--json")
    assert json.loads(said)["is_final"]


def test_a_redis_that_comes_back_with_a_renewed_certificate_loses_nothing(
    encrypted: World, tmp_path: Path
) -> None:
    encrypted.apply(echo_task("renewed", "work\nsleep 15"))
    encrypted.wait("renewed", "Running")
    certificate(encrypted, tmp_path / "renewed")
    encrypted.kubectl("-n", SYSTEM, "delete", "pod", REDIS, "--wait=true")
    status = encrypted.wait("renewed", "Completed", seconds=240)
    assert status["attempts"] == 1
