"""The pictures of the page in docs/screenshots, made here: every view, with work in it.

`RECORD=1` writes them anew; without, what the page looks like now is held beside them. Some of
it is different each day, so a fiftieth of a picture may be.
"""

import base64
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.fake_reviews import API_AUDIENCE
from support.redis_server import redis_server

from orbiter.approval import digest
from orbiter.models import ScriptedModel, call
from orbiter_contracts.queues import Keys
from orbiter_contracts.transcript import (
    MessageEvent,
    TextEvent,
    ToolCallEvent,
    ToolResultEvent,
    VerdictEvent,
)
from orbiter_contracts.transcript_reading import entry_data
from orbiter_contracts.transcript_scripts import END_FIELD, NEXT_FIELD

from .test_server_artifacts import keep, put_producer
from .test_server_browser import FINISHED, ask
from .test_server_browser_kubernetes import sign_in
from .test_server_costs import stamp
from .test_server_transcripts import UID, Writer, put_secret

__all__ = ["redis_server"]
pytestmark = pytest.mark.integration
HOME = Path(__file__).resolve().parents[3] / "docs" / "screenshots"
ADA = "ada.token"
WIDTH, HEIGHT = 1280, 800
MOST_BYTES = 200_000
DIFFERENT = 0.02
KEPT = {"out/report.md": b"x" * 2_000, "out/before.png": b"x" * 24_000}
INPUT = "{team-a}:worker:developer:input"
# the part of the pixels that are another colour, as the browser itself counts them
COMPARE = """async ([one, other]) => {
  const pixels = await Promise.all([one, other].map(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height).data;
  }));
  if (pixels[0].length !== pixels[1].length) return 1;
  let different = 0;
  for (let at = 0; at < pixels[0].length; at += 4) {
    const apart = (byte) => Math.abs(pixels[0][at + byte] - pixels[1][at + byte]) > 24;
    if ([0, 1, 2].some(apart)) different += 1;
  }
  return different / (pixels[0].length / 4);
}"""


def put_task(api, name, phase, *, agent="claude", cost=None, days=0, uid=None, team="shop", **more):
    """A task of the team's."""
    status = {"phase": phase, "attempts": 1, "inputStream": INPUT, **more.pop("status", {})}
    if cost is not None:
        status["usage"] = {"costUSD": cost, "inputTokens": 41_200, "outputTokens": 1_830}
        status["completionTime"] = stamp(days)
    meta = {
        "name": name, "namespace": "team-a", "creationTimestamp": "2026-01-05T09:00:00Z",
        "labels": {"team": team},
    }  # fmt: skip
    if uid:
        meta["uid"] = uid
    spec = {"prompt": "The login shows an empty page. Mend it.", "agent": {"type": agent}, **more}
    api.put("agenttasks", {"metadata": meta, "spec": spec, "status": status})


def put_team(api):
    """A team's tasks and sessions."""
    put_task(api, "fix-login", "Running", uid=UID, artifacts=["out"], status={
        "message": "runs pytest -q", "progress": "runs pytest -q", "attempts": 2, "disruptions": 1,
        "startTime": ago(14).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "usage": {"costUSD": 0.21, "inputTokens": 20_800, "outputTokens": 913},
        "artifacts": {"attempt": 1, "count": 2, "bytes": 26_000, "names": list(KEPT)},
        "checkpoint": {"time": ago(2).strftime("%Y-%m-%dT%H:%M:%SZ"), "turns": 6},
    })  # fmt: skip
    call = {"tool": "deploy", "arguments": {"service": "shop", "to": "production"}}
    for second, name, asked in (
        (1, "choose-branch", {"question": "Both `main` and `trunk` exist. Which one is meant?"}),
        (0, "deploy-shop", {"question": "", "kind": "approval",
                            "calls": [{**call, "digest": digest(**call)}]}),
    ):  # fmt: skip
        request = {"id": f"q-{name}", "askedAt": f"2026-01-05T09:05:0{second}Z", **asked}
        put_task(api, name, "InputRequired", agent="codex",
                 status={"message": "asks something", "inputRequest": request})  # fmt: skip
    for number, (name, agent, cost) in enumerate((
        ("update-dependencies", "claude", 1.82), ("write-changelog", "codex", 0.34),
        ("review-4711", "claude", 0.77), ("flaky-tests", "opencode", 2.60),
    )):  # fmt: skip
        put_task(api, name, "Completed", agent=agent, cost=cost, days=3 * number,
                 team=("shop", "platform")[number % 2],
                 status={"message": "it is done", "result": {"summary": "Done."}})  # fmt: skip
    put_task(api, "old-branch", "Failed", cost=0.05, days=2,
             status={"message": "the branch was deleted meanwhile"})  # fmt: skip
    api.put("posessions", {
        "metadata": {"name": "alice", "namespace": "team-a",
                     "creationTimestamp": "2026-01-02T09:00:00Z"},
        "spec": {"userId": 7, "agent": {"type": "claude"}},
        "status": {"phase": "Ready", "turns": 12, "lastActivityTime": stamp(1),
                   "inputStream": "{team-a}:worker:po:team-a.alice:input",
                   "usage": {"costUSD": 3.1, "inputTokens": 90_000, "outputTokens": 4_000}},
    })  # fmt: skip


def ago(minutes):
    """A moment of today, most of the day."""
    return datetime.now(UTC) - timedelta(minutes=minutes)


