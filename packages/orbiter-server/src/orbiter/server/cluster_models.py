"""The cluster's objects, a page of them and one in detail, and what is asked of a transcript."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from orbiter.server.models import NAMESPACE

TASK_NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
Action = Literal["answer", "cancel", "retry", "resume"]
"""What somebody may do with a task as it stands, with the token they present."""


class WaitingCall(BaseModel):
    """A call that waits for a person's word; `arguments` is JSON in which nothing hides."""

    model_config = ConfigDict(frozen=True)

    tool: str
    arguments: str


class ClusterObject(BaseModel):
    """An AgentTask or a POSession of the cluster, in the few words of a list."""

    model_config = ConfigDict(frozen=True)

    name: str
    namespace: str
    phase: str = ""
    agent: str = ""
    message: str = ""
    attempts: int = 0
    turns: int = 0
    unpriced: int = 0
    created_at: datetime | None = None
    active_at: datetime | None = None
    labels: dict[str, str] = {}
    cost_usd: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class ClusterQuery(BaseModel):
    """Which page of the cluster's objects, the newest first, and of those which.

    `text` is a part of namespace, name or message, whatever its case; `label` is `KEY` or
    `KEY=VALUE`.
    """

    model_config = {"extra": "forbid", "frozen": True}

    limit: int = Field(default=100, ge=1, le=1000)
    after: str | None = Field(default=None, max_length=4000)
    namespace: str | None = Field(default=None, pattern=f"^{NAMESPACE}$")
    phase: str | None = Field(default=None, max_length=40)
    agent: str | None = Field(default=None, max_length=40)
    label: str | None = Field(default=None, max_length=400)
    text: str | None = Field(default=None, max_length=200)


class ClusterDetail(ClusterObject):
    """One of them with what is known of it; texts are cut off, what is unknown is null.

    `calls_cut` says that `calls` is not all that is to be approved.
    """

    prompt: str = ""
    model: str = ""
    reason: str = ""
    progress: str = ""
    summary: str = ""
    commit: str = ""
    pull_request: str = ""
    question: str = ""
    question_id: str = ""
    asked_at: datetime | None = None
    calls: tuple[WaitingCall, ...] = ()
    calls_cut: bool = False
    disruptions: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    over: bool = False
    actions: tuple[Action, ...] = ()


class ClusterQuestion(BaseModel):
    """What a task or a session waits for; `actions` has `answer` where whoever asks may give it.

    `calls_cut` says that `calls` is not all that is to be approved.
    """

    model_config = ConfigDict(frozen=True)

    kind: Literal["task", "session"]
    namespace: str
    name: str
    agent: str = ""
    question: str = ""
    question_id: str
    asked_at: datetime | None = None
    calls: tuple[WaitingCall, ...] = ()
    calls_cut: bool = False
    actions: tuple[Action, ...] = ()


class QuestionsQuery(BaseModel):
    """How many questions at most, and of which namespace."""

    model_config = {"extra": "forbid", "frozen": True}

    limit: int = Field(default=100, ge=1, le=200)
    namespace: str | None = Field(default=None, pattern=f"^{NAMESPACE}$")


class ClusterQuestions(BaseModel):
    """What waits for a person, the longest first; of `left_out` sessions cannot be read now."""

    model_config = ConfigDict(frozen=True)

    items: list[ClusterQuestion]
    total: int
    left_out: list[str] = []


class NewAnswer(BaseModel):
    """The answer to a question: to an approval `approve`, or `deny` and a reason.

    `id` is the `question_id` that was shown, so that it is the answer to nothing else.
    """

    model_config = {"extra": "forbid", "frozen": True}

    id: str = Field(min_length=1, max_length=512)
    text: str = Field(min_length=1, max_length=65_536)


class NewAttempt(BaseModel):
    """Do a task that is over once more, as a new task.

    `name` is what that is called, one of its own when it is null; `resume` goes on with the
    conversation and the workspace of the old one.
    """

    model_config = {"extra": "forbid", "frozen": True}

    name: str | None = Field(default=None, pattern=TASK_NAME)
    resume: bool = False


class TaskReference(BaseModel):
    """Which task was changed, or made."""

    model_config = ConfigDict(frozen=True)

    namespace: str
    name: str


class MessageReference(BaseModel):
    """Which session was sent a message, and what that is called in its answer."""

    model_config = ConfigDict(frozen=True)

    namespace: str
    name: str
    request_id: str


class CostsQuery(BaseModel):
    """What is summed up: of the last `days`, by day, namespace, agent or the label `label`."""

    model_config = {"extra": "forbid", "frozen": True}

    by: Literal["day", "namespace", "agent", "label"] = "day"
    days: int = Field(default=30, ge=1, le=366)
    label: str = Field(default="", max_length=317)
    namespace: str | None = Field(default=None, pattern=f"^{NAMESPACE}$")


class CostRow(BaseModel):
    """What something costs: a day, a namespace, an agent or a label's value.

    `without_cost` counts attempts of tasks and turns of sessions that have told no cost.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    cost_usd: float
    tasks: int
    sessions: int
    input_tokens: int
    output_tokens: int
    without_cost: int


class Costs(BaseModel):
    """What agents cost, as far as their tasks and sessions are still there."""

    model_config = ConfigDict(frozen=True)

    rows: list[CostRow]
    cost_usd: float
    without_cost: int


class TranscriptQuery(BaseModel):
    """Which transcript, and behind which event of it; `Last-Event-ID` goes before `after`."""

    model_config = {"extra": "forbid", "frozen": True}

    attempt: int | None = Field(default=None, ge=1, le=999_999)
    after: int = Field(default=0, ge=0, le=2**53)


class ClusterPage(BaseModel):
    """A page of the cluster's objects; `next` is `after` of the one behind it, null at the end."""

    model_config = ConfigDict(frozen=True)

    items: list[ClusterObject]
    total: int
    next: str | None = None
