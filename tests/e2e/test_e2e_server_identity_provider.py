"""People of an identity provider at the server: the API server knows them, and nobody else has to.

The server is this process; the API server is the cluster's, which is told of a scripted issuer.
"""

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import yaml
from support.cluster import STATE
from support.eventually import eventually
from support.identity_provider import IdentityProvider
from support.world import World, task

from orbiter import Agent
from orbiter.models import ScriptedModel
from orbiter.server import ServerConfig, create_app

TEAM, OTHER = "e2e-oidc-a", "e2e-oidc-b"
TASKS = "/v1/cluster/tasks"
CONFIGURATION = STATE / "data" / "config" / "authentication.yaml"
# the API server looks at its file once a minute where the machine does not tell it
RELOAD_SECONDS = 120

Enter = Callable[[str], httpx.AsyncClient]


def _host_of(world: World) -> str:
    """The address of this machine at which the API server reaches it."""
    config = yaml.safe_load(world.cluster.kubeconfig.read_text())
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    with socket.create_connection((str(server.hostname), server.port or 443)) as connection:
        return str(connection.getsockname()[0])


@pytest.fixture
async def issuer(world: World, tmp_path: Path) -> AsyncIterator[IdentityProvider]:
    """An issuer that the API server believes."""
    before = CONFIGURATION.read_text()
    async with IdentityProvider(_host_of(world), tmp_path / "issuer").running() as issuer:
        told = json.loads(before) | {"jwt": [issuer.authenticator()]}
        CONFIGURATION.write_text(json.dumps(told))
        try:
            yield issuer
        finally:
            CONFIGURATION.write_text(before)


@pytest.fixture
async def enter(world: World, tmp_path: Path) -> AsyncIterator[Enter]:
    """Clients of a server for which a token is the API server's own to judge."""
    config = ServerConfig(
        directory=tmp_path / "server", auth="kubernetes", audience="", namespace=f"{TEAM},{OTHER}",
        kubeconfig=world.cluster.kubeconfig,
    )  # fmt: skip
    app = create_app(
        {"helper": Agent(name="helper")}, config=config, provider=ScriptedModel("Hi.", repeat=True)
    )
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(app.router.lifespan_context(app))

        def client(token: str) -> httpx.AsyncClient:
            return httpx.AsyncClient(
                transport=httpx.ASGITransport(app), base_url="http://server",
                headers={"Authorization": f"Bearer {token}"}, timeout=30,
            )  # fmt: skip

        for namespace in (TEAM, OTHER):
            stack.enter_context(world.cluster.namespace(namespace))
            world.apply(task(f"of-{namespace}", "x", namespace=namespace))
        yield client


async def test_people_of_an_identity_provider_see_and_do_what_the_cluster_lets_them(
    world: World, issuer: IdentityProvider, enter: Enter
) -> None:
    world.kubectl("-n", TEAM, "create", "role", "works", "--verb=get,list,patch",
                  "--resource=agenttasks.orbiter.dev")  # fmt: skip
    for name, whom in (("group", "--group=oidc:developers"), ("bob", "--user=oidc:bob@acme.test")):
        world.kubectl("-n", TEAM, "create", "rolebinding", name, "--role=works", whom)
    good = issuer.token("ada")

    async def known() -> bool:
        return (await enter(good).get(TASKS)).status_code == 200

    await eventually(known, seconds=RELOAD_SECONDS)
    assert "/keys" in issuer.asked
    ada = enter(good)
    assert [item["namespace"] for item in (await ada.get(TASKS)).json()["items"]] == [TEAM]
    assert (await ada.get(f"{TASKS}/{OTHER}/of-{OTHER}")).status_code == 403
    # a right of the person and not of the group
    bob = enter(issuer.token("bob", groups=["guests"]))
    assert (await bob.get(TASKS)).json()["total"] == 1
    eve = enter(issuer.token("eve", groups=["guests"]))
    assert (await eve.get(TASKS)).json()["total"] == 0
    path = f"{TASKS}/{TEAM}/of-{TEAM}"
    assert (await ada.get(path)).json()["actions"] == ["cancel"]
    assert (await ada.post(f"{path}/cancel")).status_code == 202
    spec = world.cluster.get("agenttask", f"of-{TEAM}", TEAM)["spec"]
    assert (spec["desiredState"], spec["cancelledBy"]) == ("Cancelled", "oidc:ada@acme.test")
    head, body, signature = good.split(".")
    for bad in (
        issuer.token("ada", seconds=-60), issuer.token("ada", aud="somebody-else"),
        issuer.token("ada", iss="https://127.0.0.1:1"), f"{head}.{body}.{signature[::-1]}",
    ):  # fmt: skip
        assert (await enter(bad).get(TASKS)).status_code == 401
