"""What an agent remembers when its disk is gone: stored with each answer, restored at the start."""

import shutil
import signal
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.namespaced import NAMESPACES
from support.queues import Queues
from support.redis_server import RedisServer, client_of
from support.wrapper import API_KEY, FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts.queues import BARE
from worker_wrapper.session.archive import MAGIC

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("namespace", NAMESPACES, indirect=True),
]

KEY = BARE.po_snapshot("po-1")


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture
def mindful(fake_claude: FakeClaude) -> FakeClaude:
    fake_claude.remembers()
    return fake_claude


def start(wrappers: Wrappers, **env: str) -> WrapperProcess:
    return wrappers.start("po-1", WORKER_TYPE="po", SNAPSHOT_KEY=KEY, **env)


async def move(wrappers: Wrappers, wrapper: WrapperProcess) -> None:
    """End the worker and lose its disk: the next one starts on another node."""
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code() == 0
    shutil.rmtree(wrappers.home)


async def test_a_conversation_goes_on_where_there_is_none_of_its_files(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    for prompt in ("one", "two", "three"):
        wrapper = start(wrappers)
        answers = await queues.converse(prompt)
        await move(wrappers, wrapper)
    assert [answer.text for answer in answers] == ["one|", "one|two|", "one|two|three|"]
    assert len({answer.session_id for answer in answers}) == 1
    resumed = ["--resume" in turn.argv for turn in mindful.turns]
    assert resumed == [False, True, True]


async def test_what_a_turn_costs_is_known_after_a_move_too(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    for _ in range(2):
        wrapper = start(wrappers)
        await queues.converse("hi")
        await move(wrappers, wrapper)
    state = await queues.state()
    assert (state.turns, state.input_tokens, state.output_tokens) == (2, 20, 10)


async def test_the_state_says_what_is_stored(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    start(wrappers)
    await queues.converse("one")
    kept = (await queues.state()).snapshot
    assert kept is not None
    assert (kept.stored, kept.reason) == (True, None)
    assert kept.bytes == await queues.redis.strlen(KEY)
    assert kept.limit == 16 * 1024 * 1024


async def test_a_memory_that_is_too_large_is_said_and_the_last_good_one_kept(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers()
    wrapper = start(wrappers, SNAPSHOT_MAX_BYTES="20000")
    await queues.converse("one")
    fake_claude.remembers(then='od -An -N40000 -x /dev/urandom >"$(dirname "$file")/noise"')
    large = (await queues.converse("two"))[-1]
    assert large.status == "success"
    assert "larger than 20000 bytes" in large.warnings[0]
    kept = (await queues.state()).snapshot
    assert kept is not None
    assert (kept.stored, kept.reason, kept.limit) == (False, "TooLarge", 20000)
    assert kept.bytes > 20000
    fake_claude.remembers()
    await move(wrappers, wrapper)
    start(wrappers, SNAPSHOT_MAX_BYTES="20000")
    assert (await queues.converse("three"))[-1].text == "one|three|"
    kept = (await queues.state()).snapshot
    assert kept is not None
    assert kept.stored


async def test_old_conversations_make_room_for_the_present_one(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(then='od -An -N8000 -x /dev/urandom >>"$file.$id"')
    wrapper = start(wrappers, SNAPSHOT_MAX_BYTES="20000")
    answers = await queues.converse("one", "/new two", "/new three", "/new four")
    assert [answer.warnings for answer in answers] == [[]] * 4
    await move(wrappers, wrapper)
    fake_claude.remembers()
    start(wrappers, SNAPSHOT_MAX_BYTES="20000")
    assert (await queues.converse("five"))[-1].text == "four|five|"


async def test_neither_keys_nor_other_files_of_the_agent_are_stored(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(
        then='echo "$ANTHROPIC_API_KEY" | tee "$HOME/.claude/.credentials.json" '
        '"$HOME/.claude/projects/-work/.credentials.json" >"$HOME/.netrc"'
    )
    wrapper = start(wrappers)
    await queues.converse("one")
    await move(wrappers, wrapper)
    fake_claude.remembers()
    start(wrappers)
    await queues.converse("two")
    for path in wrappers.home.rglob("*"):
        assert path.is_dir() or API_KEY not in path.read_text(), path


async def test_a_link_to_the_wrappers_environment_is_not_stored(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(then='ln -sf /proc/$PPID/environ "$(dirname "$file")/environ"')
    wrapper = start(wrappers)
    await queues.converse("one")
    await move(wrappers, wrapper)
    fake_claude.remembers()
    start(wrappers)
    await queues.converse("two")
    assert not list(wrappers.home.rglob("environ"))


async def test_without_a_key_nothing_is_stored_and_nothing_remembered(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    for prompt in ("one", "two"):
        wrapper = wrappers.start("po-1", WORKER_TYPE="po")
        answers = await queues.converse(prompt)
        await move(wrappers, wrapper)
    assert answers[1].text == "two|"
    assert not await queues.redis.exists(KEY)
    assert (await queues.state()).snapshot is None


async def test_a_snapshot_nobody_can_read_costs_the_memory_and_is_said(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    await queues.redis.set(KEY, MAGIC + b"claude\nnonsense")
    mindful.hold()
    wrapper = start(wrappers)
    await queues.message("one")
    await eventually(lambda: mindful.turns)
    kept = (await queues.state()).snapshot
    assert kept is not None
    assert (kept.stored, kept.reason) == (False, "Unreadable")
    mindful.release()
    assert (await queues.answers(1))[0].status == "success"
    assert (await wrapper.logged("snapshot_unreadable"))["key"] == f"{queues.redis.prefix}{KEY}"


async def test_the_agent_may_have_its_home_elsewhere(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    fake_claude.remembers(
        then='there="$CLAUDE_CONFIG_DIR/projects"; mkdir -p "$there"; cp "$file" "$there/copy"'
    )
    wrapper = start(wrappers, CLAUDE_CONFIG_DIR=str(elsewhere))
    await queues.converse("one")
    shutil.rmtree(elsewhere)
    await move(wrappers, wrapper)
    start(wrappers, CLAUDE_CONFIG_DIR=str(elsewhere))
    await eventually((elsewhere / "projects" / "copy").exists)
    assert not (wrappers.home / ".claude").exists()


async def test_a_redis_without_room_for_the_memory_gets_the_answer_all_the_same(
    wrappers: Wrappers, own_redis_server: RedisServer, fake_claude: FakeClaude, namespace: str
) -> None:
    fake_claude.remembers(then='od -An -N6000000 -x /dev/urandom >"$(dirname "$file")/noise"')
    async with client_of(own_redis_server, namespace) as client:
        queues = Queues(client)
        await client.config_set("maxmemory", 7_000_000)
        start(wrappers, REDIS_URL=own_redis_server.url)
        await queues.message("one")
        await eventually(lambda: client.exists("worker:po:po-1:output"), seconds=60)
        (answer,) = await queues.answers(1)
        assert answer.status == "success"
        kept = (await queues.state()).snapshot
        assert kept is not None
        assert (kept.stored, kept.reason) == (False, "NoMemory")
        assert not await client.exists(KEY)


@pytest.mark.parametrize(
    "left",
    [
        "mkdir -p .claude/projects/-work/.orbiter-draft/x",
        "cd .worker-wrapper; rm conversations.json; mkdir conversations.json",
        "rm .claude/projects/-work/*; mkfifo .claude/projects/-work/$id.jsonl",
        "rm .claude/projects/-work/*; mkdir -p .claude/projects/-work/$id.jsonl/x",
        "rm -r .claude; ln -s .claude .claude",
        "rm -r .claude; touch .claude",
        "rm -r .claude/projects/-work; ln -s /etc .claude/projects/-work",
    ],
)
async def test_whatever_an_agent_leaves_on_its_disk_the_next_process_remembers(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, left: str
) -> None:
    fake_claude.remembers()
    wrapper = start(wrappers)
    await queues.converse("one")
    dies = "kill -9 $PPID; exit"
    damage = f'[ -e "$home/done" ] || {{ touch "$home/done"; cd "$HOME"; {left}; {dies}; }}'
    fake_claude.remembers(then=damage)
    await queues.message("two")
    await wrapper.exit_code()
    start(wrappers)
    assert (await queues.answers(2))[-1].text == "one|two|"


_DEEP = """
cd "$HOME/.claude/projects"
name=$(printf %0255d 0)
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
  mkdir $name; cd -P $name 2>/dev/null || break
done
touch $(printf %0200d 0)
cd "$HOME"
"""


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (_DEEP, "has a path longer than 1024 bytes"),
        ('truncate -s 4G "$(dirname "$file")/hole"', "is larger than 268435456 bytes"),
        (
            'mkdir -p "$HOME/.claude/projects/many"; cd "$HOME/.claude/projects/many"; '
            'seq 20001 | xargs touch; cd "$HOME"',
            "has more than 20000 files",
        ),
    ],
    ids=["deep", "large", "many"],
)
async def test_a_memory_beyond_what_can_be_restored_costs_neither_the_turn_nor_the_last_good_one(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, then: str, why: str
) -> None:
    fake_claude.remembers()
    wrapper = start(wrappers)
    await queues.converse("one")
    fake_claude.remembers(then=then)
    answer = (await queues.converse("two"))[-1]
    assert (answer.status, answer.text) == ("success", "one|two|")
    assert answer.usage is not None
    assert why in answer.warnings[0]
    kept = (await queues.state()).snapshot
    assert kept is not None
    assert (kept.stored, kept.reason, kept.limit) == (False, "TooLarge", None)
    fake_claude.remembers()
    await move(wrappers, wrapper)
    start(wrappers)
    assert (await queues.converse("three"))[-1].text == "one|three|"


async def test_a_memory_that_cannot_be_read_costs_no_turn(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude, tmp_path: Path
) -> None:
    saboteur = tmp_path / "saboteur"
    saboteur.mkdir()
    (saboteur / "sitecustomize.py").write_text(_UNREADABLE_DISK)
    start(wrappers, PYTHONPATH=str(saboteur))
    (answer,) = await queues.converse("one")
    assert (answer.status, answer.text) == ("success", "one|")
    assert "could not be read (OSError: [Errno 5] a bad sector)" in answer.warnings[0]
    kept = (await queues.state()).snapshot
    assert kept is not None
    assert (kept.stored, kept.reason) == (False, "Failed")


async def test_a_memory_that_could_not_be_restored_whole_is_said_and_the_agent_works(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude, tmp_path: Path
) -> None:
    wrapper = start(wrappers)
    await queues.converse("one")
    await move(wrappers, wrapper)
    saboteur = tmp_path / "saboteur"
    saboteur.mkdir()
    (saboteur / "sitecustomize.py").write_text(_FULL_DISK)
    mindful.hold()
    wrapper = start(wrappers, PYTHONPATH=str(saboteur))
    await queues.message("two")
    await eventually(lambda: len(mindful.turns) == 2)
    kept = (await queues.state()).snapshot
    assert kept is not None
    assert (kept.stored, kept.reason) == (False, "Incomplete")
    mindful.release()
    assert (await queues.answers(2))[-1].status == "success"
    assert "No space left" in (await wrapper.logged("snapshot_file_skipped"))["error"]


async def test_a_key_of_another_kind_in_the_place_of_the_memory_is_replaced(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    await queues.redis.rpush(KEY, "not", "ours")
    wrapper = start(wrappers)
    assert [answer.text for answer in await queues.converse("one", "two")] == ["one|", "one|two|"]
    await wrapper.logged("snapshot_unreadable")
    assert await queues.redis.type(KEY) in (b"string", "string")


_UNREADABLE_DISK = """
from worker_wrapper.session import tree

def opened(found):
    import io
    class Bad(io.FileIO):
        def read(self, size=-1):
            raise OSError(5, "a bad sector")
        readinto = readall = read
    return Bad(found.path)

tree.opened = opened
"""

_FULL_DISK = """
from worker_wrapper.session import tree

real = tree.place

def place(root, parts, source, mtime):
    if parts:
        raise OSError(28, "No space left on device")
    real(root, parts, source, mtime)

tree.place = place
"""
