"""The page as a place to work: an inbox, what one may do with a task, and what all of it costs."""

import pytest
from support.fake_reviews import API_AUDIENCE
from support.redis_server import redis_server

from orbiter.approval import digest

from .asking_sessions import put_chat, put_session, worker
from .test_server_browser_kubernetes import sign_in
from .test_server_costs import put, stamp
from .test_server_transcripts import put_secret

__all__ = ["redis_server", "worker"]
pytestmark = pytest.mark.integration
ADA, BOB = "ada.token", "bob.token"
CARDS = "document.querySelectorAll('.waiting').length"
INBOX = "document.querySelector('.inbox').innerText"
FACTS = "document.querySelector('.facts')?.innerText ?? ''"
BUTTONS = "[...document.querySelectorAll('.facts .buttons button')].map(b => b.innerText).join()"
ROWS = """[...document.querySelectorAll('tbody tr')]
  .map(row => row.innerText.split('\\t').slice(0, 4).join(' ')).join('|')"""
CHOOSE = """(name, value) => {
  const field = document.querySelector(`[aria-label='${name}']`);
  field.value = value;
  field.dispatchEvent(new Event('change'));
}"""


def ask(api, name, question="main or trunk?", *, minute=0, calls=None):
    asked = {"id": f"q-{name}", "question": question, "askedAt": f"2026-01-01T00:{minute:02}:00Z"}
    if calls:
        asked |= {"kind": "approval", "calls": calls}
    meta = {"name": name, "namespace": "team-a", "creationTimestamp": stamp()}
    api.put("agenttasks", {
        "metadata": meta, "spec": {"prompt": "Do it", "agent": {"type": "claude"}},
        "status": {"phase": "InputRequired", "attempts": 1, "inputRequest": asked},
    })  # fmt: skip


@pytest.fixture
async def open_page(start, browser, api, reviews, tmp_path):
    """Open the page as ada, who may act, or as bob, whose token is for the page alone."""
    reviews.token(ADA, "ada", audience=("orbiter-server", API_AUDIENCE))
    reviews.token(BOB, "bob")
    for user in ("ada", "bob"):
        for verb in ("get", "list", "patch", "create"):
            reviews.give(user, verb, "agenttasks", "team-a")
            reviews.give(user, verb, "posessions", "team-a")

    async def opened(token, address, **config):
        server = await start(
            auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path), namespace="*", **config
        )
        page = await browser.page(f"{server.url}/#/{address}")
        await sign_in(page, token)
        return page

    return opened


async def test_what_waits_is_answered_from_the_inbox(open_page, api):
    ask(api, "later", "the later one", minute=5)
    ask(api, "first", "<b>which</b> branch?", minute=1)
    page = await open_page(ADA, "inbox")
    await page.until(f"{CARDS} === 2")
    shown = await page.do(INBOX)
    assert shown.index("<b>which</b> branch?") < shown.index("the later one")
    field = "[aria-label='Answer for first']"
    await page.click(field)
    await page.type("the main one")
    # a look at what there is now takes nothing from under somebody's fingers
    ask(api, "third", "a third one", minute=9)
    await page.until(f"{CARDS} === 3")
    assert await page.do(f'document.querySelector("{field}").value') == "the main one"
    await page.click(".waiting .primary")
    await page.until(f"{CARDS} === 2")
    given = api.get("agenttasks", "team-a", "first")["spec"]["input"]
    assert given == [{"id": "q-first", "text": "the main one", "by": "ada"}]
    assert page.complaints == []


