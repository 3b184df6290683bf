"""A task of the cluster in a real Chromium: how it stands, and what its agent says and does."""

from datetime import UTC, datetime

import pytest
from redis.asyncio import Redis
from support.redis_server import redis_server

from orbiter_contracts.queues import Keys
from orbiter_contracts.transcript import (
    ErrorEvent,
    MessageEvent,
    TextEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
    VerdictEvent,
)
from orbiter_contracts.transcript_reading import entry_data
from orbiter_contracts.transcript_scripts import END_FIELD, NEXT_FIELD

from .test_server_transcripts import Writer, put_secret, put_task, stream, writer

__all__ = ["redis_server", "writer"]
pytestmark = pytest.mark.integration
LOG = "document.querySelector('.transcript').innerText"
FACTS = "document.querySelector('.facts').innerText"
ATTEMPTS = "[...document.querySelectorAll('.attempts button')]"
CURRENT = "document.querySelector('.attempts [aria-current]')?.value"
BEGIN, END = datetime(2026, 1, 5, 9, 0, tzinfo=UTC), datetime(2026, 1, 5, 9, 4, tzinfo=UTC)
HIDDEN = "document.querySelector('.detail').hidden"


async def write(writer, *events):
    """Append events as a worker does."""
    data = entry_data(events)
    fields = {"data": data, END_FIELD: writer.bytes + len(data), NEXT_FIELD: writer.sequence}
    writer.bytes += len(data)
    await writer.redis.xadd(stream(), fields)


@pytest.fixture
async def page(start, browser, api, redis_server, tmp_path):
    put_task(api, usage={"costUSD": 0.25, "inputTokens": 1200, "outputTokens": 30})
    put_secret(api, redis_server.url)
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*", transcripts=True)
    page = await browser.page(f"{server.url}/#/cluster")
    await page.until("document.querySelectorAll('.spacer .row').length === 1")
    return page


async def test_a_task_is_opened_from_the_list_and_its_transcript_grows(page, writer, api):
    await write(
        writer,
        writer.event(ThinkingEvent, text="The login, "),
        writer.event(ThinkingEvent, text="then the tests."),
        writer.event(TextEvent, text="I look at **the login**."),
        writer.event(
            ToolCallEvent, tool_name="Read", tool_call_id="c1", arguments='{"p":"login.py"}'
        ),
    )
    await page.click(".spacer .row")
    await page.until(f"{LOG}.includes('I look at the login.')")
    assert await page.do("location.hash") == "#/cluster//tasks/team-a/fix"
    shown = await page.do(LOG)
    assert "The login, then the tests." in shown
    assert "login.py" in shown
    facts = await page.do(FACTS)
    assert "claude opus" in facts
    assert "0.2500 USD" in facts
    assert "1,200 + 30 tokens" in facts
    assert await page.do("document.querySelector('.call .state').innerText") == "…"
    await write(
        writer,
        writer.event(ToolResultEvent, tool_call_id="c1", content="def login()", seconds=2.5),
        writer.event(ErrorEvent, error="<img src=x onerror=alert(1)>"),
    )
    await page.until("document.querySelector('.call .state').innerText === 'done'")
    assert await page.do("document.querySelector('.call .time').innerText") == "2.5 s"
    assert "<img src=x" in await page.do(LOG), "what an agent says is text"
    assert await page.do("document.querySelectorAll('.transcript img').length") == 0
    await writer.say("The end.", verdict=True)
    await page.until(f"{LOG}.includes('Done')")
    put_task(api, phase="Completed", result={"summary": "the login answers again"})
    await page.until(f"{FACTS}.includes('the login answers again')")
    await page.until("document.querySelector('.facts .badge').innerText === 'completed'")
    assert page.complaints == []


async def test_it_has_an_address_and_is_closed_again(page, writer):
    await writer.say("one")
    await page.do("location.hash = '#/cluster/team-a/tasks/team-a/fix'")
    await page.until(f"{LOG}.includes('one')")
    await page.click(".detail .close")
    await page.until(f"{HIDDEN} === true")
    assert await page.do("location.hash") == "#/cluster/team-a"
    assert page.complaints == []


