"""A server of the test's own process, behind a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from support.chromium import browser as browser
from support.fake_api import api as api
from support.fake_reviews import reviews as reviews

from orbiter import Agent, tool
from orbiter.models import ModelProvider, ModelResponse, ScriptedModel, StreamChunk
from orbiter.server import ServerConfig, create_app
from orbiter.server._internal.arrivals import bounds
from orbiter.server.main import Server


class Paced(ModelProvider):
    """Says words one by one, each when it is let."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.steps = asyncio.Semaphore(0)

    def let(self, count: int = 1) -> None:
        for _ in range(count):
            self.steps.release()

    async def complete(self, messages: Any, **options: Any) -> Any:
        return ModelResponse(
            content="".join([chunk.delta async for chunk in self.stream(messages)])
        )

    async def stream(self, messages: Any, **options: Any) -> AsyncIterator[StreamChunk]:
        for word in self.words:
            await self.steps.acquire()
            yield StreamChunk(delta=word)
        yield StreamChunk(finish_reason="stop")


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return f"Sunny in {city}"


class Running:
    """A running server and a client of it."""

    def __init__(self, url: str, app: Any, server: Server) -> None:
        self.url = url
        self.app = app
        self.server = server
        self.http = httpx.AsyncClient(base_url=url, timeout=20)
        self.guests: list[Running] = []

    def signed_in(self, token: str) -> "Running":
        """The same server, for whoever has this token."""
        other = Running(self.url, self.app, self.server)
        other.http.headers["Authorization"] = f"Bearer {token}"
        self.guests.append(other)
        return other

    async def ask(self, agent: str, text: str, **more: Any) -> dict[str, Any]:
        """Start a run and return it."""
        answer = await self.http.post(f"/v1/agents/{agent}/runs", json={"input": text, **more})
        assert answer.status_code == 202, answer.text
        return answer.json()

    async def events(self, path: str, *, last: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """Follow events; each has its SSE id checked against what it says itself."""
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        async with self.http.stream("GET", path, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            key = None
            async for line in response.aiter_lines():
                if line.startswith("id: "):
                    key = int(line[4:])
                elif line.startswith("data: "):
                    event = json.loads(line[6:])
                    assert event["seq"] == key
                    yield event

    async def outcome(self, run: dict[str, Any]) -> list[dict[str, Any]]:
        """Return all events of a run, waiting for its end."""
        return [event async for event in self.events(f"/v1/runs/{run['id']}/events")]


Start = Callable[..., Any]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start servers; they stop with the test."""
    async with AsyncExitStack() as stack:

        async def begin(agents: Any = None, model: Any = None, **config: Any) -> Running:
            return await stack.enter_async_context(running(tmp_path, agents, model, **config))

        yield begin


@asynccontextmanager
async def running(
    directory: Path, agents: Any = None, model: Any = None, **config: Any
) -> AsyncIterator[Running]:
    agents = agents or {"helper": Agent(name="helper", tools=[get_weather])}
    config = {"directory": directory / "server", "drain_seconds": 0, **config}
    app = create_app(
        agents, config=ServerConfig(**config), provider=model or ScriptedModel("Hi.", repeat=True)
    )
    options = uvicorn.Config(
        app, port=0, log_level="error", lifespan="on", **bounds(app.state.bodies.most)
    )
    options.load()
    server = Server(options, app.state.runs)
    server.lifespan = options.lifespan_class(options)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    here = Running(f"http://127.0.0.1:{port}", app, server)
    try:
        yield here
    finally:
        # what uvicorn does in its end, without the pauses it makes for others
        for one in (here, *here.guests):
            await one.http.aclose()
        for listener in server.servers:
            listener.close()
        await app.state.runs.stop()
        await asyncio.gather(*server.server_state.tasks, return_exceptions=True)
        await server.lifespan.shutdown()
        # clients that keep their connections would keep ours
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