async def test_an_approval_is_given_or_denied_with_a_reason(open_page, api):
    call = {"tool": "deploy", "arguments": {"to": "prod"}}
    call["digest"] = digest(**call)
    ask(api, "one", "", minute=1, calls=[call])
    ask(api, "two", "", minute=2, calls=[call])
    page = await open_page(ADA, "inbox")
    await page.until(f"{CARDS} === 2")
    assert '{"to": "prod"}' in await page.do(INBOX)
    await page.click(".waiting .primary")
    await page.until(f"{CARDS} === 1")
    assert (
        '"decision":"approve"' in api.get("agenttasks", "team-a", "one")["spec"]["input"][0]["text"]
    )
    await page.click("[aria-label='Reason for two']")
    await page.type("not on a Friday")
    await page.click(".waiting button:nth-of-type(2)")
    await page.until(f"{CARDS} === 0")
    text = api.get("agenttasks", "team-a", "two")["spec"]["input"][0]["text"]
    assert "not on a Friday" in text
    await page.until(f"{INBOX}.includes('Nothing waits for you')")


async def test_what_is_not_shown_whole_is_not_approved(open_page, api):
    """A command that begins harmlessly, and what it does is behind fifty thousand blanks."""
    for name, blanks in (("long", 50_000), ("short", 5000)):
        call = {"tool": "sh", "arguments": {"command": f"ls{' ' * blanks}; rm -rf /\u202e"}}
        call["digest"] = digest(**call)
        ask(api, name, "", minute=len(name), calls=[call])
    page = await open_page(ADA, "inbox")
    await page.until(f"{CARDS} === 2")
    shown = "[...document.querySelectorAll('.waiting')].map(card => card.innerText)"
    long, short = await page.do(shown)
    assert "kubectl get agenttask long -n team-a -o yaml" in long
    assert ("Approve" in long, "Deny" in long, "rm -rf" in long) == (False, True, False)
    assert ("Approve" in short, "; rm -rf /\\u202e" in short) == (True, True)
    assert await page.violations() == []
    assert page.complaints == []


async def test_a_session_is_answered_from_the_inbox_and_from_its_own_view(
    open_page, api, reviews, redis_server, worker
):
    put_secret(api, redis_server.url)
    put_chat(api, redis_server.url)
    for user in ("ada", "bob"):
        reviews.give(user, "get", "posessions/transcript", "team-a")
    reviews.give("ada", "get", "secrets", "team-a", "orbiter-chat")
    for name in ("alice", "bert"):
        put_session(api, name)
        await worker.asks(f"<i>Which</i>, {name}?", name=name)
    page = await open_page(ADA, "inbox", transcripts=True)
    await page.until(f"{CARDS} === 2")
    assert "<i>Which</i>, alice?" in await page.do(INBOX)
    assert await page.violations() == []
    await page.click("[aria-label='Answer for alice']")
    await page.type("the red one")
    await page.click(".waiting .primary")
    await page.until(f"{CARDS} === 1")
    [heard] = await worker.heard("alice")
    assert (heard.prompt, heard.user_id) == ("the red one", 7)
    # somebody else has answered meanwhile
    await worker.says("success", "r-2", name="bert")
    await page.click("[aria-label='Answer for bert']")
    await page.type("the blue one")
    await page.click(".waiting .primary")
    await page.until(f"{INBOX}.includes('asks nothing any more')")
    assert await worker.heard("bert") == []
    put_session(api, "bert", turns=2)
    await worker.asks("And now?", "r-3", name="bert")
    await page.do("location.hash = '#/cluster//sessions/team-a/bert'")
    await page.until(f"({FACTS}).includes('And now?')")
    await page.click("[aria-label='Answer for bert']")
    await page.type("go on")
    await page.click(".facts .primary")
    await page.until(f"!({FACTS}).includes('And now?')")
    assert [each.prompt for each in await worker.heard("bert")] == ["go on"]


async def test_who_only_reads_is_shown_the_command(open_page, api):
    ask(api, "one")
    page = await open_page(BOB, "inbox")
    await page.until(f"{INBOX}.includes('kubectl orbiter answer one -n team-a TEXT')")
    assert await page.do("document.querySelectorAll('.waiting button').length") == 0
    await page.do("location.hash = '#/cluster//tasks/team-a/one'")
    await page.until(f"({FACTS}).includes('main or trunk?')")
    assert await page.do(BUTTONS) == ""


