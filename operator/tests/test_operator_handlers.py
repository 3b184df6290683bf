"""Both custom kinds through kopf, on a fake API server: what reaches the caches and what not."""

import asyncio

import pytest
from conftest import NAMESPACE
from support.eventually import eventually
from support.fake_api import RefusedRequestError

from orbiter_operator.handlers import NotFollowedError, WatchState, run_kopf
from orbiter_operator.kube.kopf_codec import (
    BoundedLines,
    BoundedResponse,
    Followed,
    Follower,
    responses,
)
from orbiter_operator.kube.resources import AGENT_TASKS, PO_SESSIONS
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.sessions.cache import SessionCache
from orbiter_operator.tasks.cache import TaskCache


class Noted:
    """A cache that also notes what handlers bring."""

    def __init__(self, cache):
        self._cache = cache
        self.brought = []

    def __getattr__(self, name):
        return getattr(self._cache, name)

    def put(self, obj):
        self.brought.append((obj["metadata"]["name"], obj["metadata"]["resourceVersion"]))
        self._cache.put(obj)

    def names(self):
        return {key.name for key in self._cache}


class Running:
    """kopf as the operator runs it, with one cache for each kind."""

    def __init__(self, api):
        self._api = api
        self.caches = {
            "agenttasks": Noted(TaskCache(lambda key: None)),
            "posessions": Noted(SessionCache(lambda key: None)),
        }
        self.state = WatchState(*self.caches, patience=2.0)
        kinds = (
            Followed(AGENT_TASKS, "AgentTask", self.caches["agenttasks"]),
            Followed(PO_SESSIONS, "POSession", self.caches["posessions"]),
        )
        self.task = asyncio.create_task(run_kopf(kinds, (), lambda: None, self.state))

    async def follow(self):
        for plural, cache in self.caches.items():
            self.put(plural, "first")
            await eventually(lambda cache=cache: "first" in cache.names())
        await eventually(lambda: not self.state.interrupted)

    def put(self, plural, name):
        meta = {"name": name, "namespace": NAMESPACE}
        return self._api.put(plural, {"metadata": meta, "spec": {"userId": name}})


@pytest.fixture
async def kopf(api, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    running = Running(api)
    await running.follow()
    yield running
    await end([running.task])


KINDS = pytest.mark.parametrize("plural", ["agenttasks", "posessions"])


@KINDS
async def test_the_echo_of_our_own_write_reaches_no_handler(api, kopf, plural):
    cache = kopf.caches[plural]
    kopf.put(plural, "mine")
    await eventually(lambda: "mine" in cache.names())
    answer = api.patch(plural, NAMESPACE, "mine", {"status": {"phase": "Pending"}})
    cache._cache.put(api.get(plural, NAMESPACE, "mine"))
    kopf.put(plural, "behind")
    await eventually(lambda: "behind" in cache.names())
    assert answer is not None
    assert [name for name, _ in cache.brought] == ["first", "mine", "behind"]


@KINDS
async def test_what_somebody_else_changed_reaches_the_cache(api, kopf, plural):
    cache = kopf.caches[plural]
    api.patch(plural, NAMESPACE, "first", {"spec": {"desiredState": "Cancelled"}})
    version = api.get(plural, NAMESPACE, "first")["metadata"]["resourceVersion"]
    await eventually(lambda: ("first", version) in cache.brought)
    api.remove(plural, NAMESPACE, "first")
    await eventually(lambda: not cache.names())


@KINDS
async def test_what_was_deleted_while_no_watch_ran_is_missing_in_the_next_list(api, kopf, plural):
    cache = kopf.caches[plural]
    kopf.put(plural, "ghost")
    await eventually(lambda: "ghost" in cache.names())
    api.forget_history()
    api.objects[plural].pop((NAMESPACE, "ghost"))
    kopf.put(plural, "new")
    await eventually(lambda: cache.names() == {"first", "new"})
    assert [name for name, _ in cache.brought].count("first") == 1, "the cache had it"


@KINDS
async def test_the_server_may_go_away_and_come_back(api, kopf, plural):
    await api.stop()
    await eventually(lambda: plural in kopf.state.interrupted)
    kopf.put(plural, "meanwhile")
    await api.start()
    await eventually(lambda: "meanwhile" in kopf.caches[plural].names())
    await eventually(lambda: not kopf.state.interrupted)


async def test_a_broken_watch_of_one_kind_is_named_and_the_other_is_followed(api, kopf):
    async def refuse(verb, plural, body):
        if (verb, plural) == ("watch", "agenttasks"):
            raise RefusedRequestError(503, "ServiceUnavailable", "etcd is away")

    api.before = refuse
    api.forget_history()
    await eventually(lambda: kopf.state.interrupted == ["agenttasks"])
    kopf.put("posessions", "meanwhile")
    await eventually(lambda: "meanwhile" in kopf.caches["posessions"].names())


@KINDS
async def test_nothing_is_ever_written_to_the_objects(api, kopf, plural):
    meta = {
        "name": "marked",
        "namespace": NAMESPACE,
        "annotations": {"kopf.zalando.org/last-handled-configuration": "{not json"},
        "finalizers": ["kopf.zalando.org/KopfFinalizerMarker"],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    api.put(plural, {"metadata": meta, "spec": {"userId": 7}})
    await eventually(lambda: "marked" in kopf.caches[plural].names())
    api.remove(plural, NAMESPACE, "marked")
    await eventually(lambda: "marked" not in kopf.caches[plural].names())
    assert api.writes == 0
    assert {agent for _, _, agent in api.asked} == {"orbiter-operator"}


async def test_a_kind_that_discovery_does_not_name_makes_kopf_begin_anew(
    api, tmp_path, monkeypatch
):
    """Right after its CRD was applied a kind can be listed before discovery names it."""
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    known = api._discovery

    def without_tasks(path):
        found = known(path)
        for item in (found or {}).get("resources", ()):
            if item["name"] == "agenttasks":
                found["resources"].remove(item)
        return found

    api._discovery = without_tasks
    running = Running(api)
    with pytest.raises(NotFollowedError, match="did not name agenttasks among its kinds"):
        await asyncio.wait_for(running.task, 20.0)


async def test_a_watch_that_the_server_ends_with_an_error_is_interrupted_and_asked_for_again(
    monkeypatch,
):
    """kopf itself takes any error but 410 for the end of the operator."""
    monkeypatch.setattr("orbiter_operator.kube.kopf_codec._ERROR_SECONDS", 0.0)
    interruptions = []

    class Content:
        async def iter_chunked(self, size):
            yield b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'
            yield b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"no"}}\n'

    class Answer(responses(Follower({}, lambda path, why: interruptions.append((path, why))))):
        def __init__(self):
            pass

        def __del__(self):
            pass

        url = type("Url", (), {"name": "agenttasks", "path": "/apis/agenttasks"})

    assert issubclass(Answer, BoundedResponse)
    lines = BoundedLines(Content(), Answer()).iter_chunked(1)
    assert b"410" in await anext(lines)
    with pytest.raises(Exception, match="no"):
        await anext(lines)
    assert interruptions == [("/apis/agenttasks", "no")]
