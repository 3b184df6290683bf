"""The web page in a real Chromium: what a user sees, hears and can do with the keyboard."""

import asyncio
import signal
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from orbiter import Agent
from orbiter.models import ScriptedModel, call
from orbiter.tasks import Task, TaskState, TaskStoreSqlite, ask_user

from .conftest import Paced, get_weather
from .spelling_server import WORDS
from .test_server_crashes import Process

pytestmark = pytest.mark.integration
TOKEN = "open-sesame"
FINISHED = "document.querySelector('.foot')?.textContent.includes('Trace ·')"
ANSWER = "[...document.querySelectorAll('.said.agent .prose')].map(e => e.innerText).join('|')"


async def ask(page, text):
    await page.click(".composer textarea")
    await page.type(text)
    await page.press("Enter")


async def test_a_whole_chat_with_a_tool_call(start, browser):
    model = ScriptedModel(call("get_weather", city="Oslo"), "It is **sunny**.", "Rain.")
    server = await start(model=model)
    page = await browser.page(server.url)
    await ask(page, "How is the weather in Oslo?")
    await page.until(FINISHED)
    assert await page.do(ANSWER) == "It is sunny."
    assert await page.do("document.querySelector('.said.agent strong').textContent") == "sunny"
    assert await page.do("document.querySelector('.call summary').innerText") != ""
    await page.click(".call summary")
    shown = await page.do("document.querySelector('.call').innerText")
    assert "get_weather" in shown
    assert '"city": "Oslo"' in shown
    assert "Sunny in Oslo" in shown
    # the whole chat is there again after a reload, and goes on
    await page.open(f"{server.url}/{await page.do('location.hash')}")
    await page.reload()
    await page.until(FINISHED)
    assert await page.do(ANSWER) == "It is sunny."
    await ask(page, "And tomorrow?")
    await page.until(f"{ANSWER} === 'It is sunny.|Rain.'")
    assert [m.content for m in model.requests[2].messages if m.role == "user"] == [
        "How is the weather in Oslo?",
        "And tomorrow?",
    ]
    assert page.complaints == []


async def test_the_trace_is_a_tree_for_the_keyboard(start, browser):
    server = await start(model=ScriptedModel(call("get_weather", city="Oslo"), "Sunny."))
    page = await browser.page(server.url)
    await ask(page, "How is the weather?")
    await page.until(FINISHED)
    labels = "[...document.querySelectorAll('[role=treeitem] > .row > .label')].map(e=>e.innerText)"
    everything = ["Run completed", "helper", "Step 1", "Model call", "get_weather", "Step 2",
                  "Model call"]  # fmt: skip
    assert await page.do(labels) == everything
    await page.do("document.querySelector('[role=treeitem]').focus()")
    focused = "document.activeElement.querySelector('.label').innerText"
    for key, expected in [
        ("ArrowDown", "helper"), ("ArrowDown", "Step 1"), ("ArrowRight", "Model call"),
        ("ArrowLeft", "Step 1"), ("ArrowLeft", "Step 1"), ("ArrowDown", "Step 2"),
        ("Home", "Run completed"), ("End", "Model call"),
    ]:  # fmt: skip
        await page.press(key)
        assert await page.do(focused) == expected, key
    assert await page.do(labels) == [*everything[:3], *everything[5:]]
    closed = "document.querySelectorAll('[role=treeitem][aria-expanded=false]').length"
    assert await page.do(closed) == 1
    assert page.complaints == []


