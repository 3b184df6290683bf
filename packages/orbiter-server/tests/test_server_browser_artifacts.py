"""The files that a task has kept, on its page in a real Chromium."""

import pytest
from support.redis_server import redis_server

from .test_server_artifacts import HTML, entry, keep, put_kept, redis
from .test_server_browser_kubernetes import sign_in
from .test_server_cluster_actions import ADA, BOB, launch

__all__ = ["launch", "redis", "redis_server"]
pytestmark = pytest.mark.integration
SHOWN = "document.querySelector('.artifacts').innerText"
TASK = "#/cluster//tasks/team-a/fix"


async def test_a_small_file_is_saved_and_one_in_the_store_says_how(
    launch, browser, api, redis, reviews
):
    big = entry(1, "big.bin", b"x" * 3_000_000, place="store")
    name = "out/<b>report</b>.html"
    small = entry(0, name, HTML, key="0000-report.html")
    await keep(redis, {name: HTML}, entries=[small, big])
    ada, *_ = await launch(transcripts=True)
    page = await browser.page(f"{ada.url}/{TASK}")
    await sign_in(page, ADA)
    await page.until("document.querySelector('.artifacts').hidden === false")
    await page.click(".artifacts > summary")
    shown = await page.do(SHOWN)
    assert "Artifacts of attempt 1: 2 files, 2.9 MiB" in shown
    assert "out/<b>report</b>.html" in shown
    assert "in the store" in shown
    assert "kubectl orbiter artifacts fix -n team-a --attempt 1 --fetch DIR" in shown
    assert await page.do("document.querySelectorAll('.files button').length") == 1
    saved_as, content = await page.saved(".files button")
    assert content == HTML
    assert saved_as.endswith(".html")
    assert await page.do("location.hash") == TASK, "it is saved and not shown"
    assert await page.violations() == []
    put_kept(api, count=1, bytes=1, names=["other"])
    await redis.flushall()
    await page.until(f"{SHOWN}.includes('1 file, 1 B')")
    assert "Redis has no index of them" in await page.do(SHOWN)
    assert page.complaints == []


async def test_with_a_token_for_the_page_alone_the_names_are_there(launch, browser, redis):
    await keep(redis, {"out/report.html": HTML, "big.bin": b"xx"})
    _, bob, _ = await launch(transcripts=True)
    page = await browser.page(f"{bob.url}/{TASK}")
    await sign_in(page, BOB)
    await page.until("document.querySelector('.artifacts').hidden === false")
    await page.click(".artifacts > summary")
    shown = await page.do(SHOWN)
    assert "out/report.html" in shown
    assert "this token only reads" in shown
    assert await page.do("document.querySelectorAll('.files button').length") == 0
