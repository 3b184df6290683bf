"""A pod that has to go costs an attempt nothing: the next one goes on where it was."""

import json
import shlex
import shutil
import signal
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.git_repositories import git, make_template
from support.namespaced import NAMESPACES
from support.queues import RECORD, Queues
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts import Checkpoint, read_checkpoint
from orbiter_contracts.exit_codes import INTERRUPTED
from orbiter_contracts.queues import checkpoint_of, transcript_of
from orbiter_contracts.transcript_reading import TranscriptReader, read_entry

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("namespace", NAMESPACES, indirect=True),
]
SESSION = "5e55104e-0000-4000-8000-000000000000"
EVENTS = [
    {
        "type": "stream_event",
        "event": {"type": "message_start", "message": {"usage": {"input_tokens": 100}}},
    },
    {"type": "stream_event", "event": {"type": "message_delta", "usage": {"output_tokens": 20}}},
]
COST = {
    "type": "cost-state",
    "totalCostUSD": 0.5,
    "modelUsage": {"m": {"inputTokens": 100, "outputTokens": 20, "costUSD": 0.5}},
}

# An agent that works until it is ended, and writes what it has done into the workspace. The second
# time it says what it was told and what it finds; a total goes on where the conversation has it.
WORKS = """
while [ $# -gt 0 ]; do
  case "$1" in --session-id|--resume) how=$1; id=$2 ;; esac
  shift
done
file="$HOME/.claude/projects/-work/$id.jsonl"
mkdir -p "$(dirname "$file")"
if [ "$how" = --resume ] && [ ! -e "$file" ]; then
  echo "No conversation found with session ID: $id" >&2; exit 1
fi
tr '\\n' ' ' <"$turn/prompt" >>"$file"; echo >>"$file"
if [ "$how" = --session-id ]; then
  {works}
  printf '%s\\n' {events}
  touch "$home/working"
  trap 'echo {cost} >>"$file"; exit 143' TERM
  trap 'echo interrupted >>"$file"; exit 130' INT
  while [ ! -e "$home/finish" ]; do sleep 0.05; done
fi
echo {cost_after} >>"$file"
{then}
cat {answer}
"""


class Agent:
    """A fake CLI that is cut off in the middle of its work."""

    def __init__(self, claude: FakeClaude, home: Path) -> None:
        self._home = home
        (home / "answer.json").write_text(
            json.dumps(
                {
                    "type": "result",
                    "num_turns": 1,
                    "result": "<result>{}</result>",
                    "total_cost_usd": 0.75,
                    "usage": {"input_tokens": 10, "output_tokens": 5},
                    "modelUsage": {"m": {"inputTokens": 110, "outputTokens": 25}},
                }
            )
        )
        self._claude = claude
        self.works()

    def works(self, script: str = "echo draft >draft.txt", then: str = ":") -> None:
        """What it does before it is cut off, and what afterwards."""
        self._claude.does(
            WORKS.format(
                works=script,
                events=" ".join(shlex.quote(json.dumps(event)) for event in EVENTS),
                cost=shlex.quote(json.dumps(COST)).replace('"', '\\"')[1:-1],
                cost_after="end",
                then=then,
                answer=shlex.quote(str(self._home / "answer.json")),
            )
        )

    def goes_on(self) -> None:
        """Have it do what waits for that."""
        (self._home / "more").touch()

    async def working(self) -> None:
        """Wait until it is in the middle of its work."""
        await eventually((self._home / "working").exists)


@pytest.fixture
def agent(fake_claude: FakeClaude) -> Agent:
    return Agent(fake_claude, fake_claude.bin.parent)


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


async def kept(queues: Queues) -> Checkpoint | None:
    return read_checkpoint(await queues.redis.hget(RECORD, "checkpoint"))


class Pods:
    """Pods of one attempt, each on a disk of its own."""

    def __init__(self, wrappers: Wrappers, bound: dict[str, str]) -> None:
        self._wrappers = wrappers
        self._bound = bound

    @property
    def work(self) -> Path:
        return self._wrappers.home.parent / "work"

    def start(self, **env: str) -> WrapperProcess:
        self._wrappers.end_agents()
        for path in (self._wrappers.home, self.work):
            if path.exists():
                shutil.rmtree(path)
        return self._wrappers.start("job-1", **{"SESSION_ID": SESSION, **self._bound, **env})


