"""Sessions of a cluster that ask their users something, and a server that shows it to some."""

import base64

import pytest
from redis.asyncio import Redis
from support.fake_reviews import API_AUDIENCE
from support.redis_server import RedisServer, redis_server

from orbiter_contracts import POWorkerInput, POWorkerOutput, decode, encode
from orbiter_contracts.queues import Keys
from orbiter_contracts.transcript import InputRequestEvent, VerdictEvent
from orbiter_contracts.transcript_reading import entry_data

from .test_server_cluster_actions import ADA, BOB, EVE
from .test_server_transcripts import AT, put_secret

__all__ = ["redis_server"]
QUESTIONS = "/v1/cluster/questions"
OURS = Keys.of_namespace("team-a")
SESSION = "/v1/cluster/sessions/team-a/alice"


def put_session(api, name="alice", *, namespace="team-a", mode="Running", **status):
    keys = Keys.of_namespace(namespace)
    told = {
        "phase": "Asleep", "turns": 1, "lastActivityTime": "2026-01-01T00:00:00Z",
        "inputStream": keys.po_input(name), "outputStream": keys.po_output(name), **status,
    }  # fmt: skip
    spec = {"userId": 7, "agent": {"type": "claude"}, "operatingMode": mode}
    meta = {"name": name, "namespace": namespace}
    api.put("posessions", {"metadata": meta, "spec": spec, "status": told})


def put_chat(api, url, namespace="team-a"):
    data = {"chat-url": base64.b64encode(url.encode()).decode()}
    meta = {"name": "orbiter-chat", "namespace": namespace}
    api.put("secrets", {"metadata": meta, "data": data})


class Worker:
    """A session's worker, as far as its streams tell of it."""

    def __init__(self, redis):
        self.redis = redis
        self.sequence = 0

    async def asks(self, text="Which?", request="r-1", *, name="alice", keys=OURS, at=AT):
        asked = [self.event(InputRequestEvent, request, at, question=text)]
        await self.notes([*asked, self.event(VerdictEvent, request, at, status="input_required")],
                         name, keys)  # fmt: skip
        await self.says("input_required", request, text, name=name, keys=keys)

    async def notes(self, events, name="alice", keys=OURS):
        await self.redis.xadd(keys.po_transcript(name), {"data": entry_data(events)})

    async def says(self, status, request="r-1", text="", *, name="alice", keys=OURS, **more):
        output = POWorkerOutput(request_id=request, user_id=7, text=text, status=status, **more)
        await self.redis.xadd(keys.po_output(name), encode(output))

    async def heard(self, name="alice"):
        return [decode(POWorkerInput, f) for _, f in await self.redis.xrange(OURS.po_input(name))]

    def event(self, kind, request, at=AT, **fields):
        self.sequence += 1
        return kind(sequence=self.sequence, at=at, attempt=0, request_id=request, **fields)


@pytest.fixture
async def worker(redis_server: RedisServer):
    redis = Redis.from_url(redis_server.url)
    await redis.flushall()
    yield Worker(redis)
    await redis.aclose()


@pytest.fixture
async def launch(start, api, reviews, redis_server, tmp_path):
    """Ada may do everything, bob's token is for the page alone, and eve only looks."""
    both = ("orbiter-server", API_AUDIENCE)
    reviews.token(ADA, "ada", audience=both)
    reviews.token(BOB, "bob")
    reviews.token(EVE, "eve", audience=both)
    for user in ("ada", "bob", "eve"):
        for verb in ("get", "list"):
            reviews.give(user, verb, "agenttasks", "team-a")
            reviews.give(user, verb, "posessions", "team-a")
        reviews.give(user, "get", "posessions/transcript", "team-a")
    reviews.give("ada", "patch", "agenttasks", "team-a")
    reviews.give("ada", "get", "secrets", "team-a", "orbiter-chat")
    put_secret(api, redis_server.url)
    put_chat(api, redis_server.url)

    async def begin(**config):
        server = await start(
            auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path), namespace="*",
            **{"transcripts": True, **config},
        )  # fmt: skip
        return [server.signed_in(token) for token in (ADA, BOB, EVE)]

    return begin


async def waiting(server, query=""):
    answer = await server.http.get(f"{QUESTIONS}{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def names(server, query=""):
    return [each["name"] for each in (await waiting(server, query))["items"]]


async def answer(server, text="blue", request="r-1", path=SESSION):
    return await server.http.post(f"{path}/answer", json={"id": request, "text": text})


async def comes_to(asked, wanted):
    return await asked() == wanted
