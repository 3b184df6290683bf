"""What a task is for its clients, and what they may ask for. All are frozen."""

from datetime import datetime
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

NAMESPACE: Final = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
TASK_NAME: Final = NAMESPACE
LONGEST_PROMPT: Final = 262_144
LONGEST_KEY: Final = 255
Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
TaskName = Annotated[str, StringConstraints(pattern=TASK_NAME)]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")  # what is misspelt is refused


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class GitSource(_Request):
    """The repository in which a task works; `credentials` names a Secret.

    `branch` is the one that the work is on, `push` whether a success is pushed there.
    """

    url: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    ref: Name | None = None
    branch: Name | None = None
    push: bool = False
    credentials: Name | None = None


class NewTask(_Request):
    """A task that is to be made. What is null is left to the profile, or to the defaults.

    Without `agent`, `profile` and `cluster_profile` the namespace's profile `default` is taken,
    else that of the cluster, else the agent `claude`. `credentials` names a Secret: by default
    AGENT-credentials where the agent is named here, and "" is none.
    """

    prompt: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_PROMPT)]
    name: TaskName | None = None
    profile: Name | None = None
    cluster_profile: Name | None = None
    agent: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,62}$")] | None = None
    model: Name | None = None
    credentials: Annotated[str, StringConstraints(max_length=253)] | None = None
    system_prompt: Annotated[str, StringConstraints(min_length=1, max_length=65_536)] | None = None
    max_turns: int | None = Field(default=None, ge=1, le=10_000)
    max_cost_usd: float | None = Field(default=None, gt=0, le=100_000)
    git: GitSource | None = None
    artifacts: list[Annotated[str, StringConstraints(min_length=1, max_length=256)]] = Field(
        default=[], max_length=32
    )
    timeout_seconds: int | None = Field(default=None, ge=1, le=604_800)
    retries: int | None = Field(default=None, ge=0, le=100)
    ttl_seconds: int | None = Field(default=None, ge=0, le=2**31 - 1)
    depends_on: list[TaskName] = Field(default=[], max_length=64)
    concurrency_key: Name | None = None
    project_id: Name | None = None

    @model_validator(mode="after")
    def _one_profile(self) -> Self:
        if self.profile is not None and self.cluster_profile is not None:
            raise ValueError("profile and cluster_profile: name one of them")
        return self


class WaitingCall(_Answer):
    """A call that waits for a person's word; `arguments` is JSON in which nothing hides."""

    tool: str
    arguments: str


class TaskSummary(_Answer):
    """A task in the few words of a list; `message` is cut off."""

    name: str
    namespace: str
    phase: str = ""
    agent: str = ""
    message: str = ""
    attempts: int = 0
    created_at: datetime | None = None
    active_at: datetime | None = None
    labels: dict[str, str] = {}
    cost_usd: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class Task(TaskSummary):
    """A task with what is known of it; texts are cut off, what is unknown is null or empty.

    Attributes:
        summary: The agent's own word of what came of it; so are `progress`, `question` and `calls`.
        question_id: What an answer names, while the task waits for one.
        approval: Whether it waits for `approve`, or `deny` and a reason, and not for any text.
        calls_cut: Whether `calls` is not all that is to be approved.
        over: Whether it has ended.
    """

    uid: str = ""
    prompt: str = ""
    model: str = ""
    reason: str = ""
    progress: str = ""
    summary: str = ""
    commit: str = ""
    pull_request: str = ""
    question: str = ""
    question_id: str = ""
    approval: bool = False
    asked_at: datetime | None = None
    calls: tuple[WaitingCall, ...] = ()
    calls_cut: bool = False
    disruptions: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    over: bool = False

    @property
    def stands(self) -> bool:
        """Whether nothing more happens by itself: it is over, or asks what nobody has answered."""
        return self.over or bool(self.question_id)


class Submitted(_Answer):
    """The task that a request has made; `created` is false where its key had made it before."""

    task: Task
    created: bool


class TaskPage(_Answer):
    """A page of tasks; `next` is `after` of the one behind it, empty at the end."""

    items: list[TaskSummary]
    next: str = ""


class TaskQuery(_Request):
    """Which tasks, and behind which page of them; `label` is `KEY` or `KEY=VALUE`.

    `namespace` null is all of them. A page may have fewer than `limit` where a phase is asked for.
    """

    namespace: TaskName | None = None
    limit: int = Field(default=50, ge=1, le=500)
    after: str = Field(default="", max_length=4000)
    label: str | None = Field(default=None, max_length=400)
    phase: str | None = Field(default=None, max_length=40)


class KeptFile(_Answer):
    """A file that was kept of a task's workspace; `sha256` is of its bytes.

    `place` is where: `redis`, from where it can be read here, or `store`, an object store.
    """

    name: str
    size_bytes: int
    sha256: str
    place: Literal["redis", "store"]


class KeptFiles(_Answer):
    """The files of one attempt; `store` is where those with that place are."""

    attempt: int
    files: list[KeptFile]
    store: str = ""
