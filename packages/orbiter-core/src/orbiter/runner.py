"""`run`: the three ways to run an agent or a swarm, and nothing else."""

from collections.abc import Sequence

from orbiter._input_requests import InputAnswer
from orbiter._internal.beginning import beginning, execute, kept
from orbiter._internal.beside import run_to_the_end
from orbiter._internal.content import given
from orbiter._internal.output_parser import OutputValidationError
from orbiter._internal.providers import close_providers
from orbiter._internal.resumed import going_on
from orbiter._internal.stream import RunStream
from orbiter._misuse import require
from orbiter.agent import Agent
from orbiter.config import ModelSettings, Spent, TaskConfig
from orbiter.durable import RunStore, Session
from orbiter.parts import Part
from orbiter.protocols import Provider
from orbiter.swarm import Swarm
from orbiter.types import DepsT, Message, OutputT, RunResult

__all__ = ["OutputValidationError", "RunStream", "Runner", "run"]


class Runner:
    """The type of `run`. All three ways take the same arguments.

    Args:
        agent: An Agent or a Swarm.
        input: What the user says: text, or parts with images and documents. Empty goes on with
            `messages` as they are.
        messages: The conversation so far, for example an earlier `result.messages`.
        provider: A model to use instead of the agents' own, for example a ScriptedModel.
        deps: Anything; instructions, hooks and tools find it as `RunContext.deps`.
        config: Limits of the run.
        spent: What the run had taken before it was interrupted; its steps and tokens count on.
        settings: How the models are to answer in this run; they go before the agents' own.
        journal: Keeps the run: after a crash the same call goes on behind the last complete step.
        run_id: The run's name in the journal.
        session: The conversation that the run goes on with, which keeps what it adds.
        resume: A run that waits for people, its `result.paused`, to go on with; input, messages
            and spent are in it.
        answers: What people have said to its requests.
    """

    async def __call__(
        self,
        agent: Agent[DepsT, OutputT] | Swarm,
        input: str | Sequence[Part],
        *,
        messages: Sequence[Message] = (),
        provider: Provider | None = None,
        deps: DepsT | None = None,
        config: TaskConfig | None = None,
        spent: Spent | None = None,
        settings: ModelSettings | None = None,
        journal: RunStore | None = None,
        run_id: str | None = None,
        session: Session | None = None,
        resume: str | bytes | None = None,
        answers: Sequence[InputAnswer] = (),
        _provider: Provider | None = None,
    ) -> RunResult[OutputT]:
        """Run to the end.

        Returns:
            The result; a run that met a limit says so in `stop_reason`.

        Raises:
            OrbiterError: The model could not be called or gave no valid output; the error's
                `messages`, `usage` and `steps` are what there was up to then.
        """
        text = _checked(agent, input)
        resumed = going_on(resume, answers, text, messages, spent)
        begin = beginning(
            messages, provider or _provider, deps, config, spent, settings, resumed, journal
        )
        if journal is None and run_id is None and session is None:
            return await execute(agent, text, begin(None))
        return await kept(agent, text, journal, run_id, session, messages)(begin(None))

    def sync(
        self,
        agent: Agent[DepsT, OutputT] | Swarm,
        input: str | Sequence[Part],
        *,
        messages: Sequence[Message] = (),
        provider: Provider | None = None,
        deps: DepsT | None = None,
        config: TaskConfig | None = None,
        spent: Spent | None = None,
        settings: ModelSettings | None = None,
        journal: RunStore | None = None,
        run_id: str | None = None,
        session: Session | None = None,
        resume: str | bytes | None = None,
        answers: Sequence[InputAnswer] = (),
        _provider: Provider | None = None,
    ) -> RunResult[OutputT]:
        """Run to the end from code that is not async.

        Where an event loop runs already, as in a notebook, the run has a loop and a thread of its
        own, and the one here stands still until it is over; async code has `await run(...)`.

        Raises:
            OrbiterError: As `run`.
        """

        async def main() -> RunResult[OutputT]:
            try:
                return await self(
                    agent,
                    input,
                    messages=messages,
                    provider=provider or _provider,
                    deps=deps,
                    config=config,
                    spent=spent,
                    settings=settings,
                    journal=journal,
                    run_id=run_id,
                    session=session,
                    resume=resume,
                    answers=answers,
                )
            finally:
                await close_providers()

        return run_to_the_end(main)

    def stream(
        self,
        agent: Agent[DepsT, OutputT] | Swarm,
        input: str | Sequence[Part],
        *,
        messages: Sequence[Message] = (),
        provider: Provider | None = None,
        deps: DepsT | None = None,
        config: TaskConfig | None = None,
        spent: Spent | None = None,
        settings: ModelSettings | None = None,
        journal: RunStore | None = None,
        run_id: str | None = None,
        session: Session | None = None,
        resume: str | bytes | None = None,
        answers: Sequence[InputAnswer] = (),
        _provider: Provider | None = None,
    ) -> RunStream[OutputT]:
        """Run while somebody reads: `async for event in run.stream(agent, "...")`.

        The last event of a run that ends by itself is a ResultEvent. An error is told by an
        ErrorEvent and raised after it. Leaving the loop cancels the run.
        """
        text = _checked(agent, input)
        resumed = going_on(resume, answers, text, messages, spent)
        return RunStream(
            beginning(
                messages, provider or _provider, deps, config, spent, settings, resumed, journal
            ),
            kept(agent, text, journal, run_id, session, messages),
        )

    async def aclose(self) -> None:
        """Close the connections that models of agents have opened in this event loop.

        `run.sync` and `asyncio.run` do that at their end. A program that makes and closes its event
        loop itself calls it before; whoever runs on gets new connections.
        """
        await close_providers()

    def __repr__(self) -> str:
        return "run"


run = Runner()


def _checked(agent: object, input: str | Sequence[Part]) -> str:
    require(agent, (Agent, Swarm), "run(...)", "an Agent or a Swarm, such as Agent(name=...)")
    return input if isinstance(input, str) else given(input)
