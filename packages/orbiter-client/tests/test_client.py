"""TaskClient against an API server: what is written to it, and each reason of a refusal."""

import asyncio
import doctest

import pytest
from pydantic import ValidationError
from support.fake_api import RefusedRequestError

from orbiter.approval import digest
from orbiter.client import ClientError, GitSource, NewTask, TaskQuery, changes, connect
from orbiter.client.changes import name_of_key
from orbiter.client.objects import OPERATOR, read_task

from .conftest import put_task

pytestmark = pytest.mark.integration
TEAM = "team-a"
WANTED = NewTask(prompt="Fix the login page", agent="codex")
ASKED = {"id": "q1", "question": "main or trunk?", "askedAt": "2026-01-01T00:00:00Z"}


def spec(api, name):
    return api.get("agenttasks", TEAM, name)["spec"]


async def refusal(doing):
    with pytest.raises(ClientError) as caught:
        await doing
    return caught.value


async def test_a_task_is_made_of_what_is_wanted(api, tasks):
    wanted = NewTask(
        prompt="Fix it", name="full", cluster_profile="strict", agent="codex", model="big",
        credentials="", system_prompt="be brief", max_turns=9, max_cost_usd=1.5,
        git=GitSource(url="https://git.example.com/shop.git", branch="fix", push=True),
        artifacts=["out"], timeout_seconds=60, retries=0, ttl_seconds=5, depends_on=["first"],
        concurrency_key="k", project_id="shop",
    )  # fmt: skip
    made = await tasks.submit(wanted, namespace=TEAM)
    assert (made.created, made.task.name, made.task.agent) == (True, "full", "codex")
    assert spec(api, "full") == {
        "prompt": "Fix it",
        "profileRef": {"kind": "ClusterAgentProfile", "name": "strict"},
        "agent": {"type": "codex", "model": "big", "maxTurns": 9, "maxCostUSD": 1.5,
                  "systemPrompt": "be brief"},
        "workspace": {"git": {"url": "https://git.example.com/shop.git", "branch": "fix",
                              "push": "Always"}},
        "artifacts": ["out"], "timeoutSeconds": 60, "retry": {"limit": 0},
        "ttlSecondsAfterFinished": 5, "dependsOn": ["first"], "concurrencyKey": "k",
        "projectId": "shop",
    }  # fmt: skip


async def test_who_names_no_agent_has_the_default_profile_where_there_is_one(api, tasks):
    bare = NewTask(prompt="Fix it")
    first = (await tasks.submit(bare, namespace=TEAM)).task
    assert spec(api, first.name)["agent"] == {
        "type": "claude", "credentialsSecretRef": {"name": "claude-credentials"},
    }  # fmt: skip
    api.put("agentprofiles", {"metadata": {"name": "default", "namespace": TEAM}, "spec": {}})
    second = (await tasks.submit(bare, namespace=TEAM)).task
    assert spec(api, second.name) == {"prompt": "Fix it", "profileRef": {"name": "default"}}


@pytest.mark.parametrize("key", ["nightly-1", "Order 66/a", "x" * 255])
async def test_a_key_names_the_task_and_the_same_request_makes_no_other(api, tasks, key):
    first = await tasks.submit(WANTED, namespace=TEAM, key=key)
    again = await tasks.submit(WANTED, namespace=TEAM, key=key)
    assert (first.created, again.created) == (True, False)
    assert first.task.name == again.task.name == name_of_key(key)
    assert len(api.objects["agenttasks"]) == 1


async def test_a_key_is_of_one_request_however_many_send_it_at_once(api, tasks):
    made = await asyncio.gather(
        *(tasks.submit(WANTED, namespace=TEAM, key="once") for _ in range(8))
    )
    assert sorted(each.created for each in made) == [False] * 7 + [True]


async def test_another_request_with_the_same_key_is_refused(api, tasks):
    await tasks.submit(WANTED, namespace=TEAM, key="once")
    other = WANTED.model_copy(update={"retries": 3})
    assert (await refusal(tasks.submit(other, namespace=TEAM, key="once"))).code == "other_task"
    assert "retry" not in spec(api, "once")


async def test_a_forged_digest_makes_nobody_elses_task_of_a_key_ours(api, tasks):
    await tasks.submit(WANTED, namespace=TEAM, key="once")
    theirs = api.get("agenttasks", TEAM, "once")
    theirs["spec"]["prompt"] = "mine bitcoin"
    api.put("agenttasks", theirs)
    assert (await refusal(tasks.submit(WANTED, namespace=TEAM, key="once"))).code == "other_task"


