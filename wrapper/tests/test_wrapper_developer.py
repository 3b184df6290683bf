"""A developer worker as a whole process: what it answers, to whom, and how it leaves."""

import json
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.namespaced import NAMESPACES
from support.queues import RECORD, TASK, Queues, routing
from support.wrapper import API_KEY, FakeClaude, Wrappers

from orbiter_contracts.queues import BARE, DEVELOPER_GROUP

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("namespace", NAMESPACES, indirect=True),
]


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


async def test_a_standalone_worker_answers_one_task_and_leaves(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.says('All good. <result>{"summary": "fixed", "commit_sha": "abc"}</result>')
    await queues.task("fix the login", request_id="r-1", project_id="shop")
    await queues.task("another one")
    wrapper = wrappers.start()
    assert await wrapper.exit_code() == 0
    output = await queues.output()
    assert (output.request_id, output.task_id, output.worker_id) == ("r-1", "t-1", "w-1")
    assert output.project_id == "shop"
    assert output.status == "success"
    assert output.verdict is not None
    assert output.verdict.summary == "fixed"
    assert output.commit_sha == "abc"
    assert output.usage is not None
    assert output.usage.output_tokens == 5
    assert output.started_at is not None
    assert output.finished_at is not None
    assert output.finished_at >= output.started_at
    assert output.duration_ms is not None
    assert [turn.prompt for turn in fake_claude.turns] == ["fix the login"]
    assert await queues.redis.xlen(BARE.developer_input) == 1


async def test_the_lifecycle_tells_the_story_of_one_task(
    wrappers: Wrappers, queues: Queues
) -> None:
    await queues.task(request_id="r-1")
    await wrappers.start(SESSION_ID="5e55104e-0000-4000-8000-000000000000").exit_code()
    assert await queues.story() == "started ready busy completed stopped"
    busy, completed = (await queues.lifecycle())[2:4]
    known = {
        "request_id": "r-1",
        "task": "t-1",
        "session_id": "5e55104e-0000-4000-8000-000000000000",
    }
    assert busy.details == known
    assert completed.details == {**known, "status": "success"}


async def test_a_worker_that_waits_gets_the_task_that_comes(
    wrappers: Wrappers, queues: Queues
) -> None:
    wrapper = wrappers.start()
    await queues.told("ready")
    await queues.task()
    assert (await queues.output()).status == "success"
    assert await wrapper.exit_code() == 0


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ("echo broken >&2; exit 3", "error", "AgentError"),
        ("echo '{}'", "error", "AgentError"),
    ],
)
async def test_an_agent_that_fails_is_an_outcome_and_the_exit_code_is_0(
    wrappers: Wrappers,
    queues: Queues,
    fake_claude: FakeClaude,
    script: str,
    status: str,
    reason: str,
) -> None:
    fake_claude.does(script)
    await queues.task()
    assert await wrappers.start().exit_code() == 0
    output = await queues.output()
    assert (output.status, output.reason) == (status, reason)
    assert output.duration_ms is not None
    assert await queues.story() == "started ready busy failed stopped"


async def test_a_task_that_takes_too_long_times_out(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    await queues.task(timeout=1)
    assert await wrappers.start().exit_code() == 0
    assert (await queues.output()).status == "timeout"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"nonsense": "1"}, "no field 'data'"),
        ({"data": "not json"}, "DeveloperWorkerInput"),
        ({"data": '{"task_id": "t-1", "prompt": ""}'}, "prompt"),
        ({"data": '{"task_id": "t-1", "prompt": "x", "timeout": -1}'}, "timeout"),
    ],
)
async def test_a_malformed_entry_is_dead_lettered_and_is_not_the_one_job(
    wrappers: Wrappers, queues: Queues, fields: dict[str, str], why: str
) -> None:
    await queues.redis.xadd(BARE.developer_input, fields)
    await queues.task("the real one")
    assert await wrappers.start().exit_code() == 0
    assert (await queues.output()).status == "success"
    (letter,) = await queues.dead_letters()
    assert why in letter.pop("reason")
    assert letter == fields
    assert await queues.is_settled()


