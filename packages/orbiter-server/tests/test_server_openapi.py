"""The OpenAPI document, held against the server by a tool that makes up requests from it."""

import asyncio
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from orbiter.models import ScriptedModel, call
from orbiter.server import app

TOKEN = "secret"
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


async def test_the_document_knows_every_address(start):
    server = await start()
    document = (await server.http.get("/openapi.json")).json()
    served = {
        route.path
        for route in server.app.routes
        if route.path.startswith(("/v1/", "/healthz", "/readyz", "/metrics"))
    }
    assert served - {"/v1/socket"} == set(document["paths"])


async def test_bare_sources_are_served_without_a_version(start, monkeypatch):
    def version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(app, "version", version)
    server = await start()
    document = (await server.http.get("/openapi.json")).json()
    assert document["info"]["version"] == "unknown"


@pytest.mark.integration
async def test_made_up_requests_meet_no_server_error_and_no_untruth(start, tmp_path):
    model = ScriptedModel(call("get_weather", city="Oslo"), "Sunny.", repeat=True)
    server = await start(model=model, token=TOKEN, heartbeat_seconds=0.5)
    process = await asyncio.create_subprocess_exec(
        str(SCHEMATHESIS), "run", f"{server.url}/openapi.json",
        "-H", f"Authorization: Bearer {TOKEN}", "--seed", "1", "--max-examples", "6",
        "--request-timeout", "20",
        cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    report = "\n".join(line[:200] for line in said.decode().splitlines())
    assert process.returncode == 0, report[-6000:]
    assert "No issues found" in report or "Failures" not in report
