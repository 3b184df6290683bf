"""What a plain run does not wait for: validators of words that it never says."""

import subprocess
import sys

PROGRAM = """
from orbiter import Agent, run
from orbiter._paused import Paused
from orbiter.config import ModelSettings, TaskConfig
from orbiter.types import (
    InputRequest, InputRequestEvent, ResultEvent, RunResult, TextEvent, ToolCallEvent, Usage
)

class Reply:
    content, tool_calls, usage = "5", (), Usage()

class Model:
    async def complete(self, messages, **options):
        return Reply()

assert run.sync(Agent(name="calc"), "What is 2 + 3?", provider=Model()).output == "5"
rare = (
    InputRequest, InputRequestEvent, ModelSettings, Paused, ResultEvent, RunResult, TaskConfig,
    TextEvent, ToolCallEvent,
)
print([model.__name__ for model in rare if model.__pydantic_complete__])
"""


def test_a_plain_run_builds_no_validator_of_what_it_does_not_use() -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (told.stdout, told.stderr) == ("[]\n", "")
