"""Redis' passwords are made new while an agent is at work: its task is done, old ones end."""

import base64
from collections.abc import Iterator

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError
from support.cluster import Cluster
from support.installation import install, installed
from support.world import NAMESPACE, World, task

pytestmark = [pytest.mark.apart, pytest.mark.timeout(600)]
GENERATION = "redis.auth.generation={}"
WAITS = "while [ ! -e /tmp/go-on ]; do sleep 0.2; done"


@pytest.fixture(scope="module")
def world_with_passwords(cluster: Cluster) -> Iterator[World]:
    """The installation as it is made first; behind the last test it is so again."""
    with installed(cluster) as world:
        yield world
    with installed(cluster):
        pass


def url_of_workers(world: World) -> str:
    """What the namespace's Secret gives a developer worker now."""
    data = world.cluster.get("secret", "orbiter-developer", NAMESPACE)["data"]
    [url] = [base64.b64decode(value).decode() for key, value in data.items() if key != "ca.crt"]
    return url


def opens(world: World, url: str) -> bool:
    """Whether Redis lets somebody in with this URL's name and password."""
    with world.forward("service/orbiter-redis", 6379) as port:
        login = url.rpartition("@")[0]
        client = Redis.from_url(f"{login}@127.0.0.1:{port}", socket_timeout=10)
        try:
            return bool(client.ping())
        except AuthenticationError:
            return False
        finally:
            client.close()


def raise_generation(world: World, generation: int) -> str:
    """Install with one generation more; return the new URL of the workers."""
    before = url_of_workers(world)
    install(GENERATION.format(generation))
    world.until("a new password in the Secret", lambda: url_of_workers(world) != before)
    return url_of_workers(world)


def test_an_agent_at_work_notices_nothing_and_old_passwords_end(
    world_with_passwords: World,
) -> None:
    world = world_with_passwords
    world.apply(task("at-work", f'[[bash: {WAITS}]]\n[[result: {{"summary": "went on"}}]]'))
    world.wait("at-work", "Running")
    world.until("its agent waits", lambda: "go-on" in world.processes("at-work"))
    first = url_of_workers(world)
    second = raise_generation(world, 2)
    assert opens(world, first), "the password that the running worker has"
    assert opens(world, second)

    world.apply(task("after-it", '[[result: {"summary": "new password"}]]'))
    assert world.wait("after-it", "Completed")["result"]["summary"] == "new password"
    [pod] = world.pods("at-work")
    inside = ("-n", NAMESPACE, "exec", pod["metadata"]["name"], "-c", "worker", "--")
    world.kubectl(*inside, "touch", "/tmp/go-on")
    status = world.wait("at-work", "Completed")
    assert status["result"]["summary"] == "went on"
    assert (status["attempts"], status.get("disruptions", 0)) == (1, 0)

    third = raise_generation(world, 3)
    world.until("the first password opens nothing", lambda: not opens(world, first))
    assert opens(world, second)
    assert opens(world, third)
