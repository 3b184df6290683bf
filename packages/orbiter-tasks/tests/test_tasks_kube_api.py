"""What the API server refuses comes as an error that says so, from a watch too."""

import json
import subprocess
import sys

import pytest
from aiohttp import web
from support.fake_api import api as api

from orbiter.tasks import TaskError
from orbiter.tasks._internal.kube_api import AgentTaskApi
from orbiter.tasks.state import GoneError

FORBIDDEN = 'agenttasks.orbiter.dev is forbidden: User "ann" cannot watch resource "agenttasks"'


@pytest.fixture
async def refusing(tmp_path):
    """An API server that refuses everything with the status it is given, as a client of it."""
    runners, apis = [], []

    async def start(code: int, message: str) -> AgentTaskApi:
        async def refuse(request: web.Request) -> web.Response:
            body = {"kind": "Status", "status": "Failure", "code": code, "message": message}
            return web.json_response(body, status=code)

        application = web.Application()
        application.router.add_route("*", "/{tail:.*}", refuse)
        runner = web.AppRunner(application)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        config = {
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "ann"}}],
            "clusters": [
                {
                    "name": "fake",
                    "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"},
                }
            ],
            "users": [{"name": "ann", "user": {"token": "fake"}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        apis.append(AgentTaskApi("team", kubeconfig=str(path), context=None))
        return apis[-1]

    yield start
    for one in apis:
        await one.close()
    for runner in runners:
        await runner.cleanup()


async def test_a_watch_that_is_not_allowed_says_so(refusing):
    api = await refusing(403, FORBIDDEN)
    with pytest.raises(TaskError, match=r"refused it \(403\): agenttasks.orbiter.dev is forbidden"):
        await anext(api.watch("1"))


async def test_a_watch_from_too_long_ago_says_so(refusing):
    api = await refusing(410, "too old resource version: 1 (7)")
    with pytest.raises(GoneError, match="too old"):
        await anext(api.watch("1"))


async def test_what_is_written_says_by_whom_and_has_no_field_that_the_server_does_not_know(
    api, tmp_path
):
    tasks = AgentTaskApi("team", kubeconfig=str(api.kubeconfig(tmp_path)), context=None)
    made = {"apiVersion": "orbiter.dev/v1alpha1", "kind": "AgentTask", "spec": {"prompt": "hi"}}
    await tasks.create({**made, "metadata": {"name": "one"}})
    await tasks.patch("one", {"spec": {"priority": 1}})
    await tasks.patch("one", {"status": {"phase": "Running"}}, status=True)
    await tasks.list()
    await tasks.close()
    assert [(verb, query.get("fieldManager"), query.get("fieldValidation")) for verb, query, _ in
            api.asked] == [
        ("create", "orbiter-tasks", "Strict"),
        ("patch", "orbiter-tasks", None),
        ("patch", "orbiter-tasks", None),
        ("list", None, None),
    ]  # fmt: skip
    assert api.asked[-1][1]["limit"] == "500"
    assert {agent for _, _, agent in api.asked} == {"orbiter-tasks"}


SECRET_READ = """
import asyncio, sys, threading
from orbiter.tasks.api_server import ApiServer, client

LARGE = "kubernetes.aio.client.api.core_v1_api"
threads = []

class Seen:
    def find_spec(self, name, path=None, target=None):
        if name == LARGE:
            threads.append(threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Seen())

async def settings():
    return client.Configuration(host="http://127.0.0.1:1")

async def read():
    api = ApiServer(settings)
    try:
        await api.secret("team-a", "one", timeout=1)
    except Exception as error:
        print(type(error).__name__)
    await api.close()

asyncio.run(read())
print(threads)
"""


def test_the_large_client_of_secrets_is_not_loaded_on_the_event_loop():
    # a second and more, in which no request of the server's would be answered
    done = subprocess.run([sys.executable, "-c", SECRET_READ], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["TaskError", "[False]"], done.stderr
