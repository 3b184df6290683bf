"""What every request to the API server says of itself, and lists that are longer than a page."""

import asyncio

import pytest
from support.fake_api import RefusedRequestError

from orbiter_operator.kube.client import PAGE, ApiError
from orbiter_operator.kube.resources import AGENT_TASKS, JOBS

pytestmark = pytest.mark.integration
MANY = 2 * PAGE + 3


def put(api, count):
    for number in range(count):
        meta = {"name": f"task-{number}", "namespace": "team", "labels": {"of": str(number % 2)}}
        api.put("agenttasks", {"metadata": meta, "spec": {}})


@pytest.mark.parametrize("selector", ["", "of=1"])
async def test_a_long_list_comes_in_pages_and_is_whole(api, kube, selector):
    put(api, MANY)
    found, version = await kube.list(AGENT_TASKS, selector=selector)
    names = [item["metadata"]["name"] for item in found]
    assert len(names) == len(set(names)) == (MANY // 2 if selector else MANY)
    assert api.requests["list", "agenttasks"] == (2 if selector else 3)
    assert int(version) >= MANY


async def test_what_changes_between_two_pages_is_later_than_the_lists_version(api, kube):
    put(api, PAGE + 1)

    async def more(verb, plural, body):
        if api.requests["list", "agenttasks"] == 2:
            api.put("agenttasks", {"metadata": {"name": "late", "namespace": "team"}})

    api.before = more
    _, version = await kube.list(AGENT_TASKS)
    late = api.get("agenttasks", "team", "late")
    assert int(version) < int(late["metadata"]["resourceVersion"]), "its watch will tell"


async def test_pages_that_took_too_long_are_asked_for_at_once(api, kube):
    put(api, MANY)

    async def forget(verb, plural, body):
        if api.requests["list", "agenttasks"] == 2:
            api.forget_history()

    api.before = forget
    found, _ = await kube.list(AGENT_TASKS)
    assert len({item["metadata"]["name"] for item in found}) == MANY
    assert len(found) == MANY
    assert [query.get("limit") for _, query, _ in api.asked] == [str(PAGE), str(PAGE), "0"]


async def test_a_list_that_is_forgotten_again_and_again_is_refused(api, kube):
    put(api, MANY)

    async def forget(verb, plural, body):
        if api.requests["list", "agenttasks"] > 1:
            raise RefusedRequestError(410, "Expired", "gone")

    api.before = forget
    with pytest.raises(ApiError, match="gone"):
        async with asyncio.timeout(10):
            await kube.list(AGENT_TASKS)
    assert api.requests["list", "agenttasks"] == 3, "a page, another, and all at once"


async def test_a_list_that_is_refused_is_refused(api, kube):
    async def refuse(verb, plural, body):
        raise RefusedRequestError(410, "Expired", "gone")

    api.before = refuse
    with pytest.raises(ApiError, match="gone"):
        await kube.list(AGENT_TASKS)


async def test_every_write_says_whose_it_is_and_what_is_made_has_no_unknown_field(api, kube):
    job = {"metadata": {"name": "one", "namespace": "team"}, "spec": {}}
    await kube.create(JOBS, "team", job)
    await kube.patch(JOBS, "team", "one", {"metadata": {"labels": {"a": "b"}}})
    await kube.patch_status(JOBS, "team", "one", {"status": {}})
    made = await kube.get(JOBS, "team", "one")
    await kube.replace(JOBS, "team", "one", made)
    await kube.apply(JOBS, "team", {"metadata": {"name": "one"}, "spec": {}})
    writes = [query for verb, query, _ in api.asked if verb not in ("get", "list")]
    assert len(writes) == 5
    assert {query["fieldManager"] for query in writes} == {"orbiter"}
    strict = [query.get("fieldValidation") for query in writes]
    assert strict == ["Strict", None, None, None, "Strict"]
    assert {agent for _, _, agent in api.asked} == {"orbiter-operator"}