async def test_a_later_attempt_is_shown_by_itself_and_the_earlier_can_be_chosen(page, writer, api):
    await writer.say("first words")
    await page.click(".spacer .row")
    await page.until(f"{LOG}.includes('first words')")
    event = TextEvent(sequence=0, at=writer.event(TextEvent, text="").at, attempt=2, text="again")
    await writer.redis.xadd(stream(2), {"data": entry_data([event]), END_FIELD: 9, NEXT_FIELD: 1})
    put_task(api, attempts=2)
    await page.until(f"{LOG} === 'again'")
    await page.until(f"{ATTEMPTS}.length === 2")
    assert await page.do(CURRENT) == "2"
    await page.click(".attempts button[value='1']")
    await page.until(f"{LOG}.includes('first words')")
    put_task(api, attempts=3)
    await page.until(f"{ATTEMPTS}.length === 3")
    assert await page.do(CURRENT) == "1", "it names what is shown"
    assert page.complaints == []


async def end(writer, attempt, status, **more):
    """A worker's last word in an attempt."""
    await _put(writer, VerdictEvent(sequence=900, at=END, attempt=attempt, status=status, **more))


async def say(writer, attempt, text, sequence=0):
    """A word in an attempt."""
    await _put(writer, TextEvent(sequence=sequence, at=BEGIN, attempt=attempt, text=text))


async def _put(writer, event):
    data = entry_data([event])
    fields = {"data": data, END_FIELD: len(data), NEXT_FIELD: event.sequence + 1}
    await writer.redis.xadd(stream(event.attempt), fields)


async def test_attempts_are_a_timeline_that_the_keyboard_reaches(page, writer, api):
    put_task(api, attempts=3, startTime="2026-01-05T09:00:00Z")
    await say(writer, 1, "one")
    await end(writer, 1, "failed", reason="AgentError", text="<b>no</b>", cost_usd=0.25)
    await say(writer, 2, "two", sequence=70)
    await say(writer, 3, "three")
    await page.click(".spacer .row")
    await page.until(f"{ATTEMPTS}.length === 3")
    first, second, third = await page.do(f"{ATTEMPTS}.map(e => e.innerText.replace(/\\s+/g, ' '))")
    assert "Attempt 1 failed AgentError began" in first
    assert "took 4 min 0 s · 0.2500 USD" in first
    assert "not told" in second
    assert "began before" in second
    assert "Attempt 3 running" in third
    lengths = "[...document.querySelectorAll('.attempts .bar')].map(e => e.offsetWidth)"
    assert min(await page.do(lengths)) >= 3
    await page.until(f"{CURRENT} === '3'")
    await page.do("document.querySelector('.attempts [aria-current]').focus()")
    await page.press("Home")
    await page.press("ArrowDown")
    await page.press("ArrowUp")
    await page.press("Enter")
    await page.until(f"{LOG}.includes('one') && !{LOG}.includes('three')")
    assert await page.do(CURRENT) == "1"
    assert await page.do("document.activeElement.value") == "1"
    roles = await page.roles()
    assert ("list", "Attempts") in roles
    assert any(role == "button" and name.startswith("Attempt 2") for role, name in roles)
    assert await page.violations() == []
    assert page.complaints == []


@pytest.mark.parametrize("width", [360, 700])
async def test_a_narrow_screen_has_all_of_a_task(page, writer, api, browser, width):
    put_task(api, attempts=2)
    await say(writer, 1, "one")
    await end(writer, 1, "failed", reason="A" * 100)
    await say(writer, 2, "two")
    url = await page.do("location.href")
    narrow = await browser.page(f"{url.partition('#')[0]}#/cluster//tasks/team-a/fix", width=width)
    await narrow.until(f"{LOG}.includes('two') && {ATTEMPTS}.length === 2")
    assert await narrow.do("document.documentElement.scrollWidth") <= width
    inside = "e => e.scrollWidth <= document.querySelector('.detail').clientWidth"
    assert await narrow.do(f"[...document.querySelectorAll('.detail > *')].every({inside})")
    assert await narrow.violations() == []


async def test_who_follows_the_latest_attempt_goes_on_with_the_next(page, writer, api):
    put_task(api, attempts=2)
    await say(writer, 1, "one")
    await say(writer, 2, "two")
    await page.click(".spacer .row")
    await page.until(f"{LOG} === 'two' && {ATTEMPTS}.length === 2")
    await page.click(".attempts button[value='1']")
    await page.until(f"{LOG} === 'one'")
    await page.click(".attempts button[value='2']")
    await page.until(f"{LOG} === 'two'")
    await end(writer, 2, "failed", reason="AgentError")
    await page.until(f"{LOG}.includes('AgentError')")
    put_task(api, attempts=3)
    await say(writer, 3, "three")
    await page.until(f"{LOG} === 'three'")
    assert page.complaints == []


