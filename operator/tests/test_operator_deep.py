"""What a tenant may store in a field that keeps everything stops the operator for nobody else."""

import asyncio
import json

import aiohttp
import pytest
from conftest import NAMESPACE
from support.eventually import eventually

from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.resources import AGENT_TASKS, JOBS, PO_SESSIONS
from orbiter_operator.tasks.cache import TaskCache

MARK = "the-overlay"
STRANGE = {
    "1100 nested objects": b'{"a":' * 1100 + b"1" + b"}" * 1100,
    "9000 nested lists": b'{"spec":' + b"[" * 9000 + b"]" * 9000 + b"}",
    "500 nested objects": b'{"spec":' + b'{"a":' * 500 + b"{}" + b"}" * 501,
    "500000 empty lists": b'{"spec":{"containers":[' + b"[]," * 499_999 + b"[]]}}",
    "half a character": b'{"spec":{"nodeName":"\\ud800","containers":7}}',
    "an integer beyond 64 bits": b'{"spec":{"containers":' + b"9" * 30 + b"}}",
    "an integer of 5000 digits": b'{"spec":{"containers":' + b"9" * 5000 + b"}}",
    "1e999": b'{"spec":{"containers":1e999}}',
    "no UTF-8": b'{"spec":{"nodeName":"\xff\xfe","containers":7}}',
}


def write_as(api, overlay: bytes) -> None:
    """The overlay that is only a mark goes over the wire as these bytes."""
    api.encode = lambda value: json.dumps(value).encode().replace(f'"{MARK}"'.encode(), overlay)


@pytest.mark.parametrize("overlay", STRANGE.values(), ids=STRANGE)
async def test_a_task_with_a_strange_overlay_is_refused_and_all_others_are_done(world, overlay):
    write_as(world.api, overlay)
    world.apply("listed", podTemplate=MARK)
    world.apply("before")
    operator = await world.start_operator()
    await world.until("before", "Completed")
    world.apply("watched", podTemplate=MARK)
    world.apply("behind")
    await world.until("behind", "Completed")
    for name in ("listed", "watched"):
        status = await world.until(name, "Failed")
        assert status["reason"] == "InvalidSpec"
        assert "spec.podTemplate" in status["message"]
    assert await ready(operator)
    assert said_of_failures(operator) == []


@pytest.mark.parametrize("overlay", STRANGE.values(), ids=STRANGE)
async def test_a_session_with_a_strange_overlay_is_refused_and_all_others_are_served(
    world, overlay
):
    write_as(world.api, overlay)
    session(world, "listed", 1, podTemplate=MARK)
    session(world, "before", 2)
    operator = await world.start_operator()
    await phase(world, "before", "Asleep")
    session(world, "watched", 3, podTemplate=MARK)
    session(world, "behind", 4)
    await phase(world, "behind", "Asleep")
    for name in ("listed", "watched"):
        found = await phase(world, name, "Failed")
        said = [item for item in found["conditions"] if item["reason"] == "InvalidSpec"]
        assert said
        assert "spec.podTemplate" in said[0]["message"]
    assert await ready(operator)
    assert said_of_failures(operator) == []


@pytest.mark.parametrize("resource", [AGENT_TASKS, PO_SESSIONS, JOBS], ids=lambda kind: kind.plural)
async def test_the_changes_of_a_deep_object_are_followed_and_its_end_is_too(api, kube, resource):
    write_as(api, STRANGE["1100 nested objects"])
    store = TaskCache(lambda key: None)
    informer = Informer(kube, resource, store, namespaces=())
    await informer.compare()
    follower = asyncio.create_task(informer.follow())
    metadata = {"name": "deep", "namespace": NAMESPACE}
    api.put(resource.plural, {"metadata": dict(metadata), "spec": {"podTemplate": MARK}})
    await eventually(lambda: len(store) == 1)
    api.remove(resource.plural, NAMESPACE, "deep")
    await eventually(lambda: not len(store))
    assert informer.synced
    follower.cancel()
    await asyncio.gather(follower, return_exceptions=True)


async def test_a_line_of_a_watch_that_is_no_json_is_passed_over(api, kube):
    write_as(api, b"{")
    store = TaskCache(lambda key: None)
    informer = Informer(kube, AGENT_TASKS, store, namespaces=())
    await informer.compare()
    follower = asyncio.create_task(informer.follow())
    for name, spec in (("torn", {"podTemplate": MARK}), ("whole", {})):
        meta = {"name": name, "namespace": NAMESPACE}
        api.put("agenttasks", {"metadata": meta, "spec": spec})
    await eventually(lambda: len(store) == 1)
    assert informer.synced
    follower.cancel()
    await asyncio.gather(follower, return_exceptions=True)


def session(world, name, user, **spec):
    meta = {"name": name, "namespace": NAMESPACE}
    body = {"userId": user, "agent": {"type": "claude"}, **spec}
    world.api.put("posessions", {"metadata": meta, "spec": body})


async def phase(world, name, wanted):
    def status():
        return (world.api.get("posessions", NAMESPACE, name) or {}).get("status") or {}

    await eventually(lambda: status().get("phase") == wanted)
    return status()


async def ready(operator) -> bool:
    lines = [json.loads(line) for line in operator.log.read_text().splitlines()]
    port = next(line["health_port"] for line in lines if line["event"] == "serving")
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"http://127.0.0.1:{port}/readyz") as response,
    ):
        return response.status == 200


def said_of_failures(operator) -> list[str]:
    lines = [json.loads(line) for line in operator.log.read_text().splitlines()]
    return [line["event"] for line in lines if line.get("level") in ("error", "critical")]
