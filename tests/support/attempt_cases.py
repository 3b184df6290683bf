"""What attempts come to: one table for everybody who runs them, operator and `orbiter task run`."""

from typing import Any, NamedTuple

from orbiter_contracts import AgentVerdict, DeveloperWorkerOutput, Usage
from orbiter_contracts.retry import RetryPolicy
from orbiter_contracts.usage import TaskUsage

REQUEST = "5b0d7a52-0000-4000-8000-000000000001"


class EndCase(NamedTuple):
    """An attempt's output, and the task's status when no other attempt follows."""

    output: DeveloperWorkerOutput
    phase: str
    reason: str
    message: str
    result: dict[str, Any]
    retried: bool = False
    detail: str = ""
    question: str | None = None


class BackoffCase(NamedTuple):
    """Attempts that fail one after the other, and the seconds between them."""

    retry: RetryPolicy
    pauses: tuple[float, ...]


class SessionCase(NamedTuple):
    """How attempts end, one letter each: `?` asks and is answered, `!` fails, `.` is the last.

    `sessions` says for each attempt which one's session its agent has.
    """

    ends: str
    sessions: tuple[int, ...]


class UsageCase(NamedTuple):
    """What attempts tell of their cost, and what the status has after the last."""

    told: tuple[Usage | None, ...]
    total: TaskUsage | None


def ended(status: str, **changes: Any) -> DeveloperWorkerOutput:
    """An output."""
    return DeveloperWorkerOutput(request_id=REQUEST, task_id="team/fix", status=status, **changes)


def failed(status: str, reason: str, message: str, case: DeveloperWorkerOutput) -> EndCase:
    """A failure that another attempt follows if there may be one."""
    summary = case.verdict.summary if case.verdict else None
    result = {"status": status} | ({"summary": summary or case.error} if case.error else {})
    return EndCase(case, "Failed", reason, message, result, retried=True, detail=case.error or "")


_DONE = AgentVerdict(summary="it  works\nnow", data={"files": 3}, commit_sha="c0", pr_url="pr0")
_ASKS = AgentVerdict(status="input_required", summary="two ways", question="Which  branch?")

