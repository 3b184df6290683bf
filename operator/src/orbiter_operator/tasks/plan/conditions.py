"""The conditions of a task, each with a reason; the first five are always present. Pure.

- Admitted: the task may run and its attempt is on the queue. False says what it waits for.
- Started: the current attempt's worker has begun.
- Finished: the task has reached its final phase, whichever.
- Succeeded: Unknown until finished.
- Ready: the task has succeeded; with Reconciling until it has ended and Stalled when it ended
  otherwise, as kstatus reads objects of any kind (sigs.k8s.io/cli-utils, pkg/kstatus).
- Disrupted, once the attempt was: Unknown while its pod has to leave and still works, True until
  the next one works; then how it went on. True for good where that ended the task.
- Checkpointed, once the attempt has one: False when it is of no use, its workspace being too large.
- ProfileResolved, where the task has a profile: False says why no attempt begins with it yet.
- BudgetReserved, where there is an AgentBudget: False while the attempt does not fit into it.
- ArtifactsKept, once an attempt with artifacts has ended: False says what was not kept, and why.
"""

import re
from datetime import datetime
from typing import Any

from orbiter_contracts import ArtifactsReport, Checkpoint
from orbiter_contracts.bounds import shortened
from orbiter_contracts.usage import shown_cost
from orbiter_operator.budgets.models import Budgeted
from orbiter_operator.kube.models import (
    Agent,
    Condition,
    ConditionStatus,
    Profiled,
    ProfileStatus,
)
from orbiter_operator.tasks.models import (
    AgentStatus,
    CheckpointStatus,
    TaskStatus,
)

RETRYING = "Retrying"
_REASON = re.compile(r"[A-Za-z]{1,60}")
_LONGEST_MESSAGE = 1024


