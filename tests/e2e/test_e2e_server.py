"""`orbiter serve` on the cluster, installed by the chart, used through a real browser.

A release of its own with the server alone, which looks into the namespace of the other tests: their
installation is not touched.
"""

import base64
import contextlib
import os
import shlex
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from support.chromium import Browser, Page, browser
from support.cluster import CommandError
from support.installation import MODEL_URL, ROOT, SERVERS
from support.ports import free_port
from support.session_world import SessionWorld, clear_sessions, front_end
from support.shell_page import ShellPage
from support.world import NAMESPACE, World, task

__all__ = ["browser"]

CHART = ROOT / "helm" / "orbiter"
HOME = RELEASE = "e2e-server"
NAME = f"{RELEASE}-orbiter-server"
RUN = uuid.uuid4().hex[:4]
MAIN = "document.getElementById('main').innerText"
PAGE = ROOT / "docs" / "server.md"
SETTINGS = (
    f"watchNamespaces={{{HOME},{NAMESPACE}}}",
    f"workers.namespaces={{{HOME}}}",
    # the server alone
    "operator.replicas=0",
    "redis.external.existingSecret=none",
    "rbac.aggregateToUserRoles=false",
    "networkPolicy.modelServer.enabled=true",
    f"networkPolicy.modelServer.namespace={SERVERS}",
    r"networkPolicy.modelServer.podLabels.app\.kubernetes\.io/name=model-server",
    f"server.env.ANTHROPIC_BASE_URL={MODEL_URL}",
    "server.persistence.size=64Mi",
    "server.transcripts=true",
    "crds.install=false",
)
LOCAL = ("-f", str(CHART / "ci/local-values.yaml"))
FLAGS = (*LOCAL, *(word for setting in SETTINGS for word in ("--set", setting)))
ONE_TOKEN = ("--set", "server.auth=Token")