async def test_who_has_no_token_sees_a_prompt_and_nothing_else(start, browser):
    server = await start(token=TOKEN, model=ScriptedModel("Hi.", repeat=True))
    page = await browser.page(f"{server.url}/#/tasks")
    visible = "document.body.innerText.trim().split(/\\n+/)"
    await page.until("document.activeElement.id === 'token'")
    assert await page.do(visible) == ["Orbiter", "Access token", "Continue"]
    assert await page.do("document.getElementById('app')") is None
    await page.type("wrong")
    await page.press("Enter")
    await page.until("document.getElementById('login-problem').textContent")
    assert await page.do("document.getElementById('app')") is None
    await page.type(TOKEN)
    await page.press("Enter")
    await page.until("document.querySelector('.long-list')")
    # the token is not in the address, and dies with the tab
    assert TOKEN not in await page.do("location.href")
    other = await browser.page(server.url)
    await other.until("document.activeElement.id === 'token'")
    # a token that is no longer good takes everything away again
    await page.do("sessionStorage.setItem('orbiter-token', 'old')")
    await page.reload()
    await page.until("document.activeElement.id === 'token'")
    assert await page.do(visible) == ["Orbiter", "Access token", "Continue"]
    assert page.complaints == []


@asynccontextmanager
async def cuttable(port):
    """A line to the server that can be cut."""
    open_lines = set()

    async def carry(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def accept(reader, writer):
        there = await asyncio.open_connection("127.0.0.1", port)
        open_lines.update((writer, there[1]))
        await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))
        open_lines.difference_update((writer, there[1]))

    def cut():
        for writer in list(open_lines):
            writer.transport.abort()

    line = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield line.sockets[0].getsockname()[1], cut
    finally:
        line.close()
        cut()


async def test_a_cut_line_costs_no_token_and_doubles_none(start, browser):
    words = [f"word{number} " for number in range(60)]
    model = Paced(*words)
    server = await start(model=model)
    port = int(server.url.rpartition(":")[2])
    async with cuttable(port) as (there, cut):
        page = await browser.page(f"http://127.0.0.1:{there}")
        await ask(page, "Spell")
        for part in range(6):
            model.let(10)
            await page.until(f"{ANSWER}.includes('word{part * 10 + 9}')")
            cut()
        await page.until(FINISHED)
        assert await page.do(ANSWER) == "".join(words)
        assert page.complaints == []


async def test_kill_9_of_the_server_in_mid_stream_and_the_page_goes_on(tmp_path, browser):
    server = Process(tmp_path)
    await server.start()
    try:
        page = await browser.page(f"http://127.0.0.1:{server.port}")
        await ask(page, "Spell")
        server.let(0, 12)
        await page.until(f"{ANSWER}.includes({WORDS[11].strip()!r})")
        await server.send(signal.SIGKILL)
        await page.until("document.querySelector('.status').textContent.includes('lost')")
        await server.start()
        server.let(12, len(WORDS))
        await page.until(FINISHED)
        assert await page.do(ANSWER) == "Let me see. |" + "".join(WORDS)
        assert await page.do("document.querySelectorAll('.call').length") == 1
        assert page.complaints == []
    finally:
        await server.send(signal.SIGKILL)
        await server.http.aclose()


async def test_ten_thousand_tasks_are_listed_with_few_elements(start, browser, tmp_path):
    (tmp_path / "server").mkdir()
    store = TaskStoreSqlite(tmp_path / "server" / "tasks.db")
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(10_000):
        at = begin + timedelta(seconds=number)
        await store.create(
            Task(
                id=f"task-{number}", input=f"Number {number}", state=TaskState.COMPLETED,
                result="Done.", created_at=at, updated_at=at,
            )
        )  # fmt: skip
    await store.close()
    server = await start()
    page = await browser.page(f"{server.url}/#/tasks")
    count = "document.querySelectorAll('.spacer .row').length"
    await page.until("document.querySelector('.spacer .row')?.innerText.includes('Number 9999')")
    table = "document.querySelector('.long-list .table').getAttribute('aria-rowcount')"
    assert await page.do(table) == "10001"
    assert await page.do(count) < 60
    # all the way down by wheel: what is passed is never more than what fits on the screen
    most = await page.do("""(async () => {
      const rows = document.querySelector('.rows');
      let most = 0;
      for (let top = 0; top < rows.scrollHeight; top += 4000) {
        rows.scrollTop = top;
        await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
        most = Math.max(most, document.querySelectorAll('.spacer .row').length);
      }
      return most;
    })()""")
    assert most < 60
    await page.do("document.querySelector('.rows').focus()")
    await page.press("End")
    await page.until("document.activeElement.innerText.includes('Number 0')")
    assert await page.do("document.activeElement.getAttribute('aria-rowindex')") == "10001"
    await page.press("ArrowUp")
    await page.until("document.activeElement.innerText.includes('Number 1')")
    await page.press("Enter")
    await page.until("document.querySelector('.detail')?.innerText.includes('Done.')")
    assert await page.do("location.hash") == "#/tasks/task-1"
    assert page.complaints == []


