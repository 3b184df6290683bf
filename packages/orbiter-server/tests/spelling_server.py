"""A server in a process of its own, there to be killed: `python spelling_server.py DIR PORT`.

Its agent calls a tool, which marks each of its runs in a file, and then spells: one word each time
a file `go-N` appears, so that a test decides how far it gets before it is killed. The images it was
shown are in the file `shown`, a line for each time.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from orbiter import Agent, tool
from orbiter.models import ModelProvider, StreamChunk, ToolCallDelta
from orbiter.parts import ImagePart
from orbiter.server import ServerConfig, serve
from orbiter.types import Usage

USAGE = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
WORDS = [f"w{number} " for number in range(40)]
MARK = ImagePart(data=b"\x89PNG mark", media_type="image/png")


class Speller(ModelProvider):
    """Calls the tool first, spells then."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    async def complete(self, messages: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, **options: Any) -> AsyncIterator[StreamChunk]:
        parts = (part for message in messages for part in getattr(message, "parts", ()))
        with (self.directory / "shown").open("a") as file:
            for part in parts:
                if part.type == "image":
                    file.write(f"{part.media_type} {part.data.hex()} ")
            file.write("\n")
        if all(message.role != "tool" for message in messages):
            yield StreamChunk(delta="Let me see. ")
            yield StreamChunk(tool_call_deltas=[ToolCallDelta(id="c1", name="mark")])
            yield StreamChunk(usage=USAGE)
            return
        for number, word in enumerate(WORDS):
            while not (self.directory / f"go-{number}").exists():
                await asyncio.sleep(0.005)
            yield StreamChunk(delta=word)
        yield StreamChunk(usage=USAGE)


def main(directory: Path, port: int) -> None:
    @tool
    def mark() -> list[str | ImagePart]:
        """Mark a run of the tool."""
        with (directory / "marks").open("a") as file:
            file.write("ran\n")
        return ["marked", MARK]

    serve(
        {"speller": Agent(name="speller", tools=[mark])},
        port=port,
        config=ServerConfig(directory=directory / "server", drain_seconds=5, max_resumes=100),
        provider=Speller(directory),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
