"""Images in sessions: sent in the request, kept with the run, shown to whom it belongs."""

import base64
import json
import signal

import pytest
from support.eventually import eventually
from websockets.asyncio.client import connect

from orbiter import Agent, tool
from orbiter.models import ScriptedModel, call
from orbiter.parts import DocumentPart, ImagePart, TextPart
from orbiter.server._internal.database import Database
from orbiter.server._internal.sessions import Sessions
from orbiter.server.data_url import MAX_IMAGE_BYTES, MOST_IMAGES
from orbiter.types import UserMessage

from .spelling_server import MARK, WORDS
from .test_server_crashes import Client, Process

DOT = b"\x89PNG dot"
IMAGE = ImagePart(data=DOT, media_type="image/png")
ASKED = UserMessage(content="What is this?", parts=(IMAGE, TextPart(text="What is this?")))


def url_of(data=DOT, kind="image/png"):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def said(messages):
    return [message for message in messages if isinstance(message, UserMessage)]


async def test_an_agent_sees_the_images_of_a_session_in_every_run_of_it(start):
    model = ScriptedModel("A dot.", "Yes.")
    server = await start(model=model)
    run = await server.ask("helper", "What is this?", images=[url_of()])
    assert run["images"] == ["image/png"]
    await server.outcome(run)
    path = f"/v1/sessions/{run['session_id']}"
    more = (await server.http.post(f"{path}/runs", json={"input": "Sure?"})).json()
    await server.outcome(more)
    assert said(model.requests[0].messages) == [ASKED]
    assert said(model.requests[1].messages) == [ASKED, UserMessage(content="Sure?")]
    session = (await server.http.get(path)).json()
    assert [run["images"] for run in session["runs"]] == [["image/png"], []]
    assert session["messages"][0]["content"] == "What is this?"
    assert session["messages"][0]["parts"] == [
        {"type": "image", "media_type": "image/png", "size": len(DOT),
         "path": f"/v1/runs/{run['id']}/files/0"},
        {"type": "text", "text": "What is this?"},
    ]  # fmt: skip
    assert "parts" not in session["messages"][2]
    assert session["title"] == "What is this?"


async def test_a_conversation_is_shown_without_the_bytes_of_its_files(start):
    large, paper = b"x" * 1_000_000, b"%PDF-1.7 paper"

    @tool
    def scan():
        """Scan."""
        return [DocumentPart(data=paper, media_type="application/pdf", name="a.pdf"), "scanned"]

    model = ScriptedModel(call("scan"), "Read.")
    server = await start({"helper": Agent(name="helper", tools=[scan])}, model)
    run = await server.ask("helper", "", images=[url_of(large), url_of(large)])
    await server.outcome(run)
    answer = await server.http.get(f"/v1/sessions/{run['session_id']}")
    assert len(answer.content) < 10_000
    messages = answer.json()["messages"]
    files = [part for m in messages for part in m.get("parts", ()) if "path" in part]
    assert [(part["type"], part["size"]) for part in files] == [
        ("image", len(large)), ("image", len(large)), ("document", len(paper)),
    ]  # fmt: skip
    assert files[2]["name"] == "a.pdf"
    document = await server.http.get(files[2]["path"])
    assert (document.content, document.headers["content-type"]) == (paper, "application/pdf")
    assert document.headers["content-disposition"] == "attachment"
    assert "sandbox" in document.headers["content-security-policy"]
    for number in ("3", "-1", "x", "9" * 5000):
        missing = await server.http.get(f"/v1/runs/{run['id']}/files/{number}")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "file_not_found")


async def test_an_image_is_shown_again_as_what_it_is_and_nothing_else(start):
    server = await start(model=ScriptedModel("Two.", repeat=True))
    run = await server.ask("helper", "", images=[url_of(b"a"), url_of(b"b", "image/webp")])
    await server.outcome(run)
    second = await server.http.get(f"/v1/runs/{run['id']}/images/1")
    assert (second.content, second.headers["content-type"]) == (b"b", "image/webp")
    assert second.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in second.headers["content-security-policy"]
    for number in ("2", "-1", "x", "9" * 5000):
        missing = await server.http.get(f"/v1/runs/{run['id']}/images/{number}")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "image_not_found")
    text = await server.ask("helper", "Words alone")
    await server.outcome(text)
    assert (await server.http.get(f"/v1/runs/{text['id']}/images/0")).status_code == 404
    titles = [s["title"] for s in (await server.http.get("/v1/sessions")).json()["sessions"]]
    assert sorted(titles) == ["Image", "Words alone"]


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("https://example.org/cat.png", 400),
        ("http://127.0.0.1:1/", 400),
        ("file:///etc/passwd", 400),
        (url_of(kind="image/svg+xml"), 400),
        ("data:image/png;base64,iVBORw=", 400),
        ("data:image/png;base64,", 400),
        ("data:image/png,plain", 400),
        (url_of(b"x" * (MAX_IMAGE_BYTES + 1)), 413),
    ],
)
async def test_no_image_is_fetched_and_none_is_too_large(start, url, status):
    model = ScriptedModel("x")
    server = await start(model=model)
    body = {"input": "What is this?", "images": [url_of(), url]}
    answer = await server.http.post("/v1/agents/helper/runs", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, "images.1")
    wanted = "give the image itself" if status == 400 else "2,500,000 bytes at most"
    assert wanted in error["message"]
    assert ("no URL is fetched" in error["message"]) == (status == 400)
    assert (await server.http.get("/v1/sessions")).json()["total"] == 0
    assert model.requests == []


