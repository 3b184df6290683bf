"""What outlives a process, found out by ending some: `python kept_probes.py NAME PART`.

Each probe runs parts of a framework's `kept_NAME` module in processes of their own, which share a
directory and nothing else. A tool marks there that it was called.
"""

import asyncio
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Protocol

from probes import Answer, Call

MARKS = Path("marks")
SERVER = """
from typing import Annotated

from mcp.server.mcpserver import Elicit, MCPServer, Resolve
from pydantic import BaseModel

server = MCPServer("inn")


class Day(BaseModel):
    day: str


def which(table: int) -> Elicit[Day]:
    return Elicit(f"Which day for table {table}?", Day)


@server.tool()
def reserve(table: int, day: Annotated[Day, Resolve(which)]) -> str:
    return f"table {table} on {day.day}"


server.run("stdio")
"""


def book(trip: str) -> str:
    """Book a trip."""
    _mark("book")
    return f"{trip} is booked"


def pay(trip: str) -> str:
    """Pay a trip; the first time the process is killed meanwhile."""
    _mark("pay")
    if _marks().count("pay") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{trip} is paid"


BOOK = Call("book", {"trip": "Oslo"})
PAY = Call("pay", {"trip": "Oslo"})
RESERVE = Call("reserve", {"table": 4})


def server_command() -> list[str]:
    """The words that start an MCP server whose tool `reserve` asks for the day."""
    program = Path("server.py").absolute()
    program.write_text(SERVER, encoding="utf-8")
    return [os.environ["PROBE_SERVER_PYTHON"], str(program)]


class Kept(Protocol):
    """What a module `kept_NAME` has; each is called in a process of its own, with its directory."""

    async def ask(self) -> None:
        """Run an agent that calls `book`, which waits for a person, and keep the run."""

    async def approve(self) -> Answer | None:
        """Approve what `ask` kept, and end the run with a model that says `Booked.`"""

    async def work(self, *replies: Any) -> Answer | None:
        """Run an agent with `book` and `pay`; in a second process go on. None: there is no way."""

    async def meet_question(self) -> str | None:
        """Run an agent that calls `reserve`, keep the run, and return what the server asks.

        None: the run did not end with the question.
        """

    async def answer_question(self) -> Answer | None:
        """Answer `{"day": "Friday"}`, and end the run with a model that says `Reserved.`"""


async def part(peer: Kept, name: str) -> Any:
    """Do one part."""
    if name == "work":
        return await (peer.work("Done.") if _marks() else peer.work(BOOK, PAY))
    return await getattr(peer, name)()


def approved_days_later(peer: str) -> bool:
    """A call waits for a person, and another process calls it and goes on."""
    with tempfile.TemporaryDirectory() as home:
        _done(peer, "ask", home)
        if _marks(home):
            return False
        answer = _done(peer, "approve", home)
        return _is(answer, "Booked.", "Oslo is booked") and _marks(home) == ["book"]


def killed_within_a_tool(peer: str) -> bool:
    """The process is killed within a tool, and the next one goes on where it was."""
    with tempfile.TemporaryDirectory() as home:
        killed = _process(peer, "work", home)
        if killed.returncode != -signal.SIGKILL:
            raise ValueError(f"{peer} was not killed: {killed.returncode}")
        answer = _done(peer, "work", home)
        # that the second tool may be called twice is not asked: at least once is a way to go on
        return _is(answer, "Done.", "Oslo is booked") and _marks(home).count("book") == 1


def elicitation_pauses(peer: str) -> bool:
    """An MCP server's question ends the run, and another process goes on with the answer."""
    with tempfile.TemporaryDirectory() as home:
        if "Which day for table 4?" not in (_done(peer, "meet_question", home) or ""):
            return False
        return _is(_done(peer, "answer_question", home), "Reserved.", "table 4 on Friday")


def _mark(name: str) -> None:
    with MARKS.open("a") as file:
        file.write(f"{name}\n")


def _marks(home: str = ".") -> list[str]:
    file = Path(home) / MARKS
    return file.read_text().split() if file.exists() else []


def _is(answer: Any, output: str, told: str) -> bool:
    return answer is not None and answer["output"] == output and told in answer["told"]


def answers(peer: str) -> dict[str, bool]:
    """Put all of them, to a framework by its name."""
    return {probe.__name__: probe(peer) for probe in PROBES}


def _process(peer: str, name: str, home: str) -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, __file__, peer, name]
    return subprocess.run(words, stdout=subprocess.PIPE, cwd=home, timeout=600, check=False)


def _done(peer: str, name: str, home: str) -> Any:
    done = _process(peer, name, home)
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


PROBES = (approved_days_later, killed_within_a_tool, elicitation_pauses)

if __name__ == "__main__":
    logging.disable()
    warnings.simplefilter("ignore")
    module = importlib.import_module(f"kept_{sys.argv[1]}")
    found = asyncio.run(part(module.PEER, sys.argv[2]))
    shown = {"output": found.output, "told": found.told} if isinstance(found, Answer) else found
    print("\n" + json.dumps(shown))
