"""examples/slack_app.py, as a process, between a scripted Slack and sessions' streams."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.chat_bots import PASSWORD, Bot, Sessions
from support.chat_bots import sessions as sessions
from support.eventually import eventually
from support.fake_chats import FakeSlack, Object
from support.redis_server import RedisServer

pytestmark = pytest.mark.integration
ALICE, STRANGER = "U0ALICE", "U0STRANGER"
ROOM = f"D{ALICE}"


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack() as slack:
        yield slack


@pytest.fixture
async def bot(
    tmp_path: Path, slack: FakeSlack, sessions: Sessions, redis_server: RedisServer
) -> AsyncIterator[Bot]:
    users = tmp_path / "users"
    users.write_text(sessions.line(ALICE, 4711, "alice"))
    bot = Bot(
        "slack_app.py",
        tmp_path / "bot.log",
        REDIS_URL=await sessions.allow(redis_server.url),
        USERS_FILE=str(users),
        SLACK_BOT_TOKEN=slack.bot_token,
        SLACK_APP_TOKEN=slack.app_token,
        SLACK_API=f"{slack.url}/api",
    )
    bot.start()
    yield bot
    bot.kill()
    print(bot.log)
    for secret in (slack.bot_token, slack.app_token, PASSWORD):
        assert secret not in bot.log


async def said(slack: FakeSlack, count: int = 1) -> list[Object]:
    """Wait until alice was sent that many messages; returns all of them."""
    await eventually(lambda: len(slack.said(ROOM)) >= count, seconds=90.0)
    return slack.said(ROOM)


async def test_a_message_goes_to_the_session_and_the_answer_comes_in_its_thread(
    slack: FakeSlack, sessions: Sessions, bot: Bot
) -> None:
    await slack.writes(ALICE, "Is 1 &lt; 2 &amp;&amp; 3?", ts="17.0001")
    await slack.writes(ALICE, "Sure?", ts="17.0002", thread_ts="17.0001")
    await slack.writes(ALICE, "Else", ts="17.0003")
    heard = await sessions.heard("alice", 3)
    assert [one.prompt for one in heard] == ["Is 1 < 2 && 3?", "Sure?", "Else"]
    assert {one.user_id for one in heard} == {4711}
    for message, answer in zip(heard, ("<!channel> & yes", "sure", "which?"), strict=True):
        status = "input_required" if answer == "which?" else "success"
        await sessions.answers("alice", message, answer, status=status)
    posted = await said(slack, 3)
    assert [(one["text"], one["thread_ts"]) for one in posted] == [
        ("&lt;!channel&gt; &amp; yes", "17.0001"),
        ("sure", "17.0001"),
        ("which?\n\n(Your next message is the answer.)", "17.0003"),
    ]
    assert {one["unfurl_links"] for one in posted} == {False}


async def test_strangers_channels_edits_and_its_own_words_are_not_heard(
    slack: FakeSlack, sessions: Sessions, bot: Bot
) -> None:
    await slack.writes(STRANGER, "Let me in", ts="17.1")
    await slack.writes(ALICE, "to all", ts="17.2", channel="C0ALL", channel_type="channel")
    await slack.writes(ALICE, "edited", ts="17.3", subtype="message_changed")
    await slack.writes(ALICE, "mine", ts="17.4", bot_id="B1")
    await slack.writes(ALICE, "hello", ts="17.5")
    [message] = await sessions.heard("alice")
    assert message.prompt == "hello"
    await eventually(lambda: not slack.envelopes)
    assert f"{STRANGER!r} is not in the list of users" in bot.log
    assert not slack.called["chat.postMessage"]


async def test_what_is_no_event_is_acknowledged_and_the_next_is_heard(
    slack: FakeSlack, sessions: Sessions, bot: Bot
) -> None:
    strange: list[Any] = [{}, {"type": "events_api", "payload": [1]}, {"type": "slash_commands"}]
    for number, content in enumerate(strange):
        await slack.puts(f"odd-{number}", content)
    for number, text in enumerate(("no JSON", "[" * 9000, '{"envelope_id": 5}')):
        await slack.puts(f"none-{number}", text)
    await slack.writes(ALICE, "bad", ts="no time")
    await slack.writes(ALICE, "hello", ts="17.5")
    [message] = await sessions.heard("alice")
    assert message.prompt == "hello"
    await eventually(lambda: set(slack.envelopes) == {"none-0", "none-1", "none-2"}, seconds=90.0)


async def test_a_message_is_sent_once_over_whichever_connection_it_comes(
    slack: FakeSlack, sessions: Sessions, bot: Bot
) -> None:
    await slack.writes(ALICE, "one", ts="17.1")
    await sessions.heard("alice")
    await slack.ends_the_connection()
    await slack.writes(ALICE, "one", ts="17.1")
    await eventually(lambda: slack.connections == 2, seconds=90.0)
    await slack.writes(ALICE, "one", ts="17.1")
    await slack.writes(ALICE, "two", ts="17.2")
    heard = await sessions.heard("alice", 2)
    await eventually(lambda: not slack.envelopes)
    assert [message.prompt for message in heard] == ["one", "two"]
    assert await sessions.count("alice") == 2


async def test_an_app_that_is_too_fast_waits_as_long_as_slack_says_and_long_answers_are_split(
    slack: FakeSlack, sessions: Sessions, bot: Bot
) -> None:
    slower = web.json_response(
        {"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": "1"}
    )
    slack.faults["chat.postMessage"].append(slower)
    await slack.writes(ALICE, "much", ts="17.1")
    [message] = await sessions.heard("alice")
    await sessions.answers("alice", message, "<" * 10_001)
    first, second = await said(slack, 2)
    assert (first["text"], second["text"]) == ("&lt;" * 10_000, "&lt;")
    assert "again in 1 s: chat.postMessage: 429 ratelimited" in bot.log


async def test_an_app_that_is_killed_neither_loses_an_answer_nor_tells_it_twice(
    slack: FakeSlack, sessions: Sessions, bot: Bot
) -> None:
    await slack.writes(ALICE, "hello", ts="17.1")
    [message] = await sessions.heard("alice")
    await sessions.answers("alice", message, "one")
    await sessions.noted("-2", ALICE, "alice")
    bot.kill()
    await sessions.answers("alice", message, "two")
    bot.start()
    assert [one["text"] for one in await said(slack, 2)] == ["one", "two"]


async def test_a_token_that_slack_refuses_is_one_line(
    slack: FakeSlack, sessions: Sessions, bot: Bot
) -> None:
    bot.kill()
    bot.environ["SLACK_APP_TOKEN"] = "xapp-wrong"
    before = len(bot.log.splitlines())
    bot.start()
    assert await bot.exit_code() == 1
    assert bot.log.splitlines()[before:] == ["apps.connections.open: 401 invalid_auth"]