async def test_a_task_is_handed_in_asked_about_and_answered(start, browser):
    waiter = Agent(name="waiter", tools=[ask_user])
    model = ScriptedModel(call("ask_user", question="For how many?"), "A table for four.")
    server = await start({"waiter": waiter}, model)
    page = await browser.page(f"{server.url}/#/tasks")
    await page.click(".new-task input")
    await page.type("Book a table")
    await page.press("Enter")
    await page.until("document.querySelector('.question')?.innerText.includes('For how many?')")
    await page.click(".question input")
    await page.type("Four")
    await page.press("Enter")
    await page.until("document.querySelector('.detail')?.innerText.includes('A table for four.')")
    await page.until("document.querySelector('.spacer .badge')?.innerText === 'completed'")
    assert page.complaints == []


async def test_a_screen_reader_finds_its_way_and_hears_the_answer_once(start, browser):
    server = await start(model=ScriptedModel(call("get_weather", city="Oslo"), "It is sunny."))
    page = await browser.page(server.url)
    await ask(page, "How is the weather?")
    await page.until(FINISHED)
    heard = "document.getElementById('announcer').textContent"
    assert await page.do(heard) == "helper: It is sunny."
    roles = await page.roles()
    for wanted in [
        ("banner", ""), ("main", ""), ("navigation", "Views"), ("navigation", "Conversations"),
        ("log", "Conversation"), ("textbox", "Message"), ("combobox", "Agent"),
        ("button", "Send"), ("tree", "Trace of the run"), ("heading", "Orbiter"),
    ]:  # fmt: skip
        assert wanted in roles, wanted
    nameless = [role for role, name in roles if role in ("button", "link", "textbox") and not name]
    assert nameless == []
    # word for word would be noise: the log keeps still, the answer is told as a whole
    assert await page.do("document.querySelector('.log').getAttribute('aria-live')") == "off"
    first = "[...document.querySelectorAll('#app a, #app button, #app input')][0]"
    assert await page.do(f"{first}.innerText") == "Skip to the content"
    await page.do(f"{first}.focus()")
    await page.press("Enter")
    await page.until("document.activeElement.id === 'main'")
    assert page.complaints == []


async def test_what_agents_and_tools_say_stays_text(start, browser):
    evil = '<img src=x onerror="document.title=1"> [x](javascript:alert(1)) <script>1</script>'
    model = ScriptedModel(call("get_weather", city=evil), evil)
    server = await start(model=model)
    page = await browser.page(server.url)
    await ask(page, evil)
    await page.until(FINISHED)
    assert evil in await page.do("document.querySelector('.said.agent').innerText")
    assert await page.do("document.querySelectorAll('.log img, .log script, .log a').length") == 0
    assert page.complaints == []


async def test_a_run_can_be_stopped_and_a_failure_is_told(start, browser):
    server = await start(model=Paced("One "))
    page = await browser.page(server.url)
    await ask(page, "Count")
    await page.click(".composer button:text('Stop')")
    await page.until("document.querySelector('.said.agent').innerText.includes('Stopped.')")
    await page.until("!document.querySelector('.composer .primary').hidden")
    assert page.complaints == []


async def test_dark_is_dark_and_narrow_fits(start, browser):
    server = await start({"helper": Agent(name="helper", tools=[get_weather])})
    page = await browser.page(server.url, width=360, dark=True)
    await ask(page, "Hi")
    await page.until(FINISHED)
    color = await page.do("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in color[4:-1].split(",")) < 50
    assert await page.do("document.documentElement.scrollWidth") <= 360
    assert page.complaints == []
