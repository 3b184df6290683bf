"""The server on the cluster, for people of two namespaces, each with a token of the cluster.

A release of its own, with tasks that no operator looks after.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack

import httpx
import pytest
from support.cluster import CommandError
from support.eventually import eventually
from support.installation import MODEL_URL, SERVERS
from support.ports import free_port
from support.world import World, task

from orbiter.server._internal.reviews import YES_SECONDS

from .test_e2e_server import LOCAL, Reader

HOME = RELEASE = "e2e-people"
NAME = f"{RELEASE}-orbiter-server"
TEAMS = ("e2e-team-a", "e2e-team-b")
TASKS = "/v1/cluster/tasks"
SETTINGS = (
    f"watchNamespaces={{{','.join((HOME, *TEAMS))}}}",
    f"workers.namespaces={{{HOME}}}",
    # the server alone
    "operator.replicas=0",
    "redis.external.existingSecret=none",
    "rbac.aggregateToUserRoles=false",
    "networkPolicy.modelServer.enabled=true",
    f"networkPolicy.modelServer.namespace={SERVERS}",
    f"server.env.ANTHROPIC_BASE_URL={MODEL_URL}",
    "server.persistence.size=64Mi",
    "server.transcripts=true",
    "crds.install=false",
)
FLAGS = (*LOCAL, *(word for setting in SETTINGS for word in ("--set", setting)))
# what the reading of one's token and of one's rights may take beside the seconds they are kept
SLACK = 20


@pytest.fixture(scope="module")
def reader(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """The server installed as the page says, two teams with a task each, and an administrator."""
    with contextlib.ExitStack() as stack:
        for namespace in (HOME, *TEAMS):
            stack.enter_context(world.cluster.namespace(namespace))
        for namespace in TEAMS:
            world.apply(task(f"of-{namespace}", "x", namespace=namespace))
            world.kubectl("-n", namespace, "create", "serviceaccount", "person")
            world.kubectl(
                *("-n", namespace, "create", "role", "looks", "--verb=get,list"),
                "--resource=agenttasks.orbiter.dev,posessions.orbiter.dev",
            )
            bind(world, namespace, "looks", "looks")
        world.kubectl("-n", HOME, "create", "serviceaccount", "root")
        admin = ("clusterrolebinding", f"{HOME}-root")
        world.kubectl(
            "create", *admin, "--clusterrole=cluster-admin", f"--serviceaccount={HOME}:root"
        )
        stack.callback(world.kubectl, "delete", *admin)
        reader = Reader(world, tmp_path_factory.mktemp("reader"), RELEASE, FLAGS)
        words = ("uninstall", RELEASE, "-n", HOME, "--ignore-not-found", "--wait")
        stack.callback(world.cluster.helm, *words, "--timeout", "100s")
        reader.follow(0)
        yield reader


def bind(world: World, namespace: str, name: str, role: str, of: str = "") -> None:
    """Give the person of a team a role."""
    account = f"--serviceaccount={of or namespace}:person"
    world.kubectl("-n", namespace, "create", "rolebinding", name, f"--role={role}", account)


def token(world: World, namespace: str, name: str = "person", *more: str) -> str:
    words = ("-n", namespace, "create", "token", name, *(more or ("--audience=orbiter-server",)))
    return world.kubectl(*words).strip()


Enter = Callable[..., httpx.AsyncClient]


@pytest.fixture
async def enter(world: World, reader: Reader) -> AsyncIterator[Enter]:
    """Clients of the server, through one port-forward, each with a token of its own."""
    async with AsyncExitStack() as stack:
        port = stack.enter_context(world.forward(f"service/{NAME}", 8000, HOME))
        clients = []

        def client(token: str) -> httpx.AsyncClient:
            headers = {"Authorization": f"Bearer {token}"}
            made = httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30
            )
            clients.append(made)
            return made

        yield client
        for one in clients:
            await one.aclose()


async def shown(client: httpx.AsyncClient, **query: str) -> list[str]:
    answer = await client.get(TASKS, params=query)
    assert answer.status_code == 200, answer.text
    return sorted(item["namespace"] for item in answer.json()["items"])


async def test_each_sees_their_own_namespace_and_an_administrator_all(
    world: World, enter: Enter
) -> None:
    for team in TEAMS:
        person = enter(token(world, team))
        assert await shown(person) == [team]
        answer = await person.get(f"{TASKS}/{team}/of-{team}")
        assert (answer.status_code, answer.json()["name"]) == (200, f"of-{team}")
    root = enter(token(world, HOME, "root"))
    assert await shown(root) == list(TEAMS)
    for team in TEAMS:
        assert (await root.get(f"{TASKS}/{team}/of-{team}")).status_code == 200


async def test_a_transcript_needs_a_right_of_its_own(world: World, enter: Enter) -> None:
    ours, theirs = TEAMS
    person, path = enter(token(world, ours)), f"{TASKS}/{ours}/of-{ours}/transcript"
    answer = await person.get(path)
    assert answer.status_code == 403
    assert f"person may not get agenttasks/transcript.orbiter.dev of-{ours}" in answer.text
    reads = ("--verb=get", "--resource=agenttasks.orbiter.dev/transcript")
    world.kubectl("-n", ours, "create", "role", "reads", *reads)
    bind(world, ours, "reads", "reads")
    answer = await enter(token(world, ours)).get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "transcript_not_found")
    other = await enter(token(world, ours)).get(f"{TASKS}/{theirs}/of-{theirs}/transcript")
    assert other.status_code == 403


async def test_a_forged_name_or_namespace_is_refused(world: World, enter: Enter) -> None:
    ours, theirs = TEAMS
    person = enter(token(world, ours))
    for path in (f"{theirs}/of-{theirs}", f"{theirs}/missing", "kube-system/x", "missing/x"):
        assert (await person.get(f"{TASKS}/{path}")).status_code == 403, path
    for name in (theirs, "kube-system", "missing"):
        answer = await person.get(TASKS, params={"namespace": name})
        assert answer.status_code == 403, name
        assert f"system:serviceaccount:{ours}:person may not list" in answer.text
    for name in ("", "*", f"{ours},{theirs}", f"{ours}/../{theirs}"):
        assert (await person.get(TASKS, params={"namespace": name})).status_code == 422, name
    for path in (f"{ours}/..%2F{theirs}", f"*/of-{theirs}", f"{ours}%2F..%2F{theirs}/of-{theirs}"):
        assert (await person.get(f"{TASKS}/{path}")).status_code == 404, path


async def test_a_token_that_is_not_good_opens_nothing(world: World, enter: Enter) -> None:
    team = TEAMS[0]
    good = token(world, team)
    head, body, signature = good.split(".")
    world.kubectl("-n", team, "create", "secret", "generic", "held")
    bound = token(
        world, team, "person", "--audience=orbiter-server",
        "--bound-object-kind=Secret", "--bound-object-name=held",
    )  # fmt: skip
    assert await shown(enter(bound)) == [team]
    world.kubectl("-n", team, "delete", "secret", "held")
    other_audience = token(world, team, "person", "--audience=somebody-else")
    of_the_api = token(world, team, "person", "--duration=10m")
    for bad in (
        "garbage", "a.b.c", f"{head}.{body}.{signature[::-1]}", f"{head}.{body}.",
        good + "x" * 20_000, other_audience, of_the_api,
    ):  # fmt: skip
        answer = await enter(bad).get(TASKS)
        assert answer.status_code == 401, bad[:20]
        assert bad not in answer.text
    late = enter(bound)

    async def ended() -> bool:
        return (await late.get(TASKS)).status_code == 401

    await eventually(ended, seconds=YES_SECONDS + SLACK)
    logs = world.kubectl("-n", HOME, "logs", f"deployment/{NAME}")
    assert not any(secret in logs for secret in (good, bound, other_audience, of_the_api))


async def test_a_right_that_is_taken_away_is_gone_within_the_seconds_it_is_kept(
    world: World, enter: Enter
) -> None:
    team = TEAMS[1]
    person = enter(token(world, team))
    assert await shown(person) == [team]
    world.kubectl("-n", team, "delete", "rolebinding", "looks")
    began = time.monotonic()
    try:

        async def refused() -> bool:
            return (await person.get(TASKS, params={"namespace": team})).status_code == 403

        await eventually(refused, seconds=YES_SECONDS + SLACK)
        assert time.monotonic() - began < YES_SECONDS + 5
        await eventually(lambda: _empty(person), seconds=YES_SECONDS + SLACK)
    finally:
        bind(world, team, "looks", "looks")


async def _empty(person: httpx.AsyncClient) -> bool:
    return await shown(person) == []


async def test_agents_need_a_right_and_a_stream_ends_with_it(world: World, enter: Enter) -> None:
    ours, theirs = TEAMS
    person, other = enter(token(world, ours)), enter(token(world, theirs))
    asked = {"input": "[[hang]]"}
    assert (await person.post("/v1/agents/helper/runs", json=asked)).status_code == 403
    for number, team in enumerate(TEAMS):
        bind(world, HOME, f"talks-{number}", f"{NAME}-user", team)

    async def allowed() -> bool:
        answers = [await one.get("/v1/agents") for one in (person, other)]
        return {answer.status_code for answer in answers} == {200}

    await eventually(allowed, seconds=YES_SECONDS + SLACK)
    run = (await person.post("/v1/agents/helper/runs", json=asked)).json()
    for path in (f"/v1/runs/{run['id']}", f"/v1/sessions/{run['session_id']}"):
        assert (await person.get(path)).status_code == 200
        assert (await other.get(path)).status_code == 404
    began = 0.0
    async with asyncio.timeout(YES_SECONDS + SLACK):
        async with person.stream("GET", f"/v1/runs/{run['id']}/events") as stream:
            async for _ in stream.aiter_lines():
                if not began:
                    world.kubectl("-n", HOME, "delete", "rolebinding", "talks-0")
                    began = time.monotonic()
    assert time.monotonic() - began < YES_SECONDS + 5
    assert (await person.get("/v1/agents")).status_code == 403


def good_at_both(world: World) -> tuple[str, ...]:
    """What a token is made with that acts too: the API server's own audience is its issuer."""
    told = json.loads(world.kubectl("get", "--raw", "/.well-known/openid-configuration"))
    return "--audience=orbiter-server", f"--audience={told['issuer']}"