@pytest.fixture
async def pods(wrappers: Wrappers, queues: Queues) -> Pods:
    return Pods(wrappers, await queues.bound_task("paint it", request_id="r-1"))


SHORT = {"TERMINATION_GRACE_SECONDS": "4"}


async def test_an_attempt_goes_on_in_the_next_pod_with_its_conversation_and_its_files(
    pods: Pods, queues: Queues, agent: Agent, fake_claude: FakeClaude
) -> None:
    first = pods.start(**SHORT)
    await agent.working()
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    checkpoint = await kept(queues)
    assert checkpoint is not None
    assert (checkpoint.session, checkpoint.workspace, checkpoint.disruption) == (
        True,
        "Stored",
        True,
    )
    assert (checkpoint.turns, checkpoint.cost_usd) == (1, 0.5)
    assert await queues.outputs() == []
    assert not await queues.is_settled()
    second = pods.start(DISRUPTION_NOTE="Evicted")
    assert await second.exit_code() == 0
    output = await queues.output()
    assert (output.request_id, output.status, output.error) == ("r-1", "success", None)
    assert output.usage is not None
    assert (output.usage.input_tokens, output.usage.output_tokens) == (110, 25)
    assert output.usage.cost_usd == pytest.approx(0.75)
    assert output.usage.turns == 2
    assert (pods.work / "draft.txt").read_text() == "draft\n"
    turns = fake_claude.turns
    assert "--resume" in turns[1].argv
    assert "interrupted from outside (Evicted)" in turns[1].prompt
    assert "paint it" not in turns[1].prompt
    assert "interrupted" not in (pods.work.parent / "home").joinpath(
        f".claude/projects/-work/{SESSION}.jsonl"
    ).read_text().replace("interrupted from outside", "")
    assert not await queues.redis.exists(checkpoint_of(RECORD))
    assert len(await queues.outputs()) == 1
    assert await queues.is_settled()
    assert "checkpointed" in await queues.story()


def says(text: str) -> str:
    """A shell command that prints what Claude Code does while its model says this."""
    delta = {"delta": {"type": "text_delta", "text": text}}
    return f"echo {shlex.quote(json.dumps({'type': 'stream_event', 'event': delta}))}"


async def test_its_transcript_goes_on_too_and_has_one_end(
    pods: Pods, queues: Queues, agent: Agent
) -> None:
    agent.works(says("I begin."), then=says("I go on."))
    first = pods.start(**SHORT)
    await agent.working()
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    assert await pods.start().exit_code() == 0
    entries = await queues.redis.xrange(transcript_of(RECORD))
    reader = TranscriptReader()
    events = [event for _, fields in entries for event in reader.take(read_entry(fields))]
    assert [event.sequence for event in events] == [*range(len(events))]
    assert [event.text for event in events if event.type == "text"] == ["I begin.", "I go on."]
    assert [event.type for event in events].count("verdict") == 1
    assert events[-1].type == "verdict"
    assert events[-1].cost_usd == pytest.approx(0.75)


async def test_a_pod_that_is_killed_goes_on_from_what_was_kept_meanwhile(
    pods: Pods, queues: Queues, agent: Agent, fake_claude: FakeClaude
) -> None:
    first = pods.start(CHECKPOINT_SECONDS="0.2")
    await agent.working()
    await queues.told("checkpointed")
    first.send(signal.SIGKILL)
    await first.exit_code()
    checkpoint = await kept(queues)
    assert checkpoint is not None
    assert not checkpoint.disruption
    assert await pods.start().exit_code() == 0
    output = await queues.output()
    assert (output.request_id, output.status) == ("r-1", "success")
    assert (pods.work / "draft.txt").read_text() == "draft\n"
    # What the killed one had paid is known in tokens; their price is that of the others.
    assert output.usage is not None
    assert output.usage.input_tokens == 210
    assert output.usage.cost_usd == pytest.approx(0.75 * (1 + 200 / 235))
    assert len(await queues.outputs()) == 1
    assert len(fake_claude.turns) == 2