async def write(redis, key, attempt, *events, first=8, last=1):
    """What an agent has said and done, from so many minutes ago to so many."""
    writer = Writer(redis)
    made = [writer.event(kind, **fields) for kind, fields in events]
    times = [{"at": ago(first)}] * (len(made) - 1) + [{"at": ago(last)}]
    data = entry_data(
        [
            event.model_copy(update={"attempt": attempt, **at})
            for event, at in zip(made, times, strict=True)
        ]
    )
    await redis.xadd(key, {"data": data, END_FIELD: len(data), NEXT_FIELD: len(made)})


async def put_transcripts(redis):
    """Of the running task, and of the session."""
    keys = Keys.of_namespace("team-a")
    await keep(redis, KEPT)
    await write(
        *(redis, keys.task_transcript(UID, 1), 1),
        (TextEvent, {"text": "I begin with the tests."}),
        (VerdictEvent, {"status": "failed", "reason": "AgentError", "cost_usd": 0.08,
                        "text": "the tests need a database"}),
        first=14, last=9,
    )  # fmt: skip
    await write(
        *(redis, keys.task_transcript(UID, 2), 2),
        (TextEvent, {"text": "I look at the login first."}),
        (ToolCallEvent, {"tool_name": "Read", "tool_call_id": "1", "arguments": '{"file_path": '
                         '"/workspace/login.py"}'}),
        (ToolResultEvent, {"tool_call_id": "1", "content": "def login(user): …", "seconds": 0.1}),
        (TextEvent, {"text": "It returns **nothing** for who is signed in.", "opens": True}),
        (ToolCallEvent, {"tool_name": "Bash", "tool_call_id": "2", "arguments": '{"command": '
                         '"pytest -q"}'}),
    )  # fmt: skip
    await write(
        *(redis, keys.po_transcript("team-a.alice"), 0),
        (MessageEvent, {"text": "Which issues are new since yesterday?"}),
        (TextEvent, {"text": "Two:\n\n- **#81** the login shows an empty page\n- **#82** prices "
                     "without a currency"}),
        (VerdictEvent, {"status": "success"}),
        (MessageEvent, {"text": "Have somebody mend the first."}),
        (TextEvent, {"text": "`fix-login` is at it."}),
        (VerdictEvent, {"status": "success"}),
    )  # fmt: skip


@pytest.fixture
async def page(start, browser, api, reviews, redis_server, tmp_path):
    """The page as somebody sees it who may do everything in their namespace."""
    put_team(api)
    put_secret(api, redis_server.url)
    put_producer(api, redis_server.url)
    redis = Redis.from_url(redis_server.url)
    await redis.flushall()
    await put_transcripts(redis)
    await redis.aclose()
    reviews.token(ADA, "ada", audience=("orbiter-server", API_AUDIENCE))
    for verb in ("get", "list", "patch", "create"):
        for plural in ("agenttasks", "posessions", "agenttasks/transcript"):
            reviews.give("ada", verb, plural, "team-a")
    for place in ("posessions/transcript",):
        reviews.give("ada", "get", place, "team-a")
    reviews.give("ada", "use", "agents", "default")
    model = ScriptedModel(call("get_weather", city="Oslo"), "It is **sunny** in Oslo.")
    server = await start(
        model=model, auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path), namespace="*",
        transcripts=True,
    )  # fmt: skip
    page = await browser.page(f"{server.url}/#/cluster", width=WIDTH, height=HEIGHT)
    await sign_in(page, ADA)
    await page.until("document.querySelectorAll('.spacer .row').length >= 9")
    return page


VIEWS = {
    "cluster": ("cluster", "document.querySelectorAll('.spacer .row').length >= 9"),
    "task": (
        "cluster//tasks/team-a/fix-login",
        "document.querySelector('.transcript').innerText.includes('pytest')"
        " && document.querySelectorAll('.attempts button').length === 2"
        " && !document.querySelector('.artifacts').hidden"
        " && !document.querySelector('.spec').hidden",
    ),
    "session": (
        "cluster//sessions/team-a/alice",
        "document.querySelector('.transcript').innerText.includes('is at it')",
    ),
    "inbox": ("inbox", "document.querySelectorAll('.waiting').length === 2"),
    "costs": ("costs", "document.querySelectorAll('.chart rect').length >= 4"),
}


async def test_every_view_of_the_page_looks_as_the_docs_show_it(page, browser, tmp_path):
    # of its own: the page's policy lets no picture in
    judge = await browser.page("about:blank")
    for name, (address, shown) in VIEWS.items():
        await page.do(f"location.hash = '#/{address}'")
        await page.until(shown)
        await keep_or_compare(page, judge, name, tmp_path)
    await page.do("location.hash = '#/chat'")
    await ask(page, "How is the weather in Oslo?")
    await page.until(FINISHED)
    await keep_or_compare(page, judge, "chat", tmp_path)
    assert {file.stem for file in HOME.glob("*.png")} == {*VIEWS, "chat"}
    told = (HOME.parent / "server.md").read_text()
    assert all(f"screenshots/{file.name}" in told for file in HOME.iterdir())
    assert page.complaints == []


async def keep_or_compare(page, judge, name, directory):
    """Write a picture, or hold it beside the one that is kept."""
    # nothing blinks, moves or has the focus in a picture
    await page.do("document.activeElement.blur(), document.fonts.ready.then(() => null)")
    kept, now = HOME / f"{name}.png", directory / f"{name}.png"
    await page.screenshot(now)
    if os.environ.get("RECORD"):
        kept.write_bytes(now.read_bytes())
    assert kept.stat().st_size < MOST_BYTES, name
    files = [base64.b64encode(file.read_bytes()).decode() for file in (kept, now)]
    different = await judge.do(f"({COMPARE})({files})")
    assert different < DIFFERENT, f"{name}: {different:.1%} of {kept} is not as it is now ({now})"
