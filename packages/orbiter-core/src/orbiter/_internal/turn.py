"""One agent's part of a run: what it sees, what it may do, how far it is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orbiter._asking import Asked
from orbiter._input_requests import InputRequest
from orbiter._internal.call_settings import settings_of
from orbiter._internal.plan import Plan
from orbiter._internal.resumed import Resumed
from orbiter._internal.state import RunState
from orbiter.agent import Agent
from orbiter.config import ModelSettings
from orbiter.hooks import HookEvent, HookPoint
from orbiter.protocols import ModelReply, Provider
from orbiter.types import Message, RunContext, StopReason, ToolCall, ToolResult

if TYPE_CHECKING:
    from orbiter._internal.run_journal import ScopeJournal


class Turn:
    """The mutable state of one agent while it has the floor.

    Attributes:
        view: The conversation this agent's model sees, without the system message.
        log: What the run adds to the conversation; shared with earlier agents of a handoff.
        start: Where this turn's part of the log begins.
        suffix: What the output type adds to the instructions.
        note: What the memory recalled for this turn.
        hooks: The agent's, None when it has none.
        misfits: Final answers that did not fit the output type, or that a validator refused.
        answer_tool: By which tool the model gives its answer, if by one.
        held_to_schema: Whether the vendor itself holds its answers to the output's schema.
        retried: How often each tool has asked for another call.
        failure: What ends the run once the calls of the step have their results.
        observer: The agent's own, else the run's, if any.
        done: Whether `output` is final.
        target: The agent to hand off to.
        settings: What agent and run say of its calls, besides the agent's temperature and tokens.
        once: What a context says of the next call.
        finished: Whether context and memory are told of its end.
        cut: What ends the turn behind its last reply: it is not whole, or a call waits.
        whole: All that the agent has, where `plan` is what a filter has left of it.
        journal: Where its steps are kept, if they are.
        answer: The text that `output` was read from, if it is not that text itself.
        pausable: Whether its run can wait for a person.
        open: The requests of the calls that wait, by the call's id.
        pause: Id of the pause that they make.
        asked: What calls have asked a person while they ran, by the call's id.
        resumed: What to do of an earlier run before the first model call, if anything.
    """

    __slots__ = (
        "agent", "answer", "answer_tool", "asked", "cut", "done", "failure", "finished",
        "held_to_schema", "hooks", "input", "journal", "log", "misfits", "note", "observer", "once",
        "open", "output", "pausable", "pause", "plan", "provider", "resumed", "retried", "run",
        "settings", "start", "state", "suffix", "target", "view", "whole",
    )  # fmt: skip

    def __init__(
        self,
        agent: Agent,
        input: str,
        plan: Plan,
        state: RunState,
        log: list[Message],
        start: int,
        journal: "ScopeJournal | None" = None,
    ) -> None:
        self.agent = agent
        self.input = input
        self.plan = plan
        self.whole: Plan | None = None
        self.state = state
        self.hooks = agent.hooks or None
        self.observer = agent.hooks.observer or state.observer
        self.provider: Provider = agent.provider or state.provider_for(agent.model)
        self.log = log
        self.start = start
        self.view: list[Message] = []
        self.run: RunContext = RunContext(
            agent.name, input, self.view, agent.context, state.deps, state.run_nested
        )
        self.suffix = self.note = ""
        self.misfits = 0
        self.answer_tool: str | None = None
        self.held_to_schema = False
        self.retried: dict[str, int] | None = None
        self.failure: Exception | None = None
        self.done = False
        self.output: Any = ""
        self.target: Agent | None = None
        self.finished = False
        self.cut: StopReason | None = None
        self.journal = journal
        self.answer: str | None = None
        self.pausable = False
        self.open: dict[str, InputRequest] | None = None
        self.pause = ""
        self.asked: dict[str, Asked] = {}
        self.resumed: Resumed | None = None
        self.once: ModelSettings | None = None
        self.settings = state.settings
        if agent.settings is not None:
            self.settings = settings_of(agent.settings, state.settings)

    def add(self, message: Message) -> None:
        """Append to the conversation."""
        self.log.append(message)
        self.view.append(message)

    def event(
        self,
        point: HookPoint,
        messages: Sequence[Message] | None = None,
        response: ModelReply | None = None,
        tool_call: ToolCall | None = None,
        tool_result: ToolResult | None = None,
        output: Any = None,
        error: BaseException | None = None,
    ) -> HookEvent:
        """Build what the hooks of `point` receive."""
        shown = self.view if messages is None else messages
        name, run, step = self.agent.name, self.run, self.state.steps
        return HookEvent(
            point, name, run, step, shown, response, tool_call, tool_result, output, error
        )
