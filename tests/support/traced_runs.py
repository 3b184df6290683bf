"""Runs whose spans tests look for in a Collector: of an agent here, and of programs."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.collector import CollectedSpan, Collector
from support.eventually import eventually
from support.mcp_servers import our_environment
from support.model_wire import Answer, WireServer

from orbiter import Agent, tool
from orbiter.models import ScriptedModel, call

SPANS = 14
"""How many the run of `shop` with `script` has."""
_SECONDS = 120


@tool
async def look_up(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@tool
async def fails() -> str:
    """Fail."""
    raise ValueError("the colour is unknown")


def shop() -> Agent:
    """An agent with a tool, one that fails, and somebody to hand off to."""
    clerk = Agent(name="clerk", instructions="Be kind.", model="openai:gpt-4o")
    tools = [look_up, fails]
    model = "openai:gpt-4o"
    return Agent(name="desk", model=model, temperature=1.0, tools=tools, handoffs=[clerk])


def script() -> ScriptedModel:
    """What the models of `shop` answer."""
    return ScriptedModel(
        call("look_up", key="colour"), call("fails"), call("transfer_to_clerk"), "It is blue."
    )


async def program_run(*command: str, **settings: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program with Orbiter in it."""
    return await asyncio.to_thread(
        subprocess.run,
        command,
        env={**os.environ, **our_environment(), **settings.pop("env", {})},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        **settings,
    )


async def ask_by_the_command_line(
    directory: Path, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run `orbiter run --trace otlp` with a model on this machine."""
    (directory / "calc.yaml").write_text("name: calc\nmodel: openai:gpt-4o\n")
    async with WireServer().running() as model:
        model.answers[:] = [Answer(text="4")]
        models = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "sk-test"}
        orbiter = str(Path(sys.executable).with_name("orbiter"))
        return await program_run(
            *(orbiter, "run", "calc.yaml", "What is 2+2?", "--trace", "otlp"),
            cwd=directory,
            env={**models, "ORBITER_FORBID_MODEL_CALLS": "", **environment},
        )


async def arrived(collector: Collector, number: int) -> list[CollectedSpan]:
    """Wait until so many spans are there and return all of them."""
    return await eventually(lambda: len(collector.spans) >= number and collector.spans)