async def test_an_agent_of_ours_is_told_that_another_pod_has_begun(
    pods: Pods, queues: Queues, agent: Agent, fake_claude: FakeClaude
) -> None:
    """What a person has approved may have run there: it asks before it does that again."""
    (fake_claude.bin / "orbiter").symlink_to("claude")
    first = pods.start(AGENT_TYPE="orbiter")
    await agent.working()
    first.send(signal.SIGKILL)
    await first.exit_code()
    (fake_claude.bin.parent / "finish").touch()
    assert await pods.start(AGENT_TYPE="orbiter").exit_code() == 0
    assert (await queues.output()).status == "success"
    assert ["--again" in turn.argv for turn in fake_claude.turns] == [False, True]


async def test_asked_to_leave_it_keeps_the_work_at_once_and_lets_the_agent_finish(
    pods: Pods, queues: Queues, agent: Agent, fake_claude: FakeClaude
) -> None:
    agent.works(then="touch done")
    pod = pods.start(CHECKPOINT_SECONDS="0")
    await agent.working()
    assert await kept(queues) is None
    pod.send(signal.SIGTERM)
    await queues.told("checkpointed")
    (fake_claude.bin.parent / "finish").touch()
    assert await pod.exit_code() == 0
    assert (await queues.output()).status == "success"
    assert len(fake_claude.turns) == 1
    assert (pods.work / "done").exists()


async def test_while_it_finishes_its_work_is_kept_on_for_a_pod_that_is_killed_after_all(
    pods: Pods, queues: Queues, agent: Agent
) -> None:
    """A grace period may be an hour, and the machine may be gone long before its end."""
    more = shlex.quote(json.dumps(EVENTS[0]))
    agent.works(
        "(until [ -e $home/more ]; do sleep 0.05; done; echo more >more.txt;"
        f" printf '%s\\n' {more}) &"
    )
    first = pods.start(CHECKPOINT_SECONDS="0.2")
    await agent.working()
    first.send(signal.SIGTERM)

    async def left() -> bool:
        checkpoint = await kept(queues)
        return bool(checkpoint and checkpoint.disruption)

    await eventually(left)
    before = await kept(queues)
    assert before is not None
    agent.goes_on()

    async def kept_on() -> bool:
        checkpoint = await kept(queues)
        return bool(checkpoint and checkpoint.generation > before.generation)

    await eventually(kept_on)
    first.send(signal.SIGKILL)
    await first.exit_code()
    assert await pods.start().exit_code() == 0
    assert (await queues.output()).status == "success"
    assert (pods.work / "more.txt").read_text() == "more\n"


async def test_two_are_kept_and_a_damaged_one_is_set_aside(
    pods: Pods, queues: Queues, agent: Agent
) -> None:
    agent.works("echo draft >draft.txt; echo early >early.txt")
    first = pods.start(CHECKPOINT_SECONDS="0.2", **SHORT)
    await agent.working()
    await queues.told("checkpointed")
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    newest = await kept(queues)
    assert newest is not None
    assert newest.generation >= 2
    parts = checkpoint_of(RECORD)
    generations = {name.split(":")[0] for name in await queues.redis.hkeys(parts)}
    assert generations == {str(newest.generation), str(newest.generation - 1)}
    await queues.redis.hset(parts, f"{newest.generation}:session", "torn")
    second = pods.start()
    assert await second.exit_code() == 0
    output = await queues.output()
    assert output.status == "success"
    assert (pods.work / "draft.txt").exists()
    assert [w for w in output.warnings if f"checkpoint {newest.generation} was set aside" in w]


async def test_where_none_can_be_used_the_work_begins_again_and_its_cost_is_not_forgotten(
    pods: Pods, queues: Queues, agent: Agent, fake_claude: FakeClaude
) -> None:
    first = pods.start(CHECKPOINT_SECONDS="0", **SHORT)
    await agent.working()
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    await queues.redis.delete(checkpoint_of(RECORD))
    (fake_claude.bin.parent / "finish").touch()
    assert await pods.start().exit_code() == 0
    output = await queues.output()
    assert output.status == "success"
    assert output.usage is not None
    assert output.usage.cost_usd == pytest.approx(0.5 + 0.75)
    assert [w for w in output.warnings if "begins from the beginning" in w]
    assert fake_claude.turns[1].prompt == "paint it"
    assert "--session-id" in fake_claude.turns[1].argv