async def test_who_presents_a_token_of_the_api_server_too_acts_as_themselves(
    world: World, enter: Enter
) -> None:
    team = TEAMS[0]
    path, both = f"{TASKS}/{team}/of-{team}", good_at_both(world)
    looks = enter(token(world, team, "person", *both))
    assert (await looks.get(path)).json()["actions"] == []
    refused = await looks.post(f"{path}/cancel")
    assert refused.status_code == 403
    assert "cannot patch resource" in refused.text, "these are the API server's words"
    works = ("--verb=patch,create", "--resource=agenttasks.orbiter.dev")
    world.kubectl("-n", team, "create", "role", "works", *works)
    bind(world, team, "works", "works")
    for_the_page = enter(token(world, team))
    assert (await for_the_page.get(path)).json()["actions"] == []
    refused = await for_the_page.post(f"{path}/cancel")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "reads_only")
    secret = token(world, team, "person", *both)
    person = enter(secret)
    assert (await person.get(path)).json()["actions"] == ["cancel"]
    assert (await person.post(f"{path}/cancel")).status_code == 202
    spec = world.cluster.get("agenttask", f"of-{team}", team)["spec"]
    who = f"system:serviceaccount:{team}:person"
    assert (spec["desiredState"], spec["cancelledBy"]) == ("Cancelled", who)
    other = await person.post(f"{TASKS}/{TEAMS[1]}/of-{TEAMS[1]}/cancel")
    assert other.status_code == 403
    # no operator is there to say that it is over
    over = json.dumps({"status": {"phase": "Cancelled"}})
    world.kubectl(
        *("-n", team, "patch", "agenttask", f"of-{team}", "--subresource=status"),
        *("--type=merge", "-p", over),
    )
    for wanted, status in (({"name": "again"}, 201), ({"name": "again"}, 409), ({}, 201)):
        answer = await person.post(f"{path}/retry", json=wanted)
        assert answer.status_code == status, answer.text
        if status == 201:
            made = answer.json()["name"]
            assert made == wanted.get("name", made)
            assert world.cluster.get("agenttask", made, team)["spec"]["desiredState"] == "Running"
    for name in ("again", made):
        world.kubectl("-n", team, "delete", "agenttask", name)
    assert secret not in world.kubectl("-n", HOME, "logs", f"deployment/{NAME}")


def test_the_page_on_the_server_says_what_is_so_of_a_person(reader: Reader) -> None:
    reader.follow(1, free_port())


@pytest.mark.parametrize(
    ("verb", "kind", "allowed"),
    [
        ("create", "tokenreviews.authentication.k8s.io", True),
        ("create", "subjectaccessreviews.authorization.k8s.io", True),
        ("create", "serviceaccounts/token", False),
        ("impersonate", "users", False),
        ("get", "secrets", False),
    ],
)
def test_the_server_may_ask_about_people_and_not_be_them(
    world: World, reader: Reader, verb: str, kind: str, allowed: bool
) -> None:
    account = f"system:serviceaccount:{HOME}:{NAME}"
    try:
        said = world.kubectl("-n", HOME, "auth", "can-i", verb, kind, "--as", account)
    except CommandError:
        said = "no"
    assert said.strip().splitlines()[-1] == ("yes" if allowed else "no")
