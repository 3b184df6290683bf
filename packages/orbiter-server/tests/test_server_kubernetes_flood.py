"""Who asks without an end keeps nobody else waiting, with a good token or with none."""

import asyncio

import pytest
from support.eventually import eventually

from orbiter.server._internal import reviews as module

pytestmark = pytest.mark.integration
ADA, BOB = "ada.token", "bob.token"
MANY = 40


@pytest.fixture
async def server(start, api, reviews, tmp_path, monkeypatch):
    """A server that asks about each request anew."""
    monkeypatch.setattr(module, "YES_SECONDS", 0.0)
    for token, user in ((ADA, "ada"), (BOB, "bob")):
        reviews.token(token, user)
        reviews.give(user, "use", "agents", "default")
    return await start(auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path))


class Hanging:
    """An API server that does not answer the questions about somebody."""

    def __init__(self, api, plural, about):
        self.released = asyncio.Event()
        self.waiting = 0
        self._plural, self._about = plural, about
        api.before = self._before

    async def _before(self, verb, plural, body):
        if plural == self._plural and self._about(body["spec"]):
            self.waiting += 1
            await self.released.wait()


async def get(server, token, path="/v1/agents"):
    return await server.http.get(path, headers={"Authorization": f"Bearer {token}"})


async def test_tokens_that_are_nobodys_keep_nobody_waiting_who_is_known(server, api):
    assert (await get(server, ADA)).status_code == 200
    hanging = Hanging(api, "tokenreviews", lambda spec: spec["token"].startswith("nobody"))
    flood = [asyncio.create_task(get(server, f"nobody-{n}")) for n in range(MANY)]
    await eventually(lambda: hanging.waiting >= module.OF_STRANGERS)
    try:
        assert (await get(server, ADA)).status_code == 200
        assert hanging.waiting == module.OF_STRANGERS
    finally:
        hanging.released.set()
    assert {answer.status_code for answer in await asyncio.gather(*flood)} == {401}


async def test_one_person_keeps_nobody_waiting(server, api):
    assert (await get(server, ADA)).status_code == 200
    hanging = Hanging(api, "subjectaccessreviews", lambda spec: spec["user"] == "bob")
    flood = [
        asyncio.create_task(get(server, BOB, f"/v1/cluster/tasks/team-a/n{n}")) for n in range(MANY)
    ]
    await eventually(lambda: hanging.waiting >= module.OF_A_PERSON)
    try:
        assert (await get(server, ADA)).status_code == 200
        assert hanging.waiting == module.OF_A_PERSON
    finally:
        hanging.released.set()
    assert {answer.status_code for answer in await asyncio.gather(*flood)} == {403}
