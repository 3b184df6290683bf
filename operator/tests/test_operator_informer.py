"""A cache that stays equal to the server, whatever happens to the watch."""

import asyncio

import kopf
import pytest
from support.eventually import eventually

from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.connection import Credentials
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.resources import JOBS


class Cache:
    """Remembers names; knows nothing of tasks."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[str, int]] = {}

    def put(self, obj):
        meta = obj["metadata"]
        self.seen[meta["name"]] = (meta["uid"], int(meta["resourceVersion"]))

    def remove(self, obj):
        self.seen.pop(obj["metadata"]["name"], None)

    def missing_from(self, listed, version):
        return [
            {"metadata": {"name": name, "namespace": "team", "uid": uid}}
            for name, (uid, seen) in self.seen.items()
            if uid not in listed and seen <= version
        ]


@pytest.fixture
def cache() -> Cache:
    return Cache()


@pytest.fixture
async def informer(kube, cache):
    made = Informer(kube, JOBS, cache, namespaces=(), selector="app=worker")
    await made.compare()
    follower = asyncio.create_task(made.follow())
    yield made
    follower.cancel()
    await asyncio.gather(follower, return_exceptions=True)


def job(api, name, app="worker"):
    meta = {"name": name, "namespace": "team", "labels": {"app": app}}
    return api.put("jobs", {"metadata": meta, "spec": {}})


async def test_what_was_there_before_is_listed(api, kube, cache):
    job(api, "old")
    await Informer(kube, JOBS, cache, namespaces=("team",)).compare()
    assert set(cache.seen) == {"old"}


async def test_changes_are_followed_and_other_labels_are_not(api, cache, informer):
    job(api, "a")
    job(api, "stranger", app="web")
    await eventually(lambda: "a" in cache.seen)
    api.remove("jobs", "team", "a")
    await eventually(lambda: not cache.seen)


async def test_a_version_that_is_too_old_leads_to_a_new_list(api, cache, informer):
    job(api, "a")
    await eventually(lambda: "a" in cache.seen)
    api.forget_history()
    api.objects["jobs"].pop(("team", "a"))
    job(api, "b")
    await eventually(lambda: set(cache.seen) == {"b"})


async def test_the_server_may_go_away_and_come_back(api, cache, informer):
    await eventually(lambda: informer.synced)
    await api.stop()
    await eventually(lambda: not informer.synced)
    job(api, "meanwhile")
    await api.start()
    await eventually(lambda: "meanwhile" in cache.seen)
    assert informer.synced


async def test_a_watch_that_is_not_answered_is_asked_for_anew(api, cache):
    unanswered, asked = asyncio.Event(), []

    async def hangs_once(verb, plural, body):
        if verb == "watch" and not asked:
            asked.append(plural)
            await unanswered.wait()

    api.before = hangs_once
    connection = kopf.ConnectionInfo(server=api.url)
    async with Kube(Credentials(lambda: connection), timeout=0.3) as kube:
        following = asyncio.create_task(Informer(kube, JOBS, cache, namespaces=()).follow())
        await eventually(lambda: asked)
        job(api, "meanwhile")
        await eventually(lambda: "meanwhile" in cache.seen)
        unanswered.set()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_what_vanished_without_an_event_is_found_by_comparing(api, cache, informer):
    job(api, "ghost")
    await eventually(lambda: "ghost" in cache.seen)
    api.objects["jobs"].pop(("team", "ghost"))
    await informer.compare()
    assert not cache.seen


async def test_what_the_server_refuses_is_an_error_with_its_words(kube):
    with pytest.raises(ApiError, match='jobs "nobody" not found') as caught:
        await kube.get(JOBS, "team", "nobody")
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")


async def test_deleting_what_is_gone_or_another_is_no_error(api, kube):
    assert not await kube.delete(JOBS, "team", "nobody")
    job(api, "a")
    assert not await kube.delete(JOBS, "team", "a", uid="another")
    assert await kube.delete(JOBS, "team", "a")


async def test_requests_are_counted_and_carry_the_token(api):
    counted = []
    connection = kopf.ConnectionInfo(server=api.url, token="t")
    async with Kube(
        Credentials(lambda: connection), count=lambda verb, plural: counted.append((verb, plural))
    ) as kube:
        await kube.list(JOBS)
    assert counted == [("list", "jobs")]


def test_a_token_is_read_anew_now_and_then():
    now = [0.0]
    tokens = iter(["first", "second"])
    credentials = Credentials(
        lambda: kopf.ConnectionInfo(server="http://api", token=next(tokens)), lambda: now[0]
    )
    assert credentials.headers() == {"Authorization": "Bearer first"}
    now[0] = 59.0
    assert credentials.headers() == {"Authorization": "Bearer first"}
    now[0] = 61.0
    assert credentials.headers() == {"Authorization": "Bearer second"}
