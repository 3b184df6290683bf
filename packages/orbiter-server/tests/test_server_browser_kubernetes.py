"""The page where the cluster decides who sees what: signing in, and what is shown then."""

import pytest

from orbiter.server._internal import reviews as module

from .test_server_cluster import put

pytestmark = pytest.mark.integration
ADA = "ada.token"
LINKS = "[...document.querySelectorAll('.top nav a')].map(e => e.innerText).join()"
ROWS = (
    "[...document.querySelectorAll('.spacer .row')].map(r => r.innerText.split(/\\s+/)[1]).join()"
)
PROBLEMS = "[...document.querySelectorAll('h2 .problem')].map(e => e.textContent).join('|')"
HINT = "document.getElementById('login-hint').innerText"
REFUSED = "document.getElementById('login-problem').textContent"


@pytest.fixture
async def page(start, browser, api, reviews, tmp_path):
    """The page before anybody has signed in; ada may look at team-a and talk to no agent."""
    for namespace in ("team-a", "team-b"):
        put(api, f"of-{namespace}", namespace=namespace)
    reviews.token(ADA, "ada")
    for kind in ("agenttasks", "posessions"):
        reviews.give("ada", "list", kind, "team-a")
    server = await start(auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path), namespace="*")
    return await browser.page(f"{server.url}/#/cluster")


async def sign_in(page, token):
    await page.until("document.activeElement.id === 'token'")
    await page.type(token)
    await page.press("Enter")


async def test_a_stranger_is_told_how_to_make_a_token_and_sees_nothing_else(page):
    await page.until(f"{HINT}.includes('kubectl create token')")
    assert "--audience=orbiter-server" in await page.do(HINT)
    await sign_in(page, "garbage")
    await page.until(f"{REFUSED} === 'This token does not open the page.'")
    assert await page.do("document.getElementById('app')") is None
    assert await page.do("sessionStorage.getItem('orbiter-token')") is None


async def test_who_signs_in_sees_their_namespaces_and_may_use_no_agents(page):
    await sign_in(page, ADA)
    await page.until(f"{ROWS} === 'team-a/of-team-a'")
    assert await page.do(LINKS) == "Cluster,Inbox,Costs"
    assert ADA not in await page.do("location.href")


async def test_who_may_use_agents_has_a_chat_too(page, reviews):
    reviews.give("ada", "use", "agents", "default")
    await sign_in(page, ADA)
    await page.until(f"{LINKS} === 'Chat,Tasks,Cluster,Inbox,Costs'")


async def test_one_namespace_has_an_address(page):
    await sign_in(page, ADA)
    await page.until(f"{ROWS} === 'team-a/of-team-a'")
    await page.do("location.hash = '#/cluster/team-b'")
    await page.until(
        f"{PROBLEMS}.includes('ada may not list agenttasks.orbiter.dev in namespace team-b')"
    )
    assert await page.do(ROWS) == ""
    await page.do("location.hash = '#/cluster/team-a'")
    await page.until(f"{ROWS} === 'team-a/of-team-a'")


async def test_a_right_that_is_gone_takes_the_rows_away_and_a_token_the_page(
    page, reviews, monkeypatch
):
    monkeypatch.setattr(module, "YES_SECONDS", 0.2)
    await sign_in(page, ADA)
    await page.until(f"{ROWS} === 'team-a/of-team-a'")
    reviews.take("ada")
    await page.until(f"{ROWS} === ''")
    reviews.tokens.clear()
    await page.until("document.activeElement.id === 'token'")
    assert "or it has expired" in await page.do(HINT)
    assert await page.do("document.getElementById('app')") is None
