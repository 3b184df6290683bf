"""What an AgentTask's trace is made of: a pure function from what has changed to spans.

One for the task, one for its wait, one for each attempt and below that the worker's steps, its
agent's turn and the tools of that. Written when an attempt or the task ends; ids are those of
`orbiter_contracts.tracing`, so that the same span written twice is one. The names of the agent's
spans and attributes are those of the semantic conventions for generative AI.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from orbiter_contracts import DeveloperWorkerOutput, Usage
from orbiter_contracts.tracing import Step, TraceParent, agent_span, span_of
from orbiter_contracts.usage import TaskUsage
from orbiter_operator.runtime.tracing import Span
from orbiter_operator.tasks.models import FINAL, TaskStatus
from orbiter_operator.tasks.observed import Observed

WORKER = "orbiter-worker"
"""The service whose spans a worker's are."""

Attributes = dict[str, str | int | float]
Write = Callable[[list[Span]], None]
Changed = Callable[[Observed, TaskStatus], None]


def traced(changed: Changed, write: Write | None, clock: Callable[[], datetime]) -> Changed:
    """What is called after each status that was written, and writes the spans of that too.

    Args:
        changed: What else is called with the task as it was and its new status.
        write: Takes the spans; None when nobody wants them.
        clock: The time.
    """
    if write is None:
        return changed

    def also(observed: Observed, status: TaskStatus) -> None:
        changed(observed, status)
        if ended := spans(observed, status, clock()):
            write(ended)

    return also


def spans(observed: Observed, status: TaskStatus, now: datetime) -> list[Span]:
    """The spans that have ended with this status.

    Args:
        observed: The task as it was.
        status: What was written.
        now: The time: nothing of a trace is later.
    """
    trace, before = observed.trace, observed.status
    if trace is None:
        return []
    written: list[Span] = []
    anew = before.result is None or before.attempts < status.attempts
    if status.result is not None and anew:
        written += _attempt(observed, status, trace, now)
    if status.phase in FINAL and before.phase not in FINAL:
        written.append(_task(observed, status, trace, now))
    return written


def _task(observed: Observed, status: TaskStatus, trace: TraceParent, now: datetime) -> Span:
    ended = status.completion_time or now
    attributes: Attributes = {
        "k8s.namespace.name": observed.namespace,
        "orbiter.task.name": observed.name,
        "orbiter.task.uid": observed.uid,
        "orbiter.task.phase": status.phase or "",
        "orbiter.task.reason": status.reason or "",
        "orbiter.task.attempts": status.attempts,
        "orbiter.task.disruptions": status.disruptions,
    }
    attributes |= _agent(observed) | _used(status.usage)
    return Span(
        "agenttask",
        trace.trace_id,
        span_of(observed.uid),
        trace.span_id,
        observed.created,
        _within(ended, observed.created, now),
        attributes,
        _error(status) if status.phase == "Failed" else "",
    )


def _attempt(
    observed: Observed, status: TaskStatus, trace: TraceParent, now: datetime
) -> list[Span]:
    number, uid = status.attempts, observed.uid
    record, job = observed.record_of(number), observed.job(number)
    output = record.output if record else None
    told = (output.started_at if output else None) or status.start_time or now
    began = _within(job.created if job else told, observed.created, now)
    finished = (output.finished_at if output else None) or now
    own = span_of(uid, str(number))
    attributes: Attributes = {
        "k8s.namespace.name": observed.namespace,
        "k8s.job.name": status.job_name or "",
        "k8s.pod.name": status.pod_name or "",
        "orbiter.attempt": number,
        "orbiter.attempt.status": status.result.status if status.result else "",
    }
    failed = status.result is not None and status.result.status not in _GOOD
    last = Span(
        "attempt",
        trace.trace_id,
        own,
        span_of(uid),
        began,
        _within(finished, began, now),
        attributes,
        _error(status) if failed else "",
    )
    waited = Span(
        "queued", trace.trace_id, span_of(uid, "queued"), span_of(uid), observed.created, began, {}
    )
    below = _worker(observed, output, trace, number, (began, now)) if output else []
    return [*([waited] if number == 1 else []), *below, last]


_GOOD = ("success", "input_required")


def _worker(
    observed: Observed,
    output: DeveloperWorkerOutput,
    trace: TraceParent,
    number: int,
    between: tuple[datetime, datetime],
) -> list[Span]:
    """What the worker says it did: its own word, so it is brought within the attempt."""
    uid, agent = observed.uid, agent_span(observed.uid, number)
    written = []
    if output.started_at and output.finished_at and output.duration_ms:
        began = _within(output.started_at, *between)
        attributes: Attributes = {"gen_ai.operation.name": "invoke_agent"}
        attributes |= _agent(observed) | _used(output.usage)
        written.append(
            Span(
                f"invoke_agent {observed.spec.agent.type}",
                trace.trace_id,
                agent,
                span_of(uid, str(number)),
                began,
                _within(output.finished_at, began, between[1]),
                attributes,
                "" if output.status in _GOOD else output.reason or output.status,
                WORKER,
            )
        )
    tools_of = agent if written else span_of(uid, str(number))
    for place, step in enumerate(output.steps):
        tool = step.kind == "tool"
        parent = tools_of if tool else span_of(uid, str(number))
        own = span_of(uid, f"{number}/step/{place}")
        written.append(_step(step, trace.trace_id, own, parent, between))
    return written


def _step(
    step: Step, trace: str, own: str, parent: str, between: tuple[datetime, datetime]
) -> Span:
    began = _within(step.started_at, *between)
    left = (between[1] - began) // timedelta(milliseconds=1)
    ended = began + timedelta(milliseconds=min(step.duration_ms, left))
    error = "failed" if step.failed else ""
    if step.kind == "phase":
        return Span(step.name, trace, own, parent, began, ended, {}, error, WORKER)
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": step.name,
    }
    name = f"execute_tool {step.name}"
    return Span(name, trace, own, parent, began, ended, attributes, error, WORKER)


def _agent(observed: Observed) -> Attributes:
    agent = observed.spec.agent
    model: Attributes = {"gen_ai.request.model": agent.model} if agent.model else {}
    return {"gen_ai.agent.name": agent.type} | model


def _used(usage: Usage | TaskUsage | None) -> Attributes:
    if usage is None:
        return {}
    cost: Attributes = {} if usage.cost_usd is None else {"orbiter.cost_usd": usage.cost_usd}
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    } | cost


def _error(status: TaskStatus) -> str:
    return f"{status.reason}: {status.message}" if status.message else status.reason or "failed"


def _within(moment: datetime, earliest: datetime, latest: datetime) -> datetime:
    return max(min(moment, latest), earliest)
