"""examples/telegram_bot.py, as a process, between a scripted Telegram and sessions' streams."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.chat_bots import PASSWORD, Bot, Sessions
from support.chat_bots import sessions as sessions
from support.eventually import eventually
from support.fake_chats import FakeTelegram
from support.real_agents import RealWorkers
from support.redis_proxy import RedisProxy, When, redis_proxy
from support.redis_server import RedisServer, login

from orbiter_contracts.queues import Keys

pytestmark = pytest.mark.integration
ALICE, BOB, STRANGER = 4711, 4712, 666


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as telegram:
        yield telegram


@pytest.fixture
async def bot(
    tmp_path: Path, telegram: FakeTelegram, sessions: Sessions, redis_server: RedisServer
) -> AsyncIterator[Bot]:
    bot = await a_bot(tmp_path, telegram, sessions, redis_server.url)
    bot.start()
    yield bot
    bot.kill()
    print(bot.log)
    assert FakeTelegram.token not in bot.log
    assert PASSWORD not in bot.log


async def a_bot(tmp_path: Path, telegram: FakeTelegram, sessions: Sessions, url: str) -> Bot:
    users = tmp_path / "users"
    users.write_text(
        sessions.line(str(ALICE), ALICE, "alice") + sessions.line(str(BOB), BOB, "bob")
    )
    return Bot(
        "telegram_bot.py",
        tmp_path / "bot.log",
        REDIS_URL=await sessions.allow(url),
        USERS_FILE=str(users),
        TELEGRAM_BOT_TOKEN=telegram.token,
        TELEGRAM_API=telegram.url,
    )


async def said(telegram: FakeTelegram, user: int, count: int = 1) -> list[str]:
    """Wait until somebody was sent that many messages; returns all of them."""
    await eventually(lambda: len(telegram.said(user)) >= count, seconds=90.0)
    return telegram.said(user)


async def test_a_message_goes_to_the_session_of_who_wrote_it_and_the_answer_comes_beneath(
    telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    telegram.writes(ALICE, "Which day is it?", number=31)
    telegram.writes(BOB, "And the weather?", number=5)
    [alice], [bob] = await sessions.heard("alice"), await sessions.heard("bob")
    assert (alice.prompt, alice.user_id) == ("Which day is it?", ALICE)
    assert (bob.prompt, bob.user_id) == ("And the weather?", BOB)
    await sessions.answers("bob", bob, "<b>Rain</b>")
    await sessions.answers("alice", alice, "Look", is_final=False)
    await sessions.answers("alice", alice, "Friday", sequence=1)
    assert await said(telegram, ALICE) == ["Friday"]
    assert await said(telegram, BOB) == ["<b>Rain</b>"]
    [sent] = [one for one in telegram.called["sendMessage"] if one["chat_id"] == BOB]
    assert sent["reply_parameters"]["message_id"] == 5
    assert "parse_mode" not in sent


async def test_a_question_an_error_and_what_a_person_should_read_are_told(
    telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    telegram.writes(ALICE, "Plan it", number=1)
    [message] = await sessions.heard("alice")
    await sessions.answers("alice", message, "Which day?", status="input_required")
    assert await said(telegram, ALICE) == ["Which day?\n\n(Your next message is the answer.)"]
    telegram.writes(ALICE, "Friday", number=3)
    [_, message] = await sessions.heard("alice", 2)
    budget = {"status": "error", "reason": "BudgetExceeded", "error": "the budget shop is used up"}
    await sessions.answers("alice", message, "", **budget, warnings=["it forgets"])
    [_, told] = await said(telegram, ALICE, 2)
    assert told == "This was not answered: the budget shop is used up\n\nNote: it forgets"


async def test_strangers_groups_and_what_is_no_text_are_refused(
    telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    telegram.writes(STRANGER, "Let me in", number=1)
    telegram.writes(ALICE, "in a group", number=2, room="supergroup")
    telegram.writes(ALICE, None, number=3)
    telegram.writes(ALICE, "hello", number=4)
    [message] = await sessions.heard("alice")
    assert message.prompt == "hello"
    assert telegram.said(ALICE) == ["I can read text alone."]
    assert telegram.said(STRANGER) == []
    assert "'666' is not in the list of users" in bot.log
    assert "Let me in" not in bot.log


async def test_what_is_no_update_is_left_out_and_the_next_is_heard(
    telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    telegram.faults["getUpdates"].extend(
        web.json_response(said) for said in ({"ok": True, "result": 5}, [], {"ok": True})
    )
    odd = {"message_id": 2**70, "from": None, "text": "\0" * 4000}
    for message in (5, {"message_id": "x"}, odd):
        telegram.puts({"message": message})
    telegram.puts({})
    telegram.puts({"edited_message": {}})
    telegram.writes(ALICE, "hello", number=4)
    [message] = await sessions.heard("alice")
    assert message.prompt == "hello"
    await eventually(lambda: not telegram.updates)


async def test_outputs_that_are_none_or_somebody_elses_hold_up_nothing(
    telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    telegram.writes(ALICE, "hello", number=4)
    [message] = await sessions.heard("alice")
    for strange in ({"x": "y"}, {"data": "{"}, {"data": "[" * 9000}, {"data": '{"text": 5}'}):
        await sessions.puts("alice", strange)
    for place in ("cli", "telegram:", "telegram:x", f"telegram:{'5' * 500}", "slack:D1:1.1:1.1"):
        other = message.model_copy(update={"request_id": place})
        await sessions.answers("alice", other, "for somebody else")
    await sessions.answers("alice", message, "for alice")
    assert await said(telegram, ALICE) == ["for alice"]


async def test_a_long_answer_is_told_in_parts(
    telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    telegram.writes(ALICE, "a poem", number=4)
    [message] = await sessions.heard("alice")
    poem = "".join(f"line {number} 🌊🌊🌊🌊🌊🌊🌊🌊\n" for number in range(600))
    await sessions.answers("alice", message, f"{poem}the end")
    parts = await said(telegram, ALICE, 4)
    assert "".join(parts) == f"{poem}the end"
    assert all(part.endswith("\n") for part in parts[:-1])


async def test_a_bot_that_is_too_fast_waits_as_long_as_telegram_says(
    telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    slower = {"ok": False, "error_code": 429, "description": "Too Many Requests: retry after 1",
              "parameters": {"retry_after": 1}}  # fmt: skip
    telegram.faults["sendMessage"] += [web.json_response(slower, status=429) for _ in range(2)]
    telegram.writes(ALICE, "hello", number=4)
    [message] = await sessions.heard("alice")
    await sessions.answers("alice", message, "hello yourself")
    assert await said(telegram, ALICE) == ["hello yourself"]
    assert bot.log.count("again in 1 s: sendMessage: 429") == 2


async def test_who_blocks_the_bot_holds_up_nobody(
    telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    blocked = {"ok": False, "error_code": 403, "description": "Forbidden: bot was blocked"}
    telegram.faults["sendMessage"].append(web.json_response(blocked, status=403))
    telegram.writes(ALICE, "hello", number=4)
    [message] = await sessions.heard("alice")
    await sessions.answers("alice", message, "never read")
    await sessions.answers("alice", message, "read")
    assert await said(telegram, ALICE) == ["read"]
    assert "403 Forbidden: bot was blocked" in bot.log


async def test_a_message_that_telegram_brings_twice_is_sent_once(
    telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    for text, number in (("one", 1), ("one", 1), ("two", 2), ("one", 1), ("three", 3)):
        telegram.writes(ALICE, text, number=number)
    heard = await sessions.heard("alice", 3)
    await eventually(lambda: not telegram.updates)
    assert [message.prompt for message in heard] == ["one", "two", "three"]
    assert await sessions.count("alice") == 3


async def test_answers_that_came_while_no_bot_was_there_are_told_by_the_next_once(
    telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    telegram.writes(ALICE, "hello", number=4)
    [message] = await sessions.heard("alice")
    await sessions.answers("alice", message, "one")
    await said(telegram, ALICE)
    assert bot.end() == 0
    await sessions.answers("alice", message, "two")
    bot.start()
    await sessions.noted("-1", str(ALICE), "alice")
    bot.kill()
    bot.start()
    await sessions.answers("alice", message, "three")
    assert await said(telegram, ALICE, 3) == ["one", "two", "three"]


async def test_what_was_answered_before_the_first_bot_came_is_not_told(
    tmp_path: Path, telegram: FakeTelegram, sessions: Sessions, redis_server: RedisServer
) -> None:
    first = await a_bot(tmp_path, telegram, sessions, redis_server.url)
    old = {"data": '{"request_id": "telegram:1", "is_final": true, "status": "success"}'}
    await sessions.puts("alice", old)
    first.start()
    try:
        telegram.writes(ALICE, "hello", number=4)
        [message] = await sessions.heard("alice")
        await sessions.answers("alice", message, "new")
        assert await said(telegram, ALICE) == ["new"]
    finally:
        first.kill()


async def test_a_bot_that_is_killed_between_two_parts_of_an_answer_goes_on_with_the_second(
    telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    much = web.json_response({"ok": False, "parameters": {"retry_after": 600}}, status=429)
    telegram.faults["sendMessage"] += [None, much]
    telegram.writes(ALICE, "hello", number=4)
    [message] = await sessions.heard("alice")
    await sessions.answers("alice", message, "a" * 4096 + "b" * 4096 + "c")
    await eventually(lambda: "again in 600 s" in bot.log, seconds=90.0)
    bot.kill()
    bot.start()
    assert await said(telegram, ALICE, 3) == ["a" * 4096, "b" * 4096, "c"]


@dataclass
class AtNext:
    """A fault of the proxy at the next command that a test names, instead of at a number."""

    proxy: RedisProxy
    is_it: Callable[[list[str]], bool]
    when: When
    also: Callable[[], None]

    @property
    def number(self) -> int:
        """That of the last command, if it is the one; then it is not looked for again."""
        found = self.is_it(self.proxy.commands[-1])
        if found:
            self.is_it = lambda command: False
        return len(self.proxy.commands) if found else -1


def sends(command: list[str]) -> bool:
    return command[0] == "EXEC"


def notes_what_was_told(command: list[str]) -> bool:
    return command[0] == "HSET" and command[2].endswith(":told") and command[3].endswith(" 1")


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "cut-off"])
@pytest.mark.parametrize(
    ("is_it", "when", "times"),
    [
        (sends, "before", 1),
        (sends, "after", 1),
        (notes_what_was_told, "after", 1),
        # Telegram has the answer, and nobody knows: the only moment in which it is told again.
        (notes_what_was_told, "before", 2),
    ],
    ids=["before-sending", "behind-sending", "behind-the-note", "before-the-note"],
)
async def test_a_bot_that_loses_redis_or_its_life_sends_once_and_tells_once(
    tmp_path: Path,
    telegram: FakeTelegram,
    sessions: Sessions,
    redis_server: RedisServer,
    is_it: Callable[[list[str]], bool],
    when: When,
    times: int,
    killed: bool,
) -> None:
    async with redis_proxy(redis_server.port) as proxy:
        bot = await a_bot(tmp_path, telegram, sessions, proxy.url)
        happened = asyncio.Event()

        def happens() -> None:
            if killed:
                bot.kill()
            happened.set()

        bot.start()
        try:
            await eventually(lambda: proxy.named("XREAD"), seconds=90.0)
            proxy.fault = AtNext(proxy, is_it, when, happens)  # type: ignore[assignment]
            telegram.writes(ALICE, "hello", number=4)
            if is_it is not sends:
                [message] = await sessions.heard("alice")
                await sessions.answers("alice", message, "hello yourself")
            await asyncio.wait_for(happened.wait(), 90)
            if killed:
                bot.start()
            telegram.writes(ALICE, "again", number=5)
            heard = await sessions.heard("alice", 2)
            if is_it is sends:
                await sessions.answers("alice", heard[0], "hello yourself")
            await sessions.answers("alice", heard[1], "once more")
            await eventually(lambda: "once more" in telegram.said(ALICE), seconds=90.0)
        finally:
            bot.kill()
            print(bot.log)
    assert [message.prompt for message in heard] == ["hello", "again"]
    again = times if killed else 1  # one that is not killed knows what it has told
    assert telegram.said(ALICE) == ["hello yourself"] * again + ["once more"]


async def test_a_session_behind_a_prefix_is_talked_with(
    tmp_path: Path, telegram: FakeTelegram, redis_server: RedisServer
) -> None:
    async with login(redis_server.url) as redis:
        await redis.flushall()
        sessions = Sessions(redis, Keys.of_namespace("team-a"), "team-a")
        bot = await a_bot(tmp_path, telegram, sessions, redis_server.url)
        bot.start()
        try:
            telegram.writes(ALICE, "hello", number=4)
            [message] = await sessions.heard("alice")
            await sessions.answers("alice", message, "hello yourself")
            assert await said(telegram, ALICE) == ["hello yourself"]
        finally:
            bot.kill()
            print(bot.log)


async def test_a_bot_talks_with_a_worker_and_a_real_agent(
    claude_workers: RealWorkers, telegram: FakeTelegram, sessions: Sessions, bot: Bot
) -> None:
    claude_workers.start("default.alice", WORKER_TYPE="po", USER_ID=str(ALICE))
    telegram.writes(ALICE, "[[remember: blue]]", number=4)
    assert await said(telegram, ALICE) == ["I will remember: blue"]
    telegram.writes(ALICE, "[[recall]]", number=6)
    assert await said(telegram, ALICE, 2) == ["I will remember: blue", "I remember: blue"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"TELEGRAM_BOT_TOKEN": "5:wrong"}, "getUpdates: 401 Unauthorized"),
        ({"TELEGRAM_BOT_TOKEN": ""}, "the variable TELEGRAM_BOT_TOKEN is needed"),
        ({"REDIS_URL": "redis://127.0.0.1:1/0"}, "127.0.0.1:1"),
        ({"USERS_FILE": "/nowhere"}, "No such file"),
        ({"USERS_FILE": "/dev/null"}, "the list of users has to name sessions, of one namespace"),
    ],
)
async def test_what_a_bot_cannot_do_is_one_line(
    tmp_path: Path,
    telegram: FakeTelegram,
    sessions: Sessions,
    redis_server: RedisServer,
    change: dict[str, Any],
    told: str,
) -> None:
    bot = await a_bot(tmp_path, telegram, sessions, redis_server.url)
    bot.environ |= change
    bot.start()
    try:
        assert await bot.exit_code() == 1
    finally:
        bot.kill()
    assert told in bot.log
    assert bot.log.count("\n") == 1
    assert "wrong" not in bot.log