async def test_a_task_that_a_key_names_and_no_request_has_made_is_not_ours(api, tasks):
    put_task(api, "once")
    assert (await refusal(tasks.submit(WANTED, namespace=TEAM, key="once"))).code == "other_task"
    named = WANTED.model_copy(update={"name": "once"})
    assert (await refusal(tasks.submit(named, namespace=TEAM))).code == "exists"
    assert (await refusal(tasks.submit(named, namespace=TEAM, key="k"))).code == "invalid"


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "é", "\x00"])
async def test_what_is_no_key_is_refused_before_anything_is_asked(api, tasks, key):
    error = await refusal(tasks.submit(WANTED, namespace=TEAM, key=key))
    assert (error.code, error.field) == ("invalid", "Idempotency-Key")
    assert api.writes == 0


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"prompt": ""}, {"prompt": "x" * 262_145}, {"prompt": "x", "name": "Not A Name"},
        {"prompt": "x", "spec": {}}, {"prompt": "x", "retries": -1}, {"prompt": "x", "agent": "A"},
        {"prompt": "x", "profile": "a", "cluster_profile": "b"}, {"prompt": "x", "git": {}},
        {"prompt": "x", "max_cost_usd": float("nan")}, {"prompt": "x", "depends_on": ["a"] * 65},
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_no_task(fields):
    with pytest.raises(ValidationError):
        NewTask.model_validate(fields)


async def test_tasks_are_listed_in_pages(api, tasks):
    for number in range(5):
        put_task(api, f"t{number}", phase="Running" if number else "Failed")
    first = await tasks.list(TaskQuery(namespace=TEAM, limit=3))
    assert [each.name for each in first.items] == ["t0", "t1", "t2"]
    rest = await tasks.list(TaskQuery(namespace=TEAM, limit=3, after=first.next))
    assert ([each.name for each in rest.items], rest.next) == (["t3", "t4"], "")
    failed = await tasks.list(TaskQuery(phase="Failed"))
    assert [each.name for each in failed.items] == ["t0"]
    api.forget_history()
    gone = await refusal(tasks.list(TaskQuery(namespace=TEAM, limit=3, after=first.next)))
    assert gone.code == "conflict"


async def test_a_task_is_watched_until_it_asks_and_then_until_its_end(api, tasks):
    put_task(api, phase="Running", progress="step 1")
    seen = []

    async def watch():
        async for task in tasks.watch(TEAM, "fix"):
            seen.append((task.phase, task.progress, task.question_id))
            if task.progress == "step 1":
                put_task(api, "other", phase="Failed")
                put_task(api, phase="InputRequired", inputRequest=ASKED)

    await watch()
    assert seen == [("Running", "step 1", ""), ("InputRequired", "", "q1")]
    await tasks.answer(TEAM, "fix", "main", question_id="q1")
    seen.clear()
    async for task in tasks.watch(TEAM, "fix"):
        seen.append(task.phase)
        if len(seen) == 1:
            api.forget_history()  # the watch is lost, and another one goes on
            put_task(api, phase="Completed", result={"summary": "done"})
    assert (seen, task.summary, task.over) == (["InputRequired", "Completed"], "done", True)


async def test_a_watch_ends_in_time_and_of_what_is_gone_at_once(api, tasks):
    put_task(api, phase="Running")
    assert [task.phase async for task in tasks.watch(TEAM, "fix", seconds=0.2)] == ["Running"]

    async def gone():
        async for _ in tasks.watch(TEAM, "fix"):
            api.remove("agenttasks", TEAM, "fix")

    assert (await refusal(gone())).code == "not_found"
    assert (await refusal(tasks.get(TEAM, "fix"))).code == "not_found"


async def test_a_question_is_answered_once_and_by_name(api, tasks):
    put_task(api, phase="InputRequired", inputRequest=ASKED)
    other = await refusal(tasks.answer(TEAM, "fix", "main", question_id="q0"))
    assert other.code == "other_request"
    await tasks.answer(TEAM, "fix", "main", question_id="q1")
    assert spec(api, "fix")["input"] == [{"id": "q1", "text": "main", "by": "ada"}]
    replayed = await refusal(tasks.answer(TEAM, "fix", "trunk", question_id="q1"))
    assert replayed.code == "other_request"