async def test_a_task_is_cancelled_and_done_again_by_two_presses(open_page, api):
    ask(api, "fix")
    page = await open_page(ADA, "cluster//tasks/team-a/fix")
    await page.until(f"{BUTTONS} === 'Answer,Cancel'")
    cancel = ".facts .buttons:not(form .buttons) button"
    await page.click(cancel)
    assert await page.do(BUTTONS) == "Answer,Cancel: sure?"
    assert "desiredState" not in api.get("agenttasks", "team-a", "fix")["spec"]
    await page.click(cancel)
    await page.until(f"{BUTTONS} === 'Answer'")
    assert api.get("agenttasks", "team-a", "fix")["spec"]["cancelledBy"] == "ada"
    api.patch("agenttasks", "team-a", "fix", {"status": {"phase": "Cancelled"}})
    await page.until(f"{BUTTONS} === 'Do it again'")
    await page.click(".facts .buttons button")
    await page.click(".facts .buttons button")
    await page.until("location.hash.includes('/tasks/team-a/fix-')")
    made = (await page.do("location.hash")).rpartition("/")[2]
    assert api.get("agenttasks", "team-a", made)["spec"]["prompt"] == "Do it"
    assert page.complaints == []


async def test_costs_are_a_chart_and_a_table(open_page, api):
    put(api, "one", 1.0, team="red")
    put(api, "two", 0.5, days=2, team="blue")
    put(api, "chat", 8.0, kind="posessions", team="red")
    page = await open_page(ADA, "costs")
    await page.until("document.querySelectorAll('.chart rect').length === 3")
    assert await page.do("document.querySelector('.total').innerText") == "$1.50 in 30 days"
    assert await page.do(ROWS) == f"{stamp()[:10]} $1.00 1 0|{stamp(2)[:10]} $0.50 1 0"
    await page.do(f"({CHOOSE})('Sum up by', 'label')")
    await page.do(f"({CHOOSE})('Key of the label', 'team')")
    await page.until(f"{ROWS} === 'red $9.00 1 1|blue $0.50 1 0'")
    await page.do(f"({CHOOSE})('Sum up by', 'agent')")
    await page.until(f"{ROWS} === 'claude $9.50 2 1'")
    assert page.complaints == []


async def test_a_list_is_asked_for_a_label(open_page, api):
    put(api, "one", 1.0, team="red")
    put(api, "two", 1.0, team="blue")
    page = await open_page(ADA, "cluster")
    await page.until("document.querySelectorAll('.spacer .row').length === 2")
    await page.click("[aria-label='Label of AgentTasks']")
    await page.type("team=red")
    await page.press("Enter")
    await page.until("document.querySelectorAll('.spacer .row').length === 1")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 420])
async def test_every_view_keeps_the_rules_of_wcag(start, browser, api, tmp_path, dark, width):
    call = {"tool": "deploy", "arguments": {"to": "prod"}}
    ask(api, "one", "main or trunk?", minute=1)
    ask(api, "two", "", minute=2, calls=[{**call, "digest": digest(**call)}])
    put(api, "done", 1.0, team="red")
    put(api, "chat", 8.0, kind="posessions", team="red")
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*")
    ready = {
        "chat": "document.querySelector('textarea')",
        "tasks": "document.querySelector('.new-task')",
        "cluster": "document.querySelectorAll('.spacer .row').length >= 4",
        "cluster//tasks/team-a/one": f"({FACTS}).includes('main or trunk?')",
        "cluster//sessions/team-a/chat": f"({FACTS}).includes('chat')",
        "inbox": f"{CARDS} === 2",
        "costs": "document.querySelectorAll('.chart rect').length === 1",
    }
    page = await browser.page(server.url, width=width, dark=dark)
    for address, shown in ready.items():
        await page.do(f"location.hash = '#/{address}'")
        await page.until(shown)
        assert await page.violations() == [], address
        assert await page.do("document.documentElement.scrollWidth <= innerWidth"), address
    assert page.complaints == []
