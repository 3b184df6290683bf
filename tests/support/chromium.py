"""A real headless Chromium: Debian's, driven by Playwright, which brings none of its own here.

`browser` is a fixture: import it into the module or conftest that uses it.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import playwright.async_api as driver
import pytest
from support.eventually import eventually

PROGRAM = "chromium"


class Page:
    """One page. `complaints` is what the browser found wrong: errors and broken policies."""

    def __init__(self, page: driver.Page, tools: driver.CDPSession) -> None:
        self._page = page
        self._tools = tools
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        tools.on("Log.entryAdded", self._logged)

    def _logged(self, event: dict[str, Any]) -> None:
        # servers that are away are part of the tests
        if event["entry"]["source"] != "network":
            self.complaints.append(event["entry"]["text"])

    async def open(self, url: str) -> None:
        await self._page.goto(url)

    async def reload(self) -> None:
        await self._page.reload()

    async def do(self, script: str) -> Any:
        """Evaluate an expression, also one that is a promise."""
        return await self._page.evaluate(script)

    async def until(self, condition: str, *, seconds: float = 90.0) -> Any:
        """Wait until an expression is true."""

        async def holds() -> Any:
            try:
                # an element as a value would be an empty object
                return await self.do(f"(v => v instanceof Node ? true : v)({condition})")
            except driver.Error:
                return False  # the page is being replaced

        try:
            return await eventually(holds, seconds=seconds)
        except AssertionError:
            text = await self.do("document.body.innerText")
            raise AssertionError(f"never true: {condition}\n{self.complaints}\n{text}") from None

    async def type(self, text: str) -> None:
        await self._page.keyboard.insert_text(text)

    async def press(self, key: str) -> None:
        await self._page.keyboard.press(key)

    async def click(self, selector: str) -> None:
        await self._page.locator(selector).first.click()

    async def choose(self, selector: str, *files: Path) -> None:
        """Choose files, as somebody does in the dialogue that a button opens."""
        await self._page.locator(selector).set_input_files(files)

    async def saved(self, selector: str) -> tuple[str, bytes]:
        """Press what saves a file; return how the file is called, and what is in it."""
        async with self._page.expect_download() as begun:
            await self.click(selector)
        file = await begun.value
        return file.suggested_filename, (await file.path()).read_bytes()

    async def screenshot(self, file: Path) -> None:
        await self._page.screenshot(path=file)

    async def violations(self) -> list[str]:
        """Return what breaks a rule of WCAG 2.2 A or AA, as axe-core finds it: rule and where."""
        from axe_playwright_python.async_playwright import Axe

        rules = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
        found = await Axe().run(self._page, options={"runOnly": rules})
        return [
            f"{broken['id']}: {node['target']} {node['failureSummary']}"
            for broken in found.response["violations"]
            for node in broken["nodes"]
        ]

    async def roles(self) -> list[tuple[str, str]]:
        """Return role and name of everything a screen reader meets."""
        tree = await self._tools.send("Accessibility.getFullAXTree")
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree["nodes"]
            if not node.get("ignored")
        ]


class Browser:
    """Opens pages, which share nothing."""

    def __init__(self, browser: driver.Browser) -> None:
        self._browser = browser

    async def page(
        self, url: str, *, width: int = 1280, height: int = 800, dark: bool = False
    ) -> Page:
        """Open a page of its own."""
        context = await self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        opened = await context.new_page()
        tools = await context.new_cdp_session(opened)
        page = Page(opened, tools)
        for domain in ("Log", "Accessibility"):
            await tools.send(f"{domain}.enable")
        await page.open(url)
        return page


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run a browser with a profile of its own."""
    program = shutil.which(PROGRAM)
    assert program, "install Debian's package chromium (tests/run.py does)"
    async with driver.async_playwright() as playwright:
        # Chromium's own sandbox does not work for root
        running = await playwright.chromium.launch(
            executable_path=program, chromium_sandbox=False, args=["--disable-gpu"]
        )
        try:
            yield Browser(running)
        finally:
            await running.close()


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """The browser, whose pages close with the test."""
    async with chromium() as browser:
        yield browser
