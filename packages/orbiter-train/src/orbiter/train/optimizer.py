"""The instruction optimiser: better instructions by trying, without a GPU.

A model proposes instructions from what went wrong on the train split. What is better there is tried
on the held-out split, which the proposer never sees; only what wins there is kept. In the end it is
compared with the beginning, and the report says whether the gain could be luck.
"""

import copy
import random
from collections.abc import Iterable, Sequence

from orbiter.agent import Agent, Provider
from orbiter.evaluation import Case, Evaluation, RunScorer, compare, evaluate
from orbiter.train.budget import Budget, Spent
from orbiter.train.optimization import Attempt, Optimization
from orbiter.train.proposer import Proposer, Tried
from orbiter.train.trajectory import TrainingError

_SHOWN_FAILURES = 8


def with_instructions(agent: Agent, instructions: str) -> Agent:
    """Return the same agent with other instructions; the given one stays as it is."""
    other = copy.copy(agent)
    other.config = agent.config.model_copy(update={"instructions": instructions})
    other.instructions = instructions
    return other


class InstructionOptimizer:
    """Looks for better instructions of one agent."""

    def __init__(
        self,
        agent: Agent,
        scorers: Sequence[RunScorer],
        *,
        objective: str = "",
        proposer: Provider | Proposer | str,
        provider: Provider | None = None,
        budget: Budget | None = None,
        proposals: int = 3,
        held_out: float = 0.5,
        repeats: int = 1,
        concurrency: int = 8,
        confidence: float = 0.95,
        seed: int = 0,
    ) -> None:
        """Say what to improve.

        Args:
            agent: Its instructions are a text; it is not changed.
            scorers: What judges its runs.
            objective: The scorer that counts; by default the first.
            proposer: Who writes instructions: a model string, a provider or a Proposer.
            provider: A model for the agent instead of its own.
            budget: What may be spent; by default five rounds.
            proposals: Instructions to try in a round.
            held_out: The share of the cases that decides and that the proposer never sees.
            repeats: Runs of each case; more make the noise smaller and cost as much more.
            concurrency: Cases that run at the same time.
            confidence: How sure the report has to be to call a gain one.
            seed: Of the split and of the statistics.

        Raises:
            TrainingError: The instructions are a function, or there is no such scorer.
        """
        if not isinstance(agent.instructions, str):
            raise TrainingError(
                f"the instructions of agent '{agent.name}' are made by a function, which cannot "
                "be rewritten"
            )
        names = [scorer.name for scorer in scorers]
        self.objective = objective or (names[0] if names else "")
        if self.objective not in names:
            raise TrainingError(f"no scorer '{self.objective}'; scorers: {', '.join(names)}")
        self.agent = agent
        self._original = agent.instructions
        self._scorers = scorers
        self._proposer = proposer if isinstance(proposer, Proposer) else Proposer(proposer)
        self._provider = provider
        self.budget = budget or Budget()
        self._proposals = proposals
        self._held_out = held_out
        self._repeats = repeats
        self._concurrency = concurrency
        self._confidence = confidence
        self._seed = seed

    async def run(self, cases: Iterable[Case]) -> Optimization:
        """Look for better instructions until the budget is spent.

        Args:
            cases: At least two for each split. The more are held out, the smaller a gain can be
                told from luck.

        Raises:
            TrainingError: There are too few cases, or the budget does not even allow to measure
                the instructions as they are.
            OrbiterError: The proposer cannot be called.
        """
        train, held = self._split(list(cases))
        search = _Search(self, train, held)
        needed = (len(train) + len(held)) * self._repeats
        stopped = search.spent.exhausted(self.budget, needed)
        if stopped is not None:
            raise TrainingError(f"the budget is too small to measure the beginning: {stopped}")
        await search.begin()
        while True:
            stopped = search.spent.exhausted(self.budget) or search.nothing_left()
            stopped = stopped or await search.take_round()
            if stopped is not None:
                return search.end(stopped)

    def _split(self, cases: list[Case]) -> tuple[list[Case], list[Case]]:
        shuffled = cases[:]
        random.Random(self._seed).shuffle(shuffled)  # noqa: S311 (a split, no secret)
        count = round(len(cases) * self._held_out)
        held, train = shuffled[:count], shuffled[count:]
        if len(held) < 2 or len(train) < 2:
            raise TrainingError(
                f"{len(cases)} cases, {self._held_out:.0%} held out, leave {len(train)} to train "
                f"and {len(held)} to decide: both have to be 2 or more"
            )
        return train, held