@pytest.mark.parametrize(
    ("field", "forged", "why"),
    [
        ("checkpoint", "x" * 20_000, "has 20000 bytes, and 16384 are the most"),
        ("checkpoint", '{"generation": 9007199254740991}', "is no checkpoint"),
        ("checkpoint", '{"generation": 77}', "is no checkpoint"),
        ("1:session", "x" * 1_100_000, "has 1100000 bytes"),
        (None, "in the way", "of another kind"),
    ],
    ids=["too long", "forged", "half", "large", "kind"],
)
async def test_what_no_worker_has_written_is_said_and_the_next_checkpoint_takes_its_place(
    pods: Pods,
    queues: Queues,
    agent: Agent,
    fake_claude: FakeClaude,
    field: str | None,
    forged: str,
    why: str,
) -> None:
    first = pods.start(CHECKPOINT_SECONDS="0", **SHORT)
    await agent.working()
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    parts, redis = checkpoint_of(RECORD), queues.redis
    if field is None:
        await redis.delete(parts)
        await redis.set(parts, forged)
    else:
        for name in await redis.hkeys(parts) if field != "checkpoint" else ():
            await redis.hset(parts, name.replace(name.split(":")[1], "session"), forged)
        if field == "checkpoint":
            await redis.hset(RECORD, field, forged)
    home = fake_claude.bin.parent
    (home / "working").unlink()
    second = pods.start(CHECKPOINT_SECONDS="0", **SHORT)
    await agent.working()
    second.send(signal.SIGTERM)
    assert await second.exit_code() == INTERRUPTED
    newest = await kept(queues)
    assert newest is not None
    assert newest.resumable
    (home / "finish").touch()
    assert await pods.start().exit_code() == 0
    output = await queues.output()
    assert output.status == "success"
    assert why in second.output


async def test_a_workspace_that_is_too_large_costs_the_resumption_and_never_the_money(
    pods: Pods, queues: Queues, agent: Agent, fake_claude: FakeClaude
) -> None:
    agent.works("head -c 2000000 /dev/urandom >noise")
    first = pods.start(**SHORT)
    await agent.working()
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    checkpoint = await kept(queues)
    assert checkpoint is not None
    assert (checkpoint.workspace, checkpoint.session, checkpoint.cost_usd) == (
        *("TooLarge", False),
        0.5,
    )
    assert await queues.redis.memory_usage(checkpoint_of(RECORD)) < 10_000
    (fake_claude.bin.parent / "finish").touch()
    assert await pods.start().exit_code() == 0
    output = await queues.output()
    assert [w for w in output.warnings if "too large for a checkpoint" in w]
    assert output.usage is not None
    assert output.usage.cost_usd == pytest.approx(1.25)


async def test_a_repository_that_git_cannot_read_costs_what_was_done_since_and_never_the_money(
    tmp_path: Path,
    wrappers: Wrappers,
    queues: Queues,
    agent: Agent,
    fake_claude: FakeClaude,
) -> None:
    """An agent that breaks it would else have all of its limits again in the next pod."""
    (tmp_path / "source").mkdir()
    source = make_template(tmp_path / "source")
    workspace = {"git": {"url": str(source), "branch": "fix"}}
    bound = await queues.bound_task("paint it", request_id="r-1", workspace=workspace)
    pods = Pods(wrappers, bound)
    agent.works("rm .git/HEAD")
    first = pods.start(**SHORT)
    await agent.working()
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    checkpoint = await kept(queues)
    assert checkpoint is not None
    assert (checkpoint.resumable, checkpoint.cost_usd, checkpoint.disruption) == (False, 0.5, True)
    assert checkpoint.agent_seconds > 0
    (fake_claude.bin.parent / "finish").touch()
    assert await pods.start().exit_code() == 0
    output = await queues.output()
    assert output.usage is not None
    assert output.usage.cost_usd == pytest.approx(1.25)