@pytest.fixture(scope="module")
def reader(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Reader"]:
    """Somebody who has installed the server as the page says."""
    with world.cluster.namespace(HOME):
        reader = Reader(world, tmp_path_factory.mktemp("reader"), RELEASE, (*FLAGS, *ONE_TOKEN))
        try:
            reader.follow(0)
            yield reader
        finally:
            words = ("uninstall", RELEASE, "-n", HOME, "--ignore-not-found", "--wait")
            world.cluster.helm(*words, "--timeout", "100s")


@pytest.fixture
def token(world: World, reader: "Reader") -> str:
    """The token that the chart has made."""
    return secret(world)


class Reader:
    """Types what docs/server.md tells about a cluster, for a release of another name.

    The release's namespace has its name, and is also the one in which the page's people are.
    """

    def __init__(self, world: World, directory: Path, release: str, flags: tuple[str, ...]) -> None:
        (directory / "helm").symlink_to(ROOT / "helm")
        self._page = ShellPage(PAGE, directory)
        self._blocks = [block for block in self._page.blocks if "kubectl" in block]
        self._world = world
        self._release = release
        self._flags = flags

    def follow(self, number: int, port: int = 8000) -> None:
        """Type the commands of a block that is about a cluster."""
        block = self._blocks[number]
        name = f"{self._release}-orbiter-server"
        for theirs, ours in (
            ("orbiter-system", self._release),
            ("default", self._release),
            ("--audience=orbiter-server", "--audience=AUDIENCE"),
            ("orbiter-server", name),
            ("AUDIENCE", "orbiter-server"),
            ("--install orbiter ", f"--install {self._release} "),
            (f"{name} 8000", f"{name} {port}:8000"),
            ("127.0.0.1:8000", f"127.0.0.1:{port}"),
        ):
            block = block.replace(theirs, ours)
        cluster = self._world.cluster
        tools = [str(Path(cluster.command(tool)[0]).parent) for tool in ("helm", "kubectl")]
        environment = {
            "PATH": os.pathsep.join([*tools, os.environ["PATH"]]),
            "KUBECONFIG": str(cluster.kubeconfig),
            "ANTHROPIC_API_KEY": "sk-scripted-key",
        }
        helm = f'helm() {{ command helm "$@" {shlex.join(self._flags)}; }}'
        try:
            self._page.follow(block, before=helm, environment=environment)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{story(self._world, self._release)}") from None


def story(world: World, namespace: str) -> str:
    """What an engineer would look at when the server does not come."""
    selector = "app.kubernetes.io/component=server"
    told = ""
    for words in (("describe", "pods"), ("logs", "--tail=30")):
        with contextlib.suppress(CommandError):
            told += world.kubectl("-n", namespace, *words, "-l", selector)
    return told[-6000:]


@pytest.fixture
async def http(world: World, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that has the token, through a port-forward."""
    with world.forward(f"service/{NAME}", 8000, HOME) as port:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30
        ) as client:
            yield client


@pytest.fixture(scope="module")
def talks(world: World) -> Iterator[SessionWorld]:
    with front_end(world) as redis:
        yield SessionWorld(world, redis)
    clear_sessions(world)


def secret(world: World) -> str:
    data = world.cluster.get("secret", f"{NAME}-token", HOME)["data"]
    return base64.b64decode(data["token"]).decode()


async def opened(browser: Browser, http: httpx.AsyncClient, token: str, view: str) -> Page:
    """The page at one of its views, the token given as a user gives it."""
    page = await browser.page(f"{http.base_url}#/{view}")
    await page.click("#token")
    await page.type(token)
    await page.press("Enter")
    await page.until("document.getElementById('main')")
    return page


def row(text: str) -> str:
    """A row of a list by what stands in it."""
    return (
        f"[...document.querySelectorAll('.spacer .row')].find(r => r.innerText.includes({text!r}))"
    )


def test_the_page_on_the_server_says_what_is_so_of_one_token(reader: Reader) -> None:
    reader.follow(2, free_port())


async def test_without_the_token_nothing_is_shown(
    http: httpx.AsyncClient, browser: Browser
) -> None:
    async with httpx.AsyncClient(base_url=http.base_url) as stranger:
        assert (await stranger.get("/readyz")).status_code == 200
        for path in ("/v1/agents", "/v1/cluster/tasks", "/v1/cluster/sessions", "/metrics"):
            assert (await stranger.get(path)).status_code == 401
    page = await browser.page(f"{http.base_url}#/cluster")
    await page.until("!document.getElementById('login').hidden")
    await page.click("#token")
    await page.type("open-sesame")
    await page.press("Enter")
    await page.until("document.getElementById('login-problem').textContent.includes('is not')")
    assert await page.do("document.getElementById('main')") is None
    assert page.complaints == []


async def test_the_page_shows_tasks_and_sessions_of_the_cluster_as_they_change(
    world: World, talks: SessionWorld, http: httpx.AsyncClient, token: str, browser: Browser,
    tmp_path: Path,
) -> None:  # fmt: skip
    works, ends, ada = f"works-{RUN}", f"ends-{RUN}", f"ada-{RUN}"
    page = await opened(browser, http, token, "cluster")
    await page.do("globalThis.same = true")
    world.apply(task(works, "[[hang]]"), task(ends, '[[result: {"summary": "all is well"}]]'))
    talks.apply(ada, echo=True)
    await page.until(f"{row(f'{NAMESPACE}/{works}')}?.innerText.includes('running')")
    await page.until(f"{row(ends)}?.innerText.includes('completed')")
    assert "all is well" in await page.do(f"{row(ends)}.innerText")
    await page.until(f"{row(ada)}?.innerText.includes('asleep')")
    talks.ask(ada, "good morning")
    await page.until(f"{row(ada)}.innerText.includes(', 1 turn')")
    world.cluster.patch("agenttask", works, {"spec": {"desiredState": "Cancelled"}}, NAMESPACE)
    await page.until(f"{row(works)}.innerText.includes('cancelled')")
    await page.screenshot(tmp_path / "cluster.png")
    world.cluster.delete("agenttask", ends, NAMESPACE)
    await page.until(f"!{row(ends)}")
    assert await page.do("globalThis.same"), "it was never loaded again"
    assert page.complaints == []


async def test_what_an_agent_says_and_does_is_shown_live_and_when_its_pod_is_gone(
    world: World, http: httpx.AsyncClient, token: str, browser: Browser, tmp_path: Path
) -> None:
    name = f"tells-{RUN}"
    said = "[[say: I look first]]\n[[bash: echo from the tool]]\n"
    world.apply(task(name, said + '[[result: {"summary": "all is well"}]]'))
    log = "document.querySelector('.transcript')?.innerText ?? ''"
    page = await opened(browser, http, token, f"cluster//tasks/{NAMESPACE}/{name}")
    await page.until(f"({log}).includes('I look first')")
    await page.until("document.querySelector('.call .state')?.innerText === 'done'")
    await page.until(f"({log}).includes('Done')")
    await page.until("document.querySelector('.facts').innerText.includes('all is well')")
    assert "from the tool" in await page.do("document.querySelector('.call').textContent")
    await page.screenshot(tmp_path / "work.png")
    assert page.complaints == []
    world.kubectl("-n", NAMESPACE, "delete", "pods", "-l", f"orbiter.dev/agenttask={name}")
    path = f"/v1/cluster/tasks/{NAMESPACE}/{name}/transcript"
    answer = await http.get(path, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    assert "I look first" in answer.text
    assert '"type":"verdict"' in answer.text


async def test_an_agent_in_the_cluster_can_be_talked_to(
    http: httpx.AsyncClient, token: str, browser: Browser
) -> None:
    page = await opened(browser, http, token, "chat")
    await page.click(".composer textarea")
    await page.type(f"Run {RUN}. [[say: hello from the cluster]]")
    await page.press("Enter")
    await page.until("document.querySelector('.foot')?.textContent.includes('Trace ·')")
    answer = await page.do("document.querySelector('.said.agent .prose').innerText")
    assert answer == "hello from the cluster"
    assert page.complaints == []


async def test_who_has_the_token_reads_its_metrics(http: httpx.AsyncClient) -> None:
    assert "orbiter_server_requests_total" in (await http.get("/metrics")).text


@pytest.mark.parametrize(
    ("verb", "kind", "namespace", "allowed"),
    [
        ("watch", "agenttasks.orbiter.dev", NAMESPACE, True),
        ("list", "posessions.orbiter.dev", NAMESPACE, True),
        ("list", "agenttasks.orbiter.dev", "default", False),
        ("create", "agenttasks.orbiter.dev", NAMESPACE, False),
        ("get", "secrets", HOME, False),
        ("list", "pods", NAMESPACE, False),
    ],
)
def test_the_server_may_look_and_nothing_else(
    world: World, token: str, verb: str, kind: str, namespace: str, allowed: bool
) -> None:
    account = f"system:serviceaccount:{HOME}:{NAME}"
    try:
        said = world.kubectl("-n", namespace, "auth", "can-i", verb, kind, "--as", account)
    except CommandError:
        said = "no"
    assert said.strip() == ("yes" if allowed else "no")


async def test_an_upgrade_keeps_the_token_and_the_conversations(world: World, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    with world.forward(f"service/{NAME}", 8000, HOME) as port:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers) as http:
            made = (await http.post("/v1/sessions", json={"agent": "helper"})).json()
    second = ("--set", "server.agents.second.model=anthropic:claude-sonnet-4-5")
    words = ("upgrade", RELEASE, str(CHART), "-n", HOME, "--reuse-values", "--wait")
    world.cluster.helm(*words, "--timeout", "100s", *second)
    assert secret(world) == token
    with world.forward(f"service/{NAME}", 8000, HOME) as port:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers) as http:
            agents = (await http.get("/v1/agents")).json()["agents"]
            assert [agent["name"] for agent in agents] == ["helper", "second"]
            assert (await http.get(f"/v1/sessions/{made['id']}")).status_code == 200
