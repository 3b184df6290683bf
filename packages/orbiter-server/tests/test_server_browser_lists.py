"""Lists in a real Chromium: they keep up with what happens, and leave the reader in peace."""

import pytest

from orbiter.models import ScriptedModel

pytestmark = pytest.mark.integration
MAIN = "document.getElementById('main').innerText"


def put(api, name, *, phase="Running", minute=0, message="", namespace="default"):
    api.put(
        "agenttasks",
        {
            "metadata": {
                "name": name, "namespace": namespace,
                "creationTimestamp": f"2026-01-01T00:{minute:02}:00Z",
            },
            "spec": {"prompt": "Fix it", "agent": {"type": "claude"}},
            "status": {"phase": phase, "message": message},
        },
    )  # fmt: skip


async def test_the_clusters_tasks_and_sessions_are_listed(start, browser, api, tmp_path):
    for number in range(3):
        put(api, f"task-{number}", phase="InputRequired", message="asks something")
    api.put(
        "posessions",
        {
            "metadata": {"name": "ada", "namespace": "default"},
            "spec": {"userId": 7},
            "status": {"phase": "Asleep", "turns": 1},
        },
    )
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    page = await browser.page(f"{server.url}/#/cluster")
    await page.until("document.body.innerText.includes('ada')")
    await page.until("document.body.innerText.includes('task-2')")
    shown = await page.do(MAIN)
    assert "default/task-2" in shown
    assert "input required" in shown
    assert "asks something" in shown
    assert "asleep" in shown
    assert "user 7, 1 turn" in shown
    # nothing was opened, nothing is marked; columns stand below their heads
    assert await page.do("document.querySelectorAll('.row.active').length") == 0
    left = "[...document.querySelectorAll('[role=row]')].map(r => r.lastChild.offsetLeft)"
    assert len(set(await page.do(left))) == 1
    assert page.complaints == []


async def test_the_lists_show_those_that_are_asked_for(start, browser, api, tmp_path):
    put(api, "one", message="mends the login")
    put(api, "two", phase="Failed", minute=1)
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    page = await browser.page(f"{server.url}/#/cluster")
    await page.until(f"{MAIN}.includes('default/one') && {MAIN}.includes('default/two')")
    choose = "document.querySelector('[aria-label=\"phase of AgentTasks\"]')"
    await page.do(f"{choose}.value = 'Failed'; {choose}.dispatchEvent(new Event('change'))")
    await page.until(f"!{MAIN}.includes('default/one')")
    assert "default/two" in await page.do(MAIN)
    await page.do(f"{choose}.value = ''; {choose}.dispatchEvent(new Event('change'))")
    await page.click("[aria-label='Text in AgentTasks']")
    await page.type("LOGIN")
    await page.until(f"{MAIN}.includes('default/one') && !{MAIN}.includes('default/two')")
    put(api, "three", message="another login", minute=2)
    await page.until(f"{MAIN}.includes('default/three')")
    assert "default/two" not in await page.do(MAIN), "what is renewed is of those, too"
    assert page.complaints == []


async def test_a_namespace_is_chosen_for_both_lists_and_is_in_the_address(
    start, browser, api, tmp_path
):
    put(api, "one")
    put(api, "two", namespace="team-b", minute=1)
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*")
    page = await browser.page(f"{server.url}/#/cluster")
    await page.until(f"{MAIN}.includes('default/one') && {MAIN}.includes('team-b/two')")
    offered = "[...document.querySelectorAll('#namespaces option')].map(o => o.value).join()"
    await page.until(f"{offered} === 'default,team-b'")
    await page.click("#namespace")
    await page.type("team-b")
    await page.press("Enter")
    await page.until(f"!{MAIN}.includes('default/one') && {MAIN}.includes('team-b/two')")
    assert await page.do("location.hash") == "#/cluster/team-b"
    assert await page.do(offered) == "default,team-b", "the way back is offered, too"
    put(api, "three", minute=2)
    put(api, "four", namespace="team-b", minute=3)
    await page.until(f"{MAIN}.includes('team-b/four')")
    assert "default/three" not in await page.do(MAIN)
    await page.do("location.hash = '#/cluster/default'")
    await page.until(f"{MAIN}.includes('default/three') && !{MAIN}.includes('team-b/')")
    await page.do("document.activeElement.blur()")
    await page.do("location.hash = '#/cluster'")
    await page.until(f"{MAIN}.includes('team-b/four') && {MAIN}.includes('default/three')")
    await page.until("document.querySelector('#namespace').value === ''")
    assert await page.violations() == []
    assert page.complaints == []