async def test_an_agent_that_signals_the_wrapper_again_and_again_gets_no_free_run(
    wrappers: Wrappers, queues: Queues, agent: Agent, fake_claude: FakeClaude
) -> None:
    agent.works("kill -TERM $PPID", then="kill -TERM $PPID; sleep 60")
    pods = Pods(wrappers, await queues.bound_task("paint it", request_id="r-1", timeout=5))
    for _ in range(10):
        pod = pods.start(**SHORT)
        if await pod.exit_code() == 0:
            break
        assert await queues.outputs() == []
    output = await queues.output()
    assert (output.status, output.reason) == ("timeout", "AgentTimeout")
    assert len(fake_claude.turns) <= 4
    assert output.usage is not None
    assert output.usage.cost_usd


async def test_what_the_timeout_has_left_is_all_that_the_next_pod_has(
    pods: Pods, queues: Queues, agent: Agent
) -> None:
    first = pods.start(**SHORT)
    await agent.working()
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    checkpoint = await kept(queues)
    assert checkpoint is not None
    assert checkpoint.agent_seconds > 1
    late = checkpoint.model_copy(update={"agent_seconds": 1800.0})
    await queues.redis.hset(RECORD, "checkpoint", late.model_dump_json())
    assert await pods.start().exit_code() == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("timeout", "AgentTimeout")
    assert output.usage is not None
    assert output.usage.cost_usd == pytest.approx(0.5)


async def test_with_restart_the_work_begins_again_in_the_same_attempt(
    pods: Pods, queues: Queues, agent: Agent, fake_claude: FakeClaude
) -> None:
    first = pods.start(DISRUPTION_POLICY="Restart", **SHORT)
    await agent.working()
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    (fake_claude.bin.parent / "finish").touch()
    assert await pods.start(DISRUPTION_POLICY="Restart").exit_code() == 0
    output = await queues.output()
    assert (output.request_id, output.status) == ("r-1", "success")
    assert fake_claude.turns[1].prompt == "paint it"
    assert output.usage is not None
    assert output.usage.cost_usd == pytest.approx(1.25)


async def test_with_fail_a_disruption_is_the_attempts_end(
    pods: Pods, queues: Queues, agent: Agent
) -> None:
    pod = pods.start(DISRUPTION_POLICY="Fail", **SHORT)
    await agent.working()
    pod.send(signal.SIGTERM)
    assert await pod.exit_code() == 0
    assert (await queues.output()).reason == "Terminated"
    assert await kept(queues) is None


async def test_a_task_made_of_another_one_goes_on_with_the_conversation_of_that(
    pods: Pods, queues: Queues, agent: Agent, fake_claude: FakeClaude
) -> None:
    first = pods.start(**SHORT)
    await agent.working()
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    other = "07ee7000-0000-4000-8000-000000000000"
    assert await pods.start(SESSION_ID=other).exit_code() == 0
    assert (await queues.output()).status == "success"
    argv = fake_claude.turns[1].argv
    assert argv[argv.index("--resume") + 1] == SESSION
    assert (pods.work / "draft.txt").exists()


async def test_what_a_repositorys_agent_has_done_is_in_the_clone_of_the_next_pod(
    wrappers: Wrappers, queues: Queues, agent: Agent, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    make_template(source)
    agent.works(
        "echo changed >first; git -c user.name=a -c user.email=a commit -qam mine;"
        " echo more >>first; echo new >untracked"
    )
    workspace = {"git": {"url": str(source), "branch": "work"}}
    bound = await queues.bound_task("paint it", request_id="r-1", workspace=workspace)
    pods = Pods(wrappers, bound)
    first = pods.start(**SHORT)
    await agent.working()
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    checkpoint = await kept(queues)
    assert checkpoint is not None
    assert checkpoint.base_commit == git(source, "rev-parse", "main")
    assert await pods.start().exit_code() == 0
    output = await queues.output()
    assert output.status == "success"
    assert output.workspace is not None
    assert output.workspace.base_sha == checkpoint.base_commit
    assert output.workspace.head_sha != checkpoint.base_commit
    assert git(pods.work, "log", "-1", "--format=%s") == "mine"
    assert (pods.work / "first").read_text() == "changed\nmore\n"
    assert (pods.work / "untracked").read_text() == "new\n"