class Conditions:
    """Makes the conditions that follow those of a status.

    Args:
        status: As it is now.
        now: Time of the change.
        generation: That of the spec it is computed from.
    """

    def __init__(self, status: TaskStatus, now: datetime, generation: int) -> None:
        self._status = status
        self._now = now
        self._generation = generation

    def of_the_phase(
        self,
        reason: str,
        message: str,
        detail: str,
        *,
        admitted: bool,
        started: bool,
        succeeded: bool | None,
    ) -> tuple[Condition, ...]:
        """Those that follow from how far the task is.

        Args:
            reason: The phase's, in one word.
            message: The same in a line; `detail` may have more of them.
            detail: What the condition Succeeded says.
            admitted: Whether the attempt is on the queue.
            started: Whether its worker has begun.
            succeeded: How the task ended; None while it has not.
        """
        ended: ConditionStatus = "Unknown" if succeeded is None else _flag(succeeded)
        finished = succeeded is not None
        return (
            self._next("Admitted", _flag(admitted), *_why(admitted, reason, message)),
            self._next("Started", _flag(started), *_why(started, reason, message)),
            self._next("Finished", _flag(finished), reason, message),
            self._next("Succeeded", ended, reason, detail),
            self._next("Ready", _flag(bool(succeeded)), *_why(bool(succeeded), reason, message)),
            *(() if finished else (self._next("Reconciling", "True", reason, ""),)),
            *((self._next("Stalled", "True", reason, message),) if succeeded is False else ()),
        )

    def of_the_disruption(
        self, disrupted: tuple[ConditionStatus, str, str] | None, resumed: str | None
    ) -> tuple[Condition, ...]:
        """Whether the attempt is disrupted, if it ever was.

        Args:
            disrupted: Unknown, or True for a disruption that is counted now; reason and sentence.
            resumed: How it goes on, when its next pod works.
        """
        if disrupted is not None:
            return (self._next("Disrupted", *disrupted),)
        last = self._status.condition("Disrupted")
        if last is not None and last.status == "True" and resumed is not None:
            return (self._next("Disrupted", "False", last.reason, resumed),)
        return () if last is None else (last,)

    def of_the_checkpoint(self, kept: Checkpoint | None) -> tuple[Condition, ...]:
        """Whether the attempt has a checkpoint that is of use, if it has any."""
        if kept is None:
            last = self._status.condition("Checkpointed")
            return () if last is None else (last,)
        if kept.workspace == "TooLarge":
            text = "the workspace is too large to be kept: after a disruption it begins again"
            return (self._next("Checkpointed", "False", "TooLarge", text),)
        return (self._next("Checkpointed", "True", kept.workspace or "Stored", ""),)

    def of_the_profile(self, used: Profiled | None, attempt: int) -> tuple[Condition, ...]:
        """Whether the task's profile is settled, if it has one: with the first attempt it is."""
        if used is None or not (used.reason or attempt):
            last = self._status.condition("ProfileResolved")
            return () if last is None else (last,)
        if used.reason:
            return (self._next("ProfileResolved", "False", used.reason, used.message),)
        text = " over ".join(
            f"{each.kind} {each.name} as it was at generation {each.generation}"
            for each in (used, used.base)
            if each is not None
        )
        return (self._next("ProfileResolved", "True", "Resolved", text),)

    def of_the_budget(self, told: Budgeted | None, reason: str) -> tuple[Condition, ...]:
        """Whether the attempt has its money, as it was unless it has it or waits for that alone."""
        if told is None or not (told.held or told.reason == reason):
            last = self._status.condition("BudgetReserved")
            return () if last is None else (last,)
        return (self._next("BudgetReserved", _flag(told.held), told.reason, told.message),)

    def of_the_artifacts(self, kept: ArtifactsReport | None) -> tuple[Condition, ...]:
        """Whether what the last attempt that told was to keep is kept, if one has told."""
        if kept is None:
            last = self._status.condition("ArtifactsKept")
            return () if last is None else (last,)
        reason = kept.reason if _REASON.fullmatch(kept.reason) else "Failed"
        text = shortened(kept.message, _LONGEST_MESSAGE)
        return (self._next("ArtifactsKept", _flag(kept.complete), reason, text),)

    def _next(self, kind: str, status: ConditionStatus, reason: str, message: str) -> Condition:
        # The wait before the next attempt counts from here, also when the last was not seen to
        # start, and a disruption is told from a worker that spoke before it.
        anew = reason == RETRYING
        return self._status.next_condition(
            kind, status, reason, message, self._now, self._generation, anew=anew
        )


def shown(kept: Checkpoint) -> CheckpointStatus:
    """What the status says of a checkpoint."""
    cost = None if kept.cost_usd is None else shown_cost(kept.cost_usd)
    return CheckpointStatus(
        time=kept.time,
        turns=kept.turns,
        cost_usd=cost,
        input_tokens=kept.usage.input_tokens if kept.usage else None,
        output_tokens=kept.usage.output_tokens if kept.usage else None,
        workspace=kept.workspace,
    )


def told_of(agent: Agent, used: Profiled | None) -> dict[str, Any]:
    """The fields of the status that say who works in an attempt that begins or has begun."""
    told: dict[str, Any] = {"agent": AgentStatus(type=agent.type, model=agent.model)}
    if used is not None and not used.reason:
        told["profile"] = ProfileStatus.of(used)
    return told


def checkpoint_words(kept: Checkpoint | None, *, resumes: bool) -> str:
    """What a disrupted attempt goes on from, for people."""
    if kept is None or not resumes:
        return "it begins again"
    return f"it goes on from the checkpoint of {kept.time:%H:%M:%S} ({kept.turns} turns)"


def resumed_words(status: TaskStatus, *, resumes: bool) -> str | None:
    """How an attempt that works went on after its last disruption; None when it had none."""
    last = status.condition("Disrupted")
    if last is None:
        return None
    if last.status != "True":
        return last.message
    how = "resumed" if resumes else "began again"
    return f"{how} after {last.reason} ({status.disruptions})"


def _why(holds: bool, reason: str, message: str) -> tuple[str, str]:
    return ("AsExpected", "") if holds else (reason, message)


def _flag(holds: bool) -> ConditionStatus:
    return "True" if holds else "False"
