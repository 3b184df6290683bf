"""Backup and restore of the bundled Redis, typed as docs/operations.md says them."""

import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.exceptions import RedisError
from support.plugin import Plugin
from support.session_world import SessionWorld, clear_sessions, front_end, worker_id
from support.world import SYSTEM, World

from orbiter_contracts.queues import BARE

RUN = uuid.uuid4().hex[:4]
PAGE = Path(__file__).parents[2] / "docs/operations.md"


@pytest.fixture(scope="module")
def sessions(world: World) -> Iterator[World]:
    clear_sessions(world)
    yield world
    clear_sessions(world)


def typed(what: str) -> str:
    """The commands that the page has under that name."""
    block = rf"<!-- typed: {what} -->\n```bash\n(.*?)^```$"
    (found,) = re.findall(block, PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return str(found)


def run(world: World, script: str, directory: Path) -> str:
    """What a person's shell does with these commands, with the cluster's kubectl."""
    _, environ = Plugin(world).command()
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=directory,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def is_known(world: World, name: str) -> bool:
    """Whether Redis answers, and knows a session."""
    try:
        with world.redis() as redis:
            return bool(redis.exists(BARE.po_state(worker_id(name))))
    except (RedisError, AssertionError):
        return False


@pytest.mark.timeout(600)
def test_a_session_remembers_after_redis_was_lost_and_restored(
    sessions: World, tmp_path: Path
) -> None:
    name = f"restored-{RUN}"
    with front_end(sessions) as redis:
        talks = SessionWorld(sessions, redis)
        talks.apply(name)
        talks.ask(name, "[[remember: the shop is called Kiosk 9]] [[say: noted]]")
        talks.wait(name, "Asleep")
    listed = run(sessions, typed("backup"), tmp_path)
    assert "appendonly.aof.manifest" in listed
    lose = ("exec", "orbiter-redis-0", "--", "rm", "-rf", "/data/appendonlydir")
    sessions.kubectl("-n", SYSTEM, *lose)
    sessions.kubectl("-n", SYSTEM, "delete", "pod", "orbiter-redis-0")
    ready = ("rollout", "status", "statefulset/orbiter-redis", "--timeout=120s")
    sessions.kubectl("-n", SYSTEM, *ready)
    assert not is_known(sessions, name), "nothing was lost, so nothing can be restored"
    run(sessions, typed("restore"), tmp_path)
    done = ("rollout", "status", "deployment/orbiter-operator", "--timeout=120s")
    sessions.kubectl("-n", SYSTEM, *done)
    sessions.until("the session is known again", lambda: is_known(sessions, name))
    with front_end(sessions) as redis:
        talks = SessionWorld(sessions, redis)
        assert talks.ask(name, "[[recall]]").text == "I remember: the shop is called Kiosk 9"
        assert talks.wait_until(name, lambda status: status.get("turns") == 2)
