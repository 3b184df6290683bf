"""The web page in a real Chromium, where a task's tool waits for the person who looks."""

import pytest

from orbiter import Agent, tool
from orbiter.models import ScriptedModel, call

pytestmark = pytest.mark.integration


async def test_a_tool_that_waits_is_approved_with_what_was_seen(start, browser):
    did = []

    @tool(approval=True)
    def refund(order: int) -> str:
        """Give money back."""
        did.append(order)
        return "refunded"

    model = ScriptedModel(call("refund", order=7), call("refund", order=8), "Done.")
    server = await start({"clerk": Agent(name="clerk", tools=[refund])}, model)
    page = await browser.page(f"{server.url}/#/tasks")
    await page.click(".new-task input")
    await page.type("Refund")
    await page.press("Enter")
    shown = "document.querySelector('.question')?.innerText.includes('order\":%d}')"
    await page.until(shown % 7)
    await page.click(".question button.primary")
    await page.until(shown % 8)
    await page.click(".question input")
    await page.type("too late")
    await page.press("Enter")
    await page.until("document.querySelector('.detail')?.innerText.includes('Done.')")
    assert did == [7]
    assert "a person denied it: too late" in model.requests[-1].messages[-1].error
    assert page.complaints == []


async def test_an_answer_typed_before_another_window_decided_counts_for_nothing_else(
    start, browser
):
    did = []

    @tool(approval=True)
    def refund(order: int) -> str:
        """Give money back."""
        did.append(order)
        return "refunded"

    model = ScriptedModel([call("refund", order=7), call("refund", order=8)], "Done.")
    server = await start({"clerk": Agent(name="clerk", tools=[refund])}, model)
    page = await browser.page(server.url)
    await page.click(".composer textarea")
    await page.type("Refund")
    await page.press("Enter")
    await page.until("document.querySelector('.log').innerText.includes('order\":8}')")
    session = (await server.http.get("/v1/sessions")).json()["sessions"][0]["id"]
    shown = (await server.http.get(f"/v1/sessions/{session}")).json()["runs"][-1]
    answer = {"input": "deny", "request_id": shown["input_requests"][0]["id"]}
    await server.http.post(f"/v1/sessions/{session}/runs", json=answer)
    await page.click(".composer textarea")
    await page.type("approve")
    await page.press("Enter")
    await page.until("document.body.innerText.includes('look at what it asks now')")
    assert did == []


async def test_a_conversation_asks_and_the_next_message_decides(start, browser):
    did = []

    @tool(approval=True)
    def refund(order: str) -> str:
        """Give money back."""
        did.append(order)
        return "refunded"

    hostile = "a\u202eb `reboot` <img src=x onerror=alert(1)>"
    model = ScriptedModel(call("refund", order=hostile), "All is done.")
    server = await start({"clerk": Agent(name="clerk", tools=[refund])}, model)
    page = await browser.page(server.url)
    log = "document.querySelector('.log').innerText"
    asked = r"a\\u202eb \\u0060reboot\\u0060 <img src=x"
    for text, shown in (("Refund", asked), ("approve", "All is done.")):
        await page.click(".composer textarea")
        await page.type(text)
        await page.press("Enter")
        await page.until(f"{log}.includes('{shown}')")
    assert await page.do("document.querySelector('.log img') === null")
    assert did == [hostile]
    assert page.complaints == []