async def test_an_approval_goes_with_the_digest_of_the_call_that_waits(api, tasks):
    call = {"tool": "deploy", "arguments": {"to": "prod"}}
    call["digest"] = digest(**call)
    put_task(
        api, phase="InputRequired", inputRequest={**ASKED, "kind": "approval", "calls": [call]}
    )
    assert (await tasks.get(TEAM, "fix")).approval
    assert (await refusal(tasks.answer(TEAM, "fix", "perhaps"))).code == "no_answer"
    await tasks.answer(TEAM, "fix", "approve")
    assert call["digest"] in spec(api, "fix")["input"][0]["text"]


async def test_a_task_is_cancelled_and_done_once_more(api, tasks):
    put_task(api, phase="Running")
    assert (await refusal(tasks.retry(TEAM, "fix"))).code == "wrong_phase"
    await tasks.cancel(TEAM, "fix")
    await tasks.cancel(TEAM, "fix")
    assert api.requests["patch", "agenttasks"] == 1
    assert spec(api, "fix")["cancelledBy"] == "ada"
    put_task(api, phase="Cancelled")
    assert (await refusal(tasks.cancel(TEAM, "fix"))).code == "wrong_phase"
    assert (await refusal(tasks.retry(TEAM, "fix", resume=True))).code == "wrong_phase"
    again = await tasks.retry(TEAM, "fix", new_name="fix-2", max_cost_usd=3)
    assert spec(api, again.name) == {
        "prompt": "Fix it", "agent": {"type": "claude", "maxCostUSD": 3},
    }  # fmt: skip
    assert (await refusal(tasks.retry(TEAM, "fix", new_name="fix-2"))).code == "exists"


async def test_what_another_program_runs_is_left_to_it(api, tasks):
    put_task(api, phase="Running")
    api.patch("agenttasks", TEAM, "fix", {"spec": {"managedBy": "orbiter.dev/task-broker"}})
    for doing in (tasks.cancel(TEAM, "fix"), tasks.answer(TEAM, "fix", "x")):
        assert (await refusal(doing)).code == "managed_elsewhere"
    api.patch("agenttasks", TEAM, "fix", {"spec": {"managedBy": OPERATOR}})
    await tasks.cancel(TEAM, "fix")


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, "refused"), (403, "refused"), (422, "refused"), (409, "conflict"), (500, "unreachable")],
)
async def test_the_api_servers_word_is_the_reason(api, tasks, status, code):
    put_task(api, phase="Running")

    async def refuse(verb, plural, body):
        if verb == "patch":
            raise RefusedRequestError(status, "Refused", "ada may not: no")

    api.before = refuse
    error = await refusal(tasks.cancel(TEAM, "fix"))
    assert (error.code, "ada may not: no" in str(error)) == (code, True)


async def test_a_token_and_an_address_are_enough_and_nothing_else_is_presented(api, tmp_path):
    put_task(api, phase="Running")
    async with connect(url=api.url, token="ada.token") as client:
        await client.get(TEAM, "fix")
    assert {bearer for *_, bearer in api.bearers} == {"Bearer ada.token"}
    for given in ({"url": api.url}, {"token": "t"}, {"ca": "x"}):
        with pytest.raises(ClientError):
            connect(**given)


async def test_an_api_server_that_is_away_is_said(api, tasks):
    await api.stop()
    assert (await refusal(tasks.get(TEAM, "fix"))).code == "unreachable"
    await api.start()


@pytest.mark.parametrize(
    "status",
    [
        {"phase": 7, "attempts": -1, "usage": [], "inputRequest": "x", "result": None},
        {"phase": "InputRequired", "inputRequest": {"id": 3, "calls": "no", "askedAt": "?"}},
        {"phase": "InputRequired", "inputRequest": {"id": "q", "calls": [3, {"tool": []}]}},
        {"phase": "x" * 9000, "usage": {"costUSD": True}, "startTime": "9999-12-31T23:59:59-9"},
    ],
)  # fmt: skip
def test_a_strange_task_is_read_all_the_same(status):
    meta = {"name": "odd", "namespace": TEAM, "labels": {"a": 1}, "creationTimestamp": 3}
    found = read_task({"metadata": meta, "spec": {"prompt": ["x"], "input": 3}, "status": status})
    assert found.name == "odd"
    assert len(found.model_dump_json()) < 60_000


def test_the_examples_of_the_module_tell_what_is_so():
    outcome = doctest.testmod(changes)
    assert (outcome.failed, outcome.attempted) == (0, 4)