async def test_the_cluster_is_shown_as_it_is_now_without_a_reload(start, browser, api, tmp_path):
    put(api, "one")
    put(api, "two", minute=1)
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    page = await browser.page(f"{server.url}/#/cluster")
    await page.until(f"{MAIN}.includes('one')")
    await page.do("globalThis.same = true")
    row = "document.querySelectorAll('.spacer .row')[1]"
    await page.do(f"{row}.focus()")
    put(api, "one", phase="Completed", message="all is well")
    await page.until(f"{row}.innerText.includes('all is well')")
    focused = "document.activeElement.innerText"
    assert "default/one" in await page.do(focused), "a row that changes keeps the focus"
    put(api, "three", minute=2)
    await page.until(f"{MAIN}.includes('three')")
    order = "[...document.querySelectorAll('.spacer .row')].map(r => r.children[1].innerText)"
    assert await page.do(f"{order}.slice(0, 3).sort().join()") == (
        "default/one,default/three,default/two"
    )
    assert "default/one" in await page.do(focused), "nor do others take it"
    api.remove("agenttasks", "default", "two")
    await page.until(f"!{MAIN}.includes('two')")
    assert await page.do("globalThis.same"), "it is the same page still"
    assert page.complaints == []


async def test_a_cluster_that_is_away_is_told_and_comes_back(start, browser, api, tmp_path):
    put(api, "one")
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    page = await browser.page(f"{server.url}/#/cluster")
    await page.until(f"{MAIN}.includes('one')")
    await api.stop()
    await page.until("document.querySelector('h2 .problem').textContent.includes('did not list')")
    assert "one" in await page.do(MAIN), "what was known stays in sight"
    await api.start()
    await page.until("document.querySelector('h2 .problem').textContent === ''")
    assert page.complaints == []


async def test_the_task_that_is_open_stays_marked_when_others_come(start, browser):
    server = await start(model=ScriptedModel("Done.", repeat=True))

    async def hand_in(text):
        return await server.http.post("/v1/tasks", json={"input": text, "agent": "helper"})

    first = (await hand_in("The first")).json()["id"]
    page = await browser.page(f"{server.url}/#/tasks")
    await page.until("document.querySelectorAll('.spacer .row').length === 1")
    await page.click(".spacer .row")
    await page.until(f"location.hash.endsWith('{first}')")
    await hand_in("The second")
    await page.until("document.querySelectorAll('.spacer .row').length === 2")
    marked = "[...document.querySelectorAll('.row.active')].map(r => r.children[1].innerText)"
    assert await page.do(marked) == ["The first"]
    assert page.complaints == []


async def test_what_one_reads_stays_where_it_is_when_others_come_on_top(
    start, browser, api, tmp_path
):
    for number in range(50):
        put(api, f"task-{number}", minute=number)
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    page = await browser.page(f"{server.url}/#/cluster")
    await page.until(f"{MAIN}.includes('task-49')")
    await page.do("document.querySelector('.rows').scrollTop = 44 * 20 + 11")
    await page.until(f"{MAIN}.includes('task-29')")
    put(api, "new", minute=59)
    rows = "document.querySelector('.rows')"
    await page.until(f"{rows}.scrollHeight === 44 * 51")
    assert await page.do(f"{rows}.scrollTop") == 44 * 21 + 11
    assert page.complaints == []


@pytest.mark.parametrize("width", [360, 700])
async def test_narrow_lists_have_the_columns_that_fit(start, browser, api, tmp_path, width):
    for number in range(30):
        put(api, f"a-task-with-a-rather-long-name-{number}", message="a message " * 20)
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    page = await browser.page(f"{server.url}/#/cluster", width=width)
    await page.until(f"{MAIN}.includes('a-task')")
    assert await page.do("document.documentElement.scrollWidth") <= width
    for name in (".head", ".row"):
        overlaps = await page.do(
            f"""(() => {{
              const cells = [...document.querySelector('.long-list {name}').children]
                .map(cell => cell.getBoundingClientRect()).filter(box => box.width);
              return cells.some((box, at) => at && box.left < cells[at - 1].right);
            }})()"""
        )
        assert overlaps is False
        count = "[...document.querySelector('.long-list .row').children].filter(c => c.offsetWidth)"
        assert await page.do(f"{count}.length") == (2 if width < 600 else 3)
