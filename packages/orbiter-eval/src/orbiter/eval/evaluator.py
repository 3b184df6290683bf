"""The Evaluator: runs an agent on every case of a dataset and has the runs scored."""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orbiter.agent import Agent, Provider
from orbiter.agent_tool import AgentTool
from orbiter.config import TaskConfig
from orbiter.eval._internal.prices import price_of
from orbiter.eval.dataset import DatasetError, check_cases, fingerprint, load_dataset
from orbiter.eval.journal import Journal, open_journal
from orbiter.eval.progress import Progress, ProgressBar, ProgressListener
from orbiter.eval.record import RunInfo
from orbiter.eval.result import EvalResult
from orbiter.eval.scorer import ScoreFunction, Scorer, as_scorers, score_run
from orbiter.evaluation import Case, CaseResult
from orbiter.outputs import as_json
from orbiter.runner import run
from orbiter.swarm import Swarm
from orbiter.types import OrbiterError, RunResult

Target = Agent | Swarm | Callable[[Case], Awaitable[Any]]


class Evaluator:
    """What is evaluated and how; `run` may be called as often as you like."""

    def __init__(
        self,
        target: Target,
        scorers: Sequence[Scorer | ScoreFunction],
        *,
        name: str = "",
        concurrency: int = 8,
        repeats: int = 1,
        provider: Provider | None = None,
        deps: Any = None,
        limits: TaskConfig | None = None,
        cost: Callable[[RunResult], float | None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Say what to evaluate.

        Args:
            target: An Agent, a Swarm, or an async function that takes a Case and returns a
                RunResult or the output. Use a function for agents with a memory or a context, and
                make a new one in it: else the cases would see each other's conversation.
            scorers: What judges the runs; functions of `(case, result)` will do.
            name: What reports call it; by default the target's.
            concurrency: Cases that run at the same time.
            repeats: Runs of each case, to tell luck from skill.
            provider: A model to use instead of the agents' own.
            deps: For `run(deps=...)`.
            limits: For `run(config=...)`, such as a timeout.
            cost: US dollars of a run; by default by the price table of the extra `prices`.
            clock: Seconds, for latencies.

        Raises:
            OrbiterError: A number is below 1, or the target, a scorer or the limits are none.
        """
        if isinstance(target, type) or not (isinstance(target, Agent | Swarm) or callable(target)):
            given = (
                f"the class {target.__name__}" if isinstance(target, type) else f"{target!r:.80}"
            )
            raise OrbiterError(
                f"Evaluator(...) got {given}: give an Agent, a Swarm or an async function of a Case"
            )
        if not all(isinstance(number, int) and number >= 1 for number in (concurrency, repeats)):
            raise OrbiterError(
                f"concurrency ({concurrency!r}) and repeats ({repeats!r}) are numbers, 1 or more"
            )
        if limits is not None and not isinstance(limits, TaskConfig):
            raise OrbiterError(f"limits= is {limits!r:.80}: give TaskConfig(timeout=..., ...)")
        self.target = target
        self.scorers = as_scorers(scorers)
        self.name = name or _name(target)
        self.concurrency = concurrency
        self.repeats = repeats
        self._options: dict[str, Any] = {"provider": provider, "deps": deps, "config": limits}
        self._cost = cost
        self._clock = clock

    async def run(
        self,
        cases: Iterable[Case] | str | Path,
        *,
        journal: str | Path | None = None,
        progress: bool | ProgressListener = False,
        retry_errors: bool = False,
    ) -> EvalResult:
        """Run all cases that have no result yet.

        Args:
            cases: The dataset, or its file.
            journal: A file that keeps the results as they come. Where it has some already, those
                cases are not run again; only what was under way when the process died is.
            progress: True shows a bar on standard error; a function is called after each case.
            retry_errors: Run cases again whose run failed.

        Returns:
            All results, in the order of the dataset. A run that failed is one of them.

        Raises:
            DatasetError: The dataset cannot be read.
            JournalError: The journal is another evaluation's, or in use.
        """
        if isinstance(cases, (str, Path)):
            cases = await asyncio.to_thread(load_dataset, cases)
        if isinstance(cases, Case) or not isinstance(cases, Iterable):
            raise DatasetError(f"{cases!r:.80} is no list of cases: give [Case(input=...)]")
        chosen = check_cases(list(cases))
        with (
            open_journal(journal, self._info(chosen)) as book,
            _listener(progress, self.name) as tell,
        ):
            keys = [(case, number) for case in chosen for number in range(1, self.repeats + 1)]
            waiting = [
                (case, number)
                for case, number in keys
                if (found := book.results.get((case.id, number))) is None
                or (retry_errors and found.error is not None)
            ]
            done = len(keys) - len(waiting)
            tell(Progress(done, len(keys), None))
            work = iter(waiting)
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self.concurrency, len(waiting))):
                        group.create_task(self._work(work, book, len(keys), tell))
            except BaseExceptionGroup as errors:
                # such as a full disk: what the first one met is what there is to tell
                raise errors.exceptions[0] from None
            results = [book.results[case.id, number] for case, number in keys]
            return EvalResult(info=book.info, results=results)

    async def _work(
        self,
        work: Iterator[tuple[Case, int]],
        book: Journal,
        total: int,
        tell: ProgressListener,
    ) -> None:
        for case, number in work:
            ran = await self._attempt(case, number)
            result = await score_run(self.scorers, case, ran)
            book.add(result)
            tell(Progress(len(book.results), total, result))

    async def _attempt(self, case: Case, number: int) -> CaseResult:
        began = self._clock()
        base = CaseResult(
            case_id=case.id,
            attempt=number,
            input=case.input,
            expected=case.expected,
            tags=case.tags,
        )
        try:
            answer = await self._call(case)
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}", "stop_reason": "error"}
            return base.model_copy(update={**told, "seconds": self._clock() - began})
        found: dict[str, Any] = {"seconds": self._clock() - began}
        if isinstance(answer, RunResult):
            found |= {
                "usage": answer.usage,
                "steps": answer.steps,
                "stop_reason": answer.stop_reason,
                "messages": answer.messages[len(case.messages) :],
                "cost_usd": self._price(answer),
            }
            answer = answer.output_or_text
        return base.model_copy(update={**found, "output": as_json(answer)})

    async def _call(self, case: Case) -> Any:
        if isinstance(self.target, (Agent, Swarm)):
            return await run(self.target, case.input, messages=case.messages, **self._options)
        return await self.target(case)

    def _price(self, answer: RunResult) -> float | None:
        if self._cost is not None:
            return self._cost(answer)
        return price_of(self.target, answer) if isinstance(self.target, (Agent, Swarm)) else None

    def _info(self, cases: list[Case]) -> RunInfo:
        described = json.dumps(_describe(self.target), sort_keys=True)
        return RunInfo(
            name=self.name,
            target=_name(self.target),
            target_hash=hashlib.sha256(described.encode()).hexdigest()[:16],
            dataset_hash=fingerprint(cases),
            scorers={scorer.name: repr(scorer) for scorer in self.scorers},
            cases=len(cases),
            repeats=self.repeats,
            started_at=datetime.now(UTC),
        )


def _listener(
    progress: bool | ProgressListener, name: str
) -> AbstractContextManager[ProgressListener]:
    if progress is True:
        return ProgressBar(name)
    return nullcontext(progress or (lambda told: None))


def _name(target: Any) -> str:
    if isinstance(target, Swarm):
        return target.name or ", ".join(agent.name for agent in target.agents)
    if isinstance(target, Agent):
        return target.name
    return str(getattr(target, "__name__", type(target).__name__))


def _describe(target: Any, seen: frozenset[int] = frozenset()) -> Any:
    """Return what makes the target give the answers it gives, as JSON."""
    if isinstance(target, Swarm):
        return [str(target.flow or target.mode), [_describe(a, seen) for a in target.agents]]
    if not isinstance(target, Agent):
        return _name(target)
    if id(target) in seen:
        return target.name
    instructions, deeper = target.instructions, seen | {id(target)}
    asked = [_describe(t.target, deeper) for t in target.tools if isinstance(t, AgentTool)]
    return {
        "config": target.config.model_dump(mode="json"),
        "instructions": instructions if isinstance(instructions, str) else _name(instructions),
        "tools": [tool.to_schema() for tool in target.tools],
        "output": target.output_schema,
        "handoffs": [_describe(agent, deeper) for agent in target.handoffs],
        **({"asked": asked} if asked else {}),
    }
