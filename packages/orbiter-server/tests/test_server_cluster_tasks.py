"""Tasks of the cluster by HTTP: made once, followed, and what was kept of them, as whoever asks."""

import pytest
from support.fake_reviews import API_AUDIENCE

from orbiter_contracts.queues import Keys

from .test_server_mcp import put_task

pytestmark = pytest.mark.integration
TASKS = "/v1/cluster/tasks"
FIX = f"{TASKS}/team-a/fix"
ADA, BOB = "ada.token", "bob.token"
WANTED = {"namespace": "team-a", "prompt": "Fix the page", "agent": "codex"}
KEYS = Keys.of_namespace("team-a")


@pytest.fixture
async def people(start, api, reviews, tmp_path):
    """Ada acts; bob's token is for this server alone."""
    reviews.token(ADA, "ada", audience=("orbiter-server", API_AUDIENCE))
    reviews.token(BOB, "bob")
    for user in ("ada", "bob"):
        reviews.give(user, "get", "agenttasks", "team-a")
    server = await start(auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path), namespace="*")
    return server.signed_in(ADA), server.signed_in(BOB)


async def submit(server, key=None, **changes):
    headers = {} if key is None else {"Idempotency-Key": key}
    return await server.http.post(TASKS, json={**WANTED, **changes}, headers=headers)


def told(answer):
    return answer.status_code, answer.json().get("error", {}).get("code")


async def test_a_key_makes_one_task_and_another_request_with_it_is_refused(people, api):
    ada, bob = people
    made = await submit(ada, "page-1")
    assert (made.status_code, made.json()) == (201, {"namespace": "team-a", "name": "page-1"})
    assert (await submit(ada, '"page-1"')).status_code == 200
    assert told(await submit(ada, "page-1", prompt="Delete it")) == (409, "other_task")
    assert told(await submit(ada, "page-1", name="other")) == (422, "invalid")
    assert told(await submit(ada, "x" * 256)) == (422, "invalid")
    assert told(await submit(ada, name="page-1")) == (409, "exists")
    assert told(await submit(bob, "page-2")) == (403, "reads_only")
    assert [name for _, name in api.objects["agenttasks"]] == ["page-1"]
    assert not [bearer for *_, bearer in api.bearers if BOB in bearer]


@pytest.mark.parametrize(
    "body",
    [{}, {"prompt": "x"}, {**WANTED, "namespace": "../kube-system"}, {**WANTED, "spec": {}},
     {**WANTED, "prompt": ""}, {**WANTED, "retries": "many"}, [], "x"],
)  # fmt: skip
async def test_a_malformed_task_is_refused_before_anything_is_asked(people, api, body):
    ada, _ = people
    assert (await ada.http.post(TASKS, json=body)).status_code == 422
    assert not [verb for verb, *_ in api.bearers if verb == "create"]


async def test_a_task_is_followed_to_its_end_and_gone_on_with(people, api):
    _, bob = people
    put_task(api, phase="Running")
    seen = []
    async for event in bob.events(f"{FIX}/events", last=7):
        seen.append((event["seq"], event["task"]["phase"]))
        if len(seen) == 1:
            put_task(api, phase="InputRequired", inputRequest={"id": "q", "question": "?"})
        elif len(seen) == 2:
            put_task(api, phase="Completed")
    assert seen == [(8, "Running"), (9, "InputRequired"), (10, "Completed")]
    assert (await bob.http.get(f"{TASKS}/team-a/none/events")).status_code == 404
    assert (await bob.http.get(f"{TASKS}/team-b/fix/events")).status_code == 403