ENDS = {
    "success": EndCase(
        ended("success", verdict=_DONE),
        *("Completed", "Succeeded", "it works now"),
        {
            "status": "success",
            "summary": "it  works\nnow",
            "commitSHA": "c0",
            "prURL": "pr0",
            "data": {"files": 3},
        },
    ),
    "the worker's commit counts before the agent's": EndCase(
        ended("success", verdict=_DONE, commit_sha="c1", pr_url="pr1"),
        *("Completed", "Succeeded", "it works now"),
        {
            "status": "success",
            "summary": "it  works\nnow",
            "commitSHA": "c1",
            "prURL": "pr1",
            "data": {"files": 3},
        },
    ),
    "success without a word": EndCase(
        ended("success"), "Completed", "Succeeded", "", {"status": "success"}
    ),
    "success with a long summary": EndCase(
        ended("success", verdict=AgentVerdict(summary="x" * 200)),
        *("Completed", "Succeeded", "x" * 139 + "…"),
        {"status": "success", "summary": "x" * 200},
    ),
    "question": EndCase(
        ended("input_required", verdict=_ASKS),
        *("InputRequired", "InputRequired", "Which branch?"),
        {"status": "input_required", "summary": "two ways"},
        question="Which  branch?",
    ),
    "question in the summary": EndCase(
        ended("input_required", verdict=AgentVerdict(status="input_required", summary="which?")),
        *("InputRequired", "InputRequired", "which?"),
        {"status": "input_required", "summary": "which?"},
        question="which?",
    ),
    "question in the error": EndCase(
        ended("input_required", error="which?"),
        *("InputRequired", "InputRequired", "which?"),
        {"status": "input_required", "summary": "which?"},
        question="which?",
    ),
    "question without a word": EndCase(
        ended("input_required"),
        *("InputRequired", "InputRequired", "the agent asks for input"),
        {"status": "input_required"},
        question="",
    ),
    "cancelled": EndCase(
        ended("cancelled", error="stopped"),
        *("Cancelled", "Cancelled", "stopped"),
        {"status": "cancelled", "summary": "stopped"},
        detail="stopped",
    ),
    "cancelled for a reason": EndCase(
        ended("cancelled", reason="Withdrawn", error="taken back"),
        *("Cancelled", "Withdrawn", "taken back"),
        {"status": "cancelled", "summary": "taken back"},
        detail="taken back",
    ),
    "failed": failed("failed", "AgentError", "no", ended("failed", error="no")),
    "error": failed("error", "AgentError", "no", ended("error", error="no")),
    "failed with the agent's own words": EndCase(
        ended("failed", verdict=AgentVerdict(status="failure", summary="not today")),
        *("Failed", "AgentError", "not today"),
        {"status": "failed", "summary": "not today"},
        retried=True,
        detail="not today",
    ),
    "failed without a word": failed(
        "failed", "AgentError", "the worker reported failed and no reason", ended("failed")
    ),
    "timeout": failed(
        "timeout",
        *("AgentTimeout", "stopped after 5 s"),
        ended("timeout", error="stopped after 5 s\nlast words"),
    ),
    "the last line says why": failed(
        "failed",
        "AgentError",
        "exit code 1 … no key",
        ended("failed", error="exit code 1\n\nno key"),
    ),
    "reason that begins the line": failed(
        "failed",
        *("OOMKilled", "out of memory"),
        ended("failed", reason="OOMKilled", error="Worker crashed: OOMKilled: out of memory"),
    ),
    "reason that is no word": failed(
        "failed",
        *("AgentError", "no (its reason is no CamelCase word: 'bad thing')"),
        ended("failed", reason="bad thing", error="no"),
    )._replace(detail="no (its reason is no CamelCase word: 'bad thing')"),
    **{
        f"{reason} is not retried": failed(
            "failed", reason, "no", ended("failed", reason=reason, error="no")
        )._replace(retried=False)
        for reason in ("JobRejected", "InvalidMessage", "Cancelled", "DisruptionLimitExceeded")
    },
    **{
        f"{reason} is retried": failed(
            "failed", reason, "no", ended("failed", reason=reason, error="no")
        )
        for reason in (
            *("WorkerCrashed", "WorkspaceError", "QueueUnavailable", "WorkerMisconfigured"),
            "SkillsError",
        )
    },
}
BACKOFFS = {
    "no retry": BackoffCase(RetryPolicy(), ()),
    "one": BackoffCase(RetryPolicy(limit=1), (10,)),
    "doubled": BackoffCase(RetryPolicy(limit=3, backoff_seconds=5), (5, 10, 20)),
    "at most ten minutes": BackoffCase(RetryPolicy(limit=3, backoff_seconds=200), (200, 400, 600)),
    "at once": BackoffCase(RetryPolicy(limit=2, backoff_seconds=0), (0, 0)),
}
SESSIONS = {
    "one": SessionCase(".", (1,)),
    "after failures each its own": SessionCase("!!.", (1, 2, 3)),
    "after a question that of who asked": SessionCase("?.", (1, 1)),
    "after two questions that of the first": SessionCase("??.", (1, 1, 1)),
    "after a failure the question's": SessionCase("!?!.", (1, 2, 2, 2)),
}
_COST = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4, turns=5)
USAGES = {
    "nobody tells": UsageCase((None, None), None),
    "one tells": UsageCase(
        (None, _COST, None),
        TaskUsage(
            input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4, turns=5
        ),
    ),
    "all add up, and no cost is not a cost of 0": UsageCase(
        (_COST, _COST.model_copy(update={"cost_usd": 0.25}), Usage(cost_usd=0.5)),
        TaskUsage(
            input_tokens=2,
            output_tokens=4,
            cache_read_tokens=6,
            cache_write_tokens=8,
            turns=10,
            cost_usd=0.75,
        ),
    ),
    "no more than the resource definition holds": UsageCase(
        (Usage(turns=2**31 - 1, input_tokens=2**53 - 1), Usage(turns=1, input_tokens=1)),
        TaskUsage(turns=2**31 - 1, input_tokens=2**53 - 1),
    ),
}