async def test_an_image_of_the_largest_size_is_taken_and_no_more_than_twenty(start):
    server = await start(model=ScriptedModel("x", repeat=True))
    largest = await server.ask("helper", "", images=[url_of(b"x" * MAX_IMAGE_BYTES)])
    assert len(await server.outcome(largest)) > 1
    body = {"images": [url_of()] * (MOST_IMAGES + 1)}
    answer = await server.http.post("/v1/agents/helper/runs", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "images")


async def test_to_say_nothing_is_refused(start):
    server = await start()
    for body in ({}, {"input": ""}, {"input": "", "images": []}):
        answer = await server.http.post("/v1/agents/helper/runs", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, "input")


@pytest.mark.integration
async def test_an_image_comes_over_the_socket_too(start):
    model = ScriptedModel("A dot.")
    server = await start(model=model)
    async with connect(server.url.replace("http", "ws") + "/v1/socket") as socket:
        wish = {"type": "run", "id": "a", "agent": "helper", "input": "What is this?"}
        await socket.send(json.dumps({**wish, "images": ["https://example.org/cat.png"]}))
        refused = json.loads(await socket.recv())
        assert "no URL is fetched" in refused["error"]["message"]
        await socket.send(json.dumps({**wish, "images": [url_of()]}))
        while json.loads(await socket.recv())["type"] != "done":
            pass
    assert said(model.requests[0].messages) == [ASKED]


async def test_a_run_that_fails_keeps_its_image(start):
    server = await start(model=ScriptedModel(RuntimeError("away")))
    run = await server.ask("helper", "What is this?", images=[url_of()])
    assert (await server.outcome(run))[-1]["status"] == "failed"
    session = (await server.http.get(f"/v1/sessions/{run['session_id']}")).json()
    assert session["messages"][0]["parts"][0]["size"] == len(DOT)
    assert (await server.http.get(f"/v1/runs/{run['id']}/images/0")).content == DOT


async def test_a_file_of_before_images_is_read(tmp_path):
    database = Database(tmp_path / "sessions.db")
    await database.do(lambda db: db.execute("ALTER TABLE runs DROP COLUMN images"))
    await database.close()
    for _ in range(2):
        sessions = Sessions(database := Database(tmp_path / "sessions.db"))
        session = await sessions.create("helper", None)
        run, *_ = await sessions.begin_run(session.id, UserMessage(content="Hi"), None)
        assert (await sessions.run(run.id, None)).images == []
        await database.close()


@pytest.mark.integration
async def test_kill_9_costs_no_image(tmp_path):
    server = Process(tmp_path)
    await server.start()
    try:
        body = {"input": "What is this?", "images": [url_of()]}
        run = (await server.http.post("/v1/agents/speller/runs", json=body)).json()
        client = Client(server, run["id"])
        shown = tmp_path / "shown"
        # it was seen with the question, and again with the tool's result
        await eventually(lambda: shown.exists() and len(shown.read_text().splitlines()) == 2)
        await server.send(signal.SIGKILL)
        await server.start()
        assert (await server.http.get(f"/v1/runs/{run['id']}/images/0")).content == DOT
        server.let(0, len(WORDS))
        while not await client.follow():
            pass
        assert client.text == "Let me see. " + "".join(WORDS)
        asked, result = f"image/png {DOT.hex()} ", f"image/png {MARK.data.hex()} "
        assert shown.read_text().splitlines() == [asked, asked + result, asked + result]
        session = (await server.http.get(f"/v1/sessions/{run['session_id']}")).json()
        seen = session["messages"][0]["parts"][0]
        assert (await server.http.get(seen["path"])).content == DOT
        roles = [message["role"] for message in session["messages"]]
        assert roles == ["user", "assistant", "tool", "assistant"]
    finally:
        await server.send(signal.SIGKILL)
        await server.http.aclose()
