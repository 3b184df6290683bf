"""The seam between the wrapper and the CLI agents: what an adapter is given and what it gives back.

An adapter (claude.py, factory.py, codex.py) does two things, both pure: `build` a command line from
a turn, and `parse` what the process left behind. Everything that acts is in process/ and turn/.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from orbiter_contracts import Usage
from orbiter_contracts.mcp_servers import McpServer
from worker_wrapper.agents.mcp import Server
from worker_wrapper.process.command import Command, Outcome

SessionConflict = Literal["in_use", "unknown"]


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What a user may say about the agent; None leaves it to the CLI."""

    model: str | None = None
    max_turns: int | None = None
    max_cost_usd: float | None = None
    system_prompt: str | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    instructions: str | None = None
    instructions_file: Path | None = None
    skills_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation over several turns.

    Attributes:
        id: The logical id, whatever its form.
        resumed: False for the first turn, which creates the conversation in the CLI.
        totals: What the conversation has cost so far, for CLIs that report cumulative figures.
        agent_session_id: The id the CLI itself gave to the conversation.
        context_tokens: How large the conversation was when the model was last asked.
    """

    id: str
    resumed: bool = False
    totals: Usage | None = None
    agent_session_id: str | None = None
    context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One message for the agent. Without a session the CLI starts from nothing.

    `environ` is filled in by take_turn: what of the environment the agent may see. So is `mcp`: the
    servers it is to have, with what they are given, which is no argument. `stream` asks
    for output from which `Agent.piece` can read text as it comes. `prompt_anew` is said instead
    where the CLI does not know the session, and begins one that knows of nothing, `prompt_known`
    where it knows one that was to begin. `again`: a worker that ended may have given an agent this
    message already.
    """

    prompt: str
    timeout_seconds: float
    session: Session | None
    workdir: Path
    options: AgentOptions
    environ: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False
    prompt_anew: str | None = None
    prompt_known: str | None = None
    again: bool = False
    mcp: tuple[Server, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """Text the agent just said. `opens`: it begins something new, after a tool call say."""

    text: str
    opens: bool = False


HeardKind = Literal["text", "thinking", "tool_call", "tool_result", "error"]


@dataclass(frozen=True, slots=True)
class Heard:
    """What an agent just said or did, in the words of a transcript.

    Attributes:
        kind: What it is.
        text: What it said or thinks, what a tool answered, or what failed.
        opens: Of a text or a thought: it goes on with nothing that was said before.
        tool: The tool's name; "" where a result does not repeat it.
        call: What a call and its result have in common.
        arguments: Of a call, a value of JSON. Of a result: for a CLI that says nothing of calls
            before.
        failed: Of a result.
        seconds: How long the call took, where the CLI says so.
        agent: Who, when it was an agent of the agent's.
    """

    kind: HeardKind
    text: str = ""
    opens: bool = False
    tool: str = ""
    call: str = ""
    arguments: Any = None
    failed: bool = False
    seconds: float | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Spent:
    """What one answer of the model costs, as far as the stream has told.

    Attributes:
        usage: All of it so far: of one answer it only grows.
        opens: Another answer begins; else it is more of the thread's last one.
        thread: Who asks the model: the agent itself, or an agent of its own.
    """

    usage: Usage
    opens: bool = False
    thread: str = ""


@dataclass(slots=True)
class AgentResult:
    """What the agent said, read from what its process left behind.

    Attributes:
        text: The agent's final text.
        agent_session_id: The id the CLI gave to the conversation.
        usage: What this turn cost, as far as the CLI says so by itself.
        totals: What the conversation has cost so far, from CLIs that only add up.
        is_error: The CLI says, or its output shows, that the turn failed.
        error: Why, in the CLI's words; None when it had none.
        turns: How often the model was asked, as the CLI counts; 0 means that it never was.
        requests: How often it really was, where the CLI counts otherwise.
        context_tokens: How large the conversation was when the model was last asked, with its
            answer; None when the CLI does not say.
        permission_denials: Tools the agent wanted and was not allowed.
        session_conflict: The CLI refused the session: its id is `in_use` already, or `unknown`.
    """

    text: str = ""
    agent_session_id: str | None = None
    usage: Usage | None = None
    totals: Usage | None = None
    is_error: bool = False
    error: str | None = None
    turns: int = 0
    requests: int | None = None
    context_tokens: int | None = None
    permission_denials: list[str] = field(default_factory=list)
    session_conflict: SessionConflict | None = None


class Agent(Protocol):
    """An adapter for one CLI agent.

    Attributes:
        name: The value of AGENT_TYPE.
        program: What is started, as PATH finds it.
        credentials: Environment variables of which one must be set; the first is named in errors.
        passes: Further environment variables the agent may see.
        session_paths: What keeps its conversations, relative to HOME; no credentials are there.
        home_variable: The variable that names another place for their first directory, if any.
        instructions_path: Where it reads its user's instructions, relative to HOME; None: nowhere.
        skills_path: The directory where it looks for skills of its user's, likewise.
        ignores: The options of AgentOptions for which its CLI has no flag.
        resumes_mid_turn: Its CLI goes on from a copy of the conversation that was taken while it
            was at work, whatever it was doing: a test with the real one shows it.
    """

    name: str
    program: str
    credentials: tuple[str, ...]
    passes: tuple[str, ...]
    session_paths: tuple[str, ...]
    home_variable: str | None
    instructions_path: str | None
    skills_path: str | None
    ignores: tuple[str, ...]
    resumes_mid_turn: bool

    def build(self, turn: Turn) -> Command:
        """Say which process runs this turn."""

    def parse(self, outcome: Outcome) -> AgentResult:
        """Read what the process left behind. Never raises for what an agent printed."""

    def piece(self, event: Mapping[str, Any]) -> Piece | None:
        """Read what the agent says in one line of its output, an object; None when it is silent."""

    def heard(self, event: Mapping[str, Any]) -> tuple[Heard, ...]:
        """Read in one line of its output what goes into a transcript; never raises for any."""

    def spent(self, event: Mapping[str, Any]) -> Spent | None:
        """Read in one line of its output what an answer of the model costs."""

    def began(self, event: Mapping[str, Any]) -> str | None:
        """Read in one line of its output the id that the CLI gives to the conversation."""

    def recorded(self, conversation: bytes) -> Usage | None:
        """What the conversation has cost, as the end of its own file says; None when it does not.

        What the CLI tells of a resumed conversation, as `AgentResult.totals`, begins there.
        """

    def conversation_id(self, session: Session) -> str | None:
        """The id in the names of a conversation's files; None as long as that cannot be known."""
