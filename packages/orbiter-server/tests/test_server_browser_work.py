"""A task of the cluster in a real Chromium: how it stands, and what its agent says and does."""

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
    choose = "document.querySelector('[aria-label=Attempt]')"
    await page.do(f"{choose}.value = '1'; {choose}.dispatchEvent(new Event('change'))")
    await page.until(f"{LOG}.includes('first words')")
    put_task(api, attempts=3)
    await page.until(f"{choose}.options.length === 3")
    assert await page.do(f"{choose}.value") == "1", "it names what is shown"
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
