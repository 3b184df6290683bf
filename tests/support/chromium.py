"""A real headless Chromium, driven over its DevTools protocol.

`browser` is a fixture: import it, and `chromium_address`, into the module or conftest that uses it.
"""

import asyncio
import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually
from websockets.asyncio.client import ClientConnection, connect

PROGRAM = "chromium"
KEYS = {"Enter": 13, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39,
        "End": 35, "Home": 36, "PageDown": 34, "Escape": 27}  # fmt: skip


class Browser:
    """The connection to the browser; pages share it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._contexts: list[str] = []
        self._reader = asyncio.create_task(self._read())

    async def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        key = next(self._ids)
        self._answers[key] = asyncio.get_running_loop().create_future()
        message = {"id": key, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        await self._socket.send(json.dumps(message))
        return await self._answers[key]

    async def page(
        self, url: str, *, width: int = 1280, height: int = 800, dark: bool = False
    ) -> "Page":
        """Open a page of its own."""
        context = await self.call("Target.createBrowserContext")
        self._contexts.append(context["browserContextId"])
        target = await self.call(
            "Target.createTarget", url="about:blank",
            browserContextId=context["browserContextId"],
        )  # fmt: skip
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        page = Page(self, attached["sessionId"])
        self._pages[attached["sessionId"]] = page
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            await page.call(f"{domain}.enable")
        await page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await page.call("Emulation.setEmulatedMedia", features=[scheme])
        await page.open(url)
        return page

    async def close(self) -> None:
        """Close the pages that were opened here."""
        for context in self._contexts:
            await self.call("Target.disposeBrowserContext", browserContextId=context)
        self._reader.cancel()

    async def _read(self) -> None:
        async for text in self._socket:
            message = json.loads(text)
            if "id" in message:
                answer = self._answers.pop(message["id"])
                if "error" in message:
                    answer.set_exception(RuntimeError(message["error"]["message"]))
                else:
                    answer.set_result(message["result"])
            elif message.get("sessionId") in self._pages:
                self._pages[message["sessionId"]].told(message["method"], message["params"])


class Page:
    """One page. `complaints` is what the browser found wrong: errors and broken policies."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.complaints: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.call(method, self._session, **params)

    def told(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            detail = params["exceptionDetails"]
            self.complaints.append(detail.get("exception", {}).get("description", detail["text"]))
        elif method == "Log.entryAdded" and params["entry"]["source"] != "network":
            self.complaints.append(params["entry"]["text"])

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def reload(self) -> None:
        """Load the page again, and wait until it is another one."""
        await self.do("globalThis.old = true")
        await self.call("Page.reload")
        await self.until("!globalThis.old && document.readyState === 'complete'")

    async def do(self, script: str) -> Any:
        """Evaluate an expression, also one that is a promise."""
        answer = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    async def until(self, condition: str, *, seconds: float = 30.0) -> Any:
        """Wait until an expression is true."""

        async def holds() -> Any:
            try:
                # an element as a value would be an empty object
                return await self.do(f"(v => v instanceof Node ? true : v)({condition})")
            except (RuntimeError, AssertionError):
                return False  # the page is being replaced

        try:
            return await eventually(holds, seconds=seconds)
        except AssertionError:
            text = await self.do("document.body.innerText")
            raise AssertionError(f"never true: {condition}\n{self.complaints}\n{text}") from None

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=KEYS[key], **(more if kind == "keyDown" else {}),
            )  # fmt: skip

    async def click(self, selector: str) -> None:
        place = await self.until(
            f"(() => {{ const r = document.querySelector({selector!r})?.getBoundingClientRect();"
            " return r && r.width ? [r.x + r.width / 2, r.y + r.height / 2] : null; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left",
                clickCount=1,
            )  # fmt: skip

    async def screenshot(self, file: Path) -> None:
        shot = await self.call("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(shot["data"]))

    async def roles(self) -> list[tuple[str, str]]:
        """Return role and name of everything a screen reader meets."""
        tree = await self.call("Accessibility.getFullAXTree")
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree["nodes"]
            if not node.get("ignored")
        ]


@contextmanager
def chromium(directory: Path) -> Iterator[str]:
    """Run a browser with a profile of its own, and give the address it is driven by."""
    program = shutil.which(PROGRAM)
    assert program, "install Debian's package chromium (tests/run.py does)"
    child = subprocess.Popen(
        [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--remote-debugging-port=0", f"--user-data-dir={directory}", "about:blank",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        place = directory / "DevToolsActivePort"
        lines = asyncio.run(eventually(lambda: _lines(place), seconds=60))
        yield f"ws://127.0.0.1:{lines[0]}{lines[1]}"
    finally:
        # its helpers too: they are a group of their own
        os.killpg(child.pid, signal.SIGTERM)
        child.wait()


def _lines(place: Path) -> list[str]:
    lines = place.read_text().split() if place.exists() else []
    return lines if len(lines) == 2 else []


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Browser]:
    """Connect to a running browser."""
    async with connect(address, max_size=None) as socket:
        browser = Browser(socket)
        try:
            yield browser
        finally:
            await browser.close()


@pytest.fixture(scope="session")
def chromium_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chromium(tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture
async def browser(chromium_address: str) -> AsyncIterator[Browser]:
    """The browser, whose pages close with the test."""
    async with connected(chromium_address) as browser:
        yield browser