class _Search:
    """One search: what is best so far, what was tried, what was spent."""

    def __init__(self, job: InstructionOptimizer, train: list[Case], held: list[Case]) -> None:
        self.job = job
        self.train = train
        self.held = held
        self.spent = Spent()
        self.attempts: list[Attempt] = []
        self.kept = job._original

    async def begin(self) -> None:
        self.on_train = await self._evaluate(self.kept, self.train)
        self.first_held = self.on_held = await self._evaluate(self.kept, self.held)
        if self.on_train.mean(self.job.objective) is None:
            reason = next((s.reason for r in self.on_train.results for s in r.scores), "")
            raise TrainingError(f"'{self.job.objective}' could not be scored: {reason}")

    def nothing_left(self) -> str | None:
        """Say that the train split cannot tell what would be better, if so."""
        full = self._mean(self.on_train) >= 1.0
        return (
            "the train split has the full score: there is nothing to learn from" if full else None
        )

    async def take_round(self) -> str | None:
        """Try new instructions.

        Returns:
            What forbids to go on, if anything does.
        """
        job, name = self.job, self.job.objective
        worst = sorted(self.on_train.results, key=lambda r: r.score(name) or 0.0)
        failures = [r for r in worst if (r.score(name) or 0.0) < 1.0][:_SHOWN_FAILURES]
        current = Tried(instructions=self.kept, score=self._mean(self.on_train))
        tried = [Tried(instructions=a.instructions, score=a.train) for a in self.attempts]
        found, usage = await job._proposer.propose(current, failures, tried, job._proposals)
        self.spent = self.spent.plus(usage=usage, rounds=1)
        best: tuple[Evaluation, Attempt] | None = None
        for proposal in found:
            # what is tried on the train split is worth nothing if the other cannot decide
            needed = (len(self.train) + len(self.held)) * job._repeats
            stopped = self.spent.exhausted(job.budget, needed)
            if stopped is not None:
                await self._decide(best)
                return stopped
            result = await self._evaluate(proposal.instructions, self.train)
            attempt = Attempt(
                round=self.spent.rounds,
                why=proposal.why,
                instructions=proposal.instructions,
                train=self._mean(result),
            )
            self.attempts.append(attempt)
            if attempt.train > self._mean(best[0] if best else self.on_train):
                best = (result, attempt)
        await self._decide(best)
        return None

    async def _decide(self, best: tuple[Evaluation, Attempt] | None) -> None:
        """Try the best of a round on the held-out split and keep it if it wins there."""
        if best is None:
            return
        result, attempt = best
        on_held = await self._evaluate(attempt.instructions, self.held)
        kept = self._mean(on_held) > self._mean(self.on_held)
        place = self.attempts.index(attempt)
        decided = {"held_out": self._mean(on_held), "kept": kept}
        self.attempts[place] = attempt.model_copy(update=decided)
        if kept:
            self.kept, self.on_train, self.on_held = attempt.instructions, result, on_held

    def end(self, stopped: str) -> Optimization:
        job = self.job
        looks = max(1, sum(a.held_out is not None for a in self.attempts))
        # who looks often enough at the held-out split finds something there by chance
        confidence = 1 - (1 - job._confidence) / looks
        compared = compare(
            self.first_held, self.on_held, job.objective, confidence=confidence, seed=job._seed
        )
        return Optimization(
            original=job._original,
            instructions=self.kept,
            objective=job.objective,
            held_out=compared,
            confidence=job._confidence,
            looks=looks,
            attempts=self.attempts,
            train_cases=len(self.train),
            spent=self.spent,
            stopped=stopped,
        )

    def _mean(self, result: Evaluation) -> float:
        return result.mean(self.job.objective) or 0.0

    async def _evaluate(self, instructions: str, cases: Sequence[Case]) -> Evaluation:
        job = self.job
        result = await evaluate(
            with_instructions(job.agent, instructions),
            job._scorers,
            cases,
            provider=job._provider,
            repeats=job._repeats,
            concurrency=job._concurrency,
        )
        self.spent = self.spent.plus(runs=len(result.results), usage=result.usage)
        return result
