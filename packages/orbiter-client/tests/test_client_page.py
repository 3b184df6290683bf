"""The page on clients, run against an API server whose operator is played here."""

import asyncio
from pathlib import Path

import pytest
from support.fake_api import FakeApi
from support.markdown_blocks import blocks_of, run_blocks

PAGE = Path(__file__).parents[3] / "docs" / "client.md"
pytestmark = pytest.mark.integration


def operate(api: FakeApi) -> None:
    """Let each task ask a question, and end with the answer."""
    loop = asyncio.get_running_loop()

    def seen(change, plural, obj):
        phase, name = obj.get("status", {}).get("phase"), obj["metadata"]["name"]
        if plural != "agenttasks":
            return
        if phase is None:
            asked = {"id": "q1", "question": "main or trunk?"}
            say(name, {"phase": "InputRequired", "inputRequest": asked})
        elif phase == "InputRequired" and (given := obj["spec"].get("input")):
            summary = f"pushed to {given[0]['text']}"
            say(name, {"phase": "Completed", "result": {"summary": summary}})

    def say(name, status):
        loop.call_soon(api.patch, "agenttasks", "team-a", name, {"status": status})

    api.listeners.append(seen)


async def test_the_page_on_clients_tells_what_is_so(api, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    operate(api)
    assert await run_blocks(PAGE) == len(blocks_of(PAGE)) > 1