async def test_an_attempt_that_goes_on_behind_its_verdict_is_followed_further(page, writer, api):
    await say(writer, 1, "one")
    await end(writer, 1, "error", text="Redis has lost it")
    await page.click(".spacer .row")
    await page.until(f"{LOG}.includes('Redis has lost it')")
    await say(writer, 1, "it goes on", sequence=901)
    await page.until(f"{LOG}.includes('it goes on')")
    shown = await page.do(LOG)
    assert shown.count("Redis has lost it") == 1
    put_task(api, phase="Completed", result={"summary": "the end"})
    await page.until(f"{FACTS}.includes('the end')")
    assert page.complaints == []


async def test_a_task_shows_what_it_was_told(page, api, writer):
    await writer.say("one")
    task = api.get("agenttasks", "team-a", "fix")
    hidden = "<img src=x onerror=alert(1)>\n\u202ebackwards"
    more = {"systemPrompt": hidden, "maxTurns": 40, "credentialsSecretRef": {"name": "keys"}}
    spec = {**task["spec"], "agent": {**task["spec"]["agent"], **more}, "dependsOn": ["a", "b"]}
    api.put("agenttasks", {**task, "spec": spec})
    await page.click(".spacer .row")
    await page.until("document.querySelector('.spec').hidden === false")
    await page.click(".spec > summary")
    shown = await page.do("document.querySelector('.fields').innerText")
    assert "<img src=x" in shown
    for words in ("At most\n40 turns", "After\na, b", "Credentials\nSecret keys"):
        assert words in shown
    await page.click(".spec details > summary")
    told = await page.do("document.querySelector('.spec pre').innerText")
    assert "apiVersion: orbiter.dev/v1alpha1" in told
    assert "\\u202ebackwards" in told
    assert await page.do("document.querySelectorAll('.detail img').length") == 0
    api.patch("agenttasks", "team-a", "fix", {"spec": {"priority": 7}})
    await page.until("document.querySelector('.spec pre').innerText.includes('priority: 7')")
    assert await page.do("document.querySelector('.spec').open"), "it stays open"
    assert await page.violations() == []
    assert page.complaints == []


async def test_a_question_says_how_it_is_answered(page, api):
    put_task(api, phase="InputRequired", inputRequest={"id": "q", "question": "main or trunk?"})
    await page.click(".spacer .row")
    await page.until(f"{FACTS}.includes('main or trunk?')")
    assert "kubectl orbiter answer fix -n team-a TEXT" in await page.do(FACTS)


async def test_a_task_that_is_gone_says_so(page, api, writer):
    await writer.say("one")
    await page.click(".spacer .row")
    await page.until(f"{LOG}.includes('one')")
    api.remove("agenttasks", "team-a", "fix")
    await page.until(f"{FACTS}.includes('there is no agenttask')")
    assert "one" not in await page.do(LOG)


async def test_a_session_is_shown_as_a_conversation(start, browser, api, redis_server, tmp_path):
    redis = Redis.from_url(redis_server.url)
    await redis.flushall()
    writer = Writer(redis)
    asks, says = "<b>What</b> is new?", "Two **new** issues."
    events = [
        writer.event(MessageEvent, text=asks), writer.event(TextEvent, text=says),
        writer.event(VerdictEvent, status="success"), writer.event(MessageEvent, text="Thanks!"),
    ]  # fmt: skip
    data = entry_data([event.model_copy(update={"attempt": 0}) for event in events])
    key = Keys.of_namespace("team-a").po_transcript("team-a.chat")
    await redis.xadd(key, {"data": data, END_FIELD: len(data), NEXT_FIELD: writer.sequence})
    await redis.aclose()
    stream = "{team-a}:worker:po:team-a.chat:input"
    api.put("posessions", {
        "metadata": {"name": "chat", "namespace": "team-a"},
        "spec": {"userId": 7, "agent": {"type": "claude"}},
        "status": {"phase": "Busy", "turns": 2, "inputStream": stream},
    })  # fmt: skip
    put_secret(api, redis_server.url)
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*", transcripts=True)
    page = await browser.page(f"{server.url}/#/cluster//sessions/team-a/chat")
    await page.until(f"{LOG}.includes('Thanks!')")
    said = "[...document.querySelectorAll('.said.user')].map(e => e.lastChild.innerText).join('|')"
    assert await page.do(said) == f"{asks}|Thanks!"
    assert "Two new issues." in await page.do(LOG)
    assert await page.violations() == []
    assert page.complaints == []


async def test_without_transcripts_the_rest_is_shown(start, browser, api, tmp_path):
    put_task(api)
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*")
    page = await browser.page(f"{server.url}/#/cluster//tasks/team-a/fix")
    await page.until(f"{FACTS}.includes('claude opus')")
    await page.until(
        "document.querySelector('.work [role=status]').innerText.includes('--transcripts')"
    )