async def test_two_standalone_workers_share_the_queue(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    for number in range(2):
        await queues.task(f"task {number}", request_id=f"r-{number}")
    both = [wrappers.start("w-1"), wrappers.start("w-2")]
    await eventually(lambda: len(fake_claude.turns) == 2)
    fake_claude.release()
    assert [await wrapper.exit_code() for wrapper in both] == [0, 0]
    await queues.output(2)
    assert {output.request_id for output in await queues.outputs()} == {"r-0", "r-1"}
    assert {turn.prompt for turn in fake_claude.turns} == {"task 0", "task 1"}


async def test_a_worker_that_leaves_is_no_consumer_of_the_group_any_more(
    wrappers: Wrappers, queues: Queues
) -> None:
    await queues.task()
    await wrappers.start().exit_code()
    assert await queues.redis.xinfo_consumers(BARE.developer_input, DEVELOPER_GROUP) == []


async def test_a_bound_worker_runs_exactly_its_entry(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    await queues.task("somebody else's")
    bound = await queues.bound_task("mine", request_id="r-1")
    assert await wrappers.start(**bound).exit_code() == 0
    assert [turn.prompt for turn in fake_claude.turns] == ["mine"]
    assert (await queues.output()).request_id == "r-1"


async def test_a_bound_workers_news_carries_its_task_and_attempt(
    wrappers: Wrappers, queues: Queues
) -> None:
    await wrappers.start(**await queues.bound_task()).exit_code()
    (_, output), *_ = await queues.redis.xrange(BARE.developer_output)
    events = [fields for _, fields in await queues.redis.xrange(BARE.lifecycle)]
    assert len(events) == 5
    for fields in (output, *events):
        assert routing(fields) == {"agenttask": TASK, "attempt": "1"}
    assert (await queues.lifecycle())[2].details["task"] == TASK


async def test_a_bound_workers_output_is_written_into_the_attempts_record(
    wrappers: Wrappers, queues: Queues
) -> None:
    bound = await queues.bound_task()
    await wrappers.start(**bound).exit_code()
    (output_id, _), *_ = await queues.redis.xrange(BARE.developer_output)
    assert await queues.redis.hgetall(RECORD) == {
        "entry": bound["TASK_ENTRY_ID"],
        "output": output_id,
    }
    assert await queues.is_settled()


async def test_a_bound_worker_takes_its_entry_from_whoever_was_handed_it(
    wrappers: Wrappers, queues: Queues
) -> None:
    bound = await queues.bound_task()
    await queues.redis.xreadgroup(DEVELOPER_GROUP, "somebody", {BARE.developer_input: ">"})
    assert await wrappers.start(**bound).exit_code() == 0
    assert (await queues.output()).status == "success"
    assert await queues.is_settled()


async def test_a_bound_worker_whose_entry_is_gone_has_nothing_to_do(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    bound = await queues.bound_task()
    await queues.redis.xdel(BARE.developer_input, bound["TASK_ENTRY_ID"])
    wrapper = wrappers.start(**bound)
    assert await wrapper.exit_code() == 0
    assert await queues.outputs() == []
    assert fake_claude.turns == []
    assert await queues.story() == "started ready stopped"
    assert (await wrapper.logged("already_done"))["entry"] == bound["TASK_ENTRY_ID"]


async def test_a_standalone_worker_leaves_bound_entries_alone(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    bound = await queues.bound_task("the Job's")
    await queues.task("anybody's")
    assert await wrappers.start("w-1").exit_code() == 0
    assert [turn.prompt for turn in fake_claude.turns] == ["anybody's"]
    assert await wrappers.start("job-1", **bound).exit_code() == 0
    assert [turn.prompt for turn in fake_claude.turns] == ["anybody's", "the Job's"]


async def test_a_malformed_bound_entry_is_answered_and_dead_lettered(
    wrappers: Wrappers, queues: Queues
) -> None:
    await queues.group(BARE.developer_input, DEVELOPER_GROUP)
    bound = await queues.bound_entry({"data": '{"task_id": "t-9", "request_id": "r-9"}'})
    assert await wrappers.start(**bound).exit_code() == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("error", "InvalidMessage")
    assert (output.request_id, output.task_id) == ("r-9", "t-9")
    assert "prompt" in (output.error or "")
    assert "prompt" in (await queues.dead_letters())[0]["reason"]
    assert await queues.is_settled()


async def test_a_bound_worker_without_a_record_settles_its_entry_all_the_same(
    wrappers: Wrappers, queues: Queues
) -> None:
    await queues.task("somebody else's")
    entry = await queues.task("mine")
    assert await wrappers.start(TASK_ENTRY_ID=entry).exit_code() == 0
    await queues.output()
    assert await queues.redis.xrange(BARE.developer_input, entry, entry) == []


async def test_no_secret_reaches_output_log_argv_or_agent(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    secret = json.dumps(f"my key is {API_KEY}")
    fake_claude.says(f'<result>{{"summary": {secret}}}</result>')
    await queues.task()
    wrapper = wrappers.start(LOG_LEVEL="debug")
    await wrapper.exit_code()
    (_, fields), *_ = await queues.redis.xrange(BARE.developer_output)
    (turn,) = fake_claude.turns
    assert API_KEY not in fields["data"] + wrapper.output + " ".join(turn.argv)
    assert "my key is [redacted]" in fields["data"]
    assert "REDIS_URL" not in turn.env
    assert turn.env["ANTHROPIC_API_KEY"] == API_KEY


async def test_it_leaves_without_the_interpreters_end_in_which_threads_of_clients_abort(
    wrappers: Wrappers, queues: Queues, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import atexit, os\natexit.register(os.abort)\n")
    await queues.task()
    wrapper = wrappers.start(PYTHONPATH=str(tmp_path))
    assert await wrapper.exit_code() == 0
    assert await queues.story() == "started ready busy completed stopped"
