"""Whether the watches of our own kinds follow, from kopf's requests alone."""

import asyncio

import aiohttp
import pytest
from support.eventually import eventually
from support.fake_api import RefusedRequestError

from orbiter_operator.handlers import PATIENCE_SECONDS, WatchState

LIST = "/apis/orbiter.dev/v1alpha1/posessions"


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def state(now):
    return WatchState("posessions", clock=lambda: now[0])


@pytest.fixture
async def session(state):
    async with aiohttp.ClientSession(trace_configs=[state.trace()]) as made:
        yield made


async def watch(session, url):
    async with session.get(url, params={"watch": "true"}) as response:
        return response.status


async def test_a_watch_has_a_moment_to_begin(now, state):
    assert not state.interrupted
    now[0] += PATIENCE_SECONDS + 1
    assert state.interrupted


async def test_a_watch_that_was_answered_is_followed_for_good(api, now, state, session):
    assert await watch(session, api.url + LIST) == 200
    now[0] += 3600
    assert not state.interrupted


async def test_a_list_alone_is_no_watch(api, now, state, session):
    async with session.get(api.url + LIST) as response:
        assert response.status == 200
    now[0] += PATIENCE_SECONDS + 1
    assert state.interrupted


async def test_a_watch_or_a_list_that_is_refused_breaks_it_until_a_watch_is_answered(
    api, state, session
):
    async def refuse(verb, plural, body):
        raise RefusedRequestError(503, "ServiceUnavailable", "etcd is away")

    for verb in ({}, {"watch": "true"}):
        api.before, before = refuse, api.before
        async with session.get(api.url + LIST, params=verb):
            assert state.interrupted
        api.before = before
        assert await watch(session, api.url + LIST) == 200
        assert not state.interrupted


async def test_a_server_that_is_away_breaks_it(api, state, session):
    assert await watch(session, api.url + LIST) == 200
    await api.stop()
    with pytest.raises(aiohttp.ClientError):
        await watch(session, api.url + LIST)
    assert state.interrupted


async def test_a_watch_that_is_not_answered_breaks_it(api, now, state, session):
    held = asyncio.Event()
    asked = asyncio.Event()

    async def hold(verb, plural, body):
        asked.set()
        await held.wait()

    assert await watch(session, api.url + LIST) == 200
    api.before = hold
    waits = asyncio.create_task(watch(session, api.url + LIST))
    await asked.wait()
    assert not state.interrupted
    now[0] += PATIENCE_SECONDS + 1
    assert state.interrupted
    held.set()
    assert await waits == 200
    await eventually(lambda: not state.interrupted)


async def test_each_namespace_has_a_watch_of_its_own(api, state, session):
    one, two = (
        f"{api.url}/apis/orbiter.dev/v1alpha1/namespaces/{name}/posessions" for name in ("a", "b")
    )

    async def refuse(verb, plural, body):
        raise RefusedRequestError(403, "Forbidden", "not here")

    api.before, before = refuse, api.before
    assert await watch(session, one) == 403
    api.before = before
    assert await watch(session, two) == 200
    assert state.interrupted


async def test_requests_for_other_things_do_not_count(api, state, session):
    async with session.get(f"{api.url}/apis/orbiter.dev/v1alpha1/nonsense") as response:
        assert response.status == 404
    assert not state.interrupted
