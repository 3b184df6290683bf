"""Watches are read much at once, lose nothing by it, and notice a connection that has died."""

import asyncio

import aiohttp
import pytest
from support.eventually import eventually

from orbiter_operator.kube import JOBS


def add_jobs(api, first, last):
    for number in range(first, last):
        api.put("jobs", {"metadata": {"name": f"job-{number}", "namespace": "team"}, "spec": {}})


async def test_what_comes_while_nothing_is_read_is_handed_out_in_its_order(api, kube):
    names, pauses = [], []
    _, since = await kube.list(JOBS, "team")

    async def follow():
        loop, last = asyncio.get_running_loop(), 0.0
        async for event in kube.watch(JOBS, "team", since=since, gather=0.2):
            if loop.time() - last > 0.1:
                pauses.append(len(names))
            last = loop.time()
            names.append(event["object"]["metadata"]["name"])

    following = asyncio.create_task(follow())
    add_jobs(api, 0, 1)
    await eventually(lambda: names == ["job-0"])
    add_jobs(api, 1, 500)
    await eventually(lambda: len(names) == 500)
    following.cancel()
    assert names == [f"job-{number}" for number in range(500)]
    assert pauses[0] == 0, "the first at once"
    assert len(pauses) < 10, "the others many at a time"


async def test_a_silent_watch_ends(kube):
    events = kube.watch(JOBS, "team", since="1", silence=0.2)
    with pytest.raises(aiohttp.SocketTimeoutError, match=r"nothing was said for 0\.2 s"):
        await anext(events)
