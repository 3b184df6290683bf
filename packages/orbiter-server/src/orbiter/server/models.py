"""What the server's API speaks: requests and answers. All are frozen."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orbiter.approval import InputRequest
from orbiter.server.data_url import Images
from orbiter.tasks import TaskState
from orbiter.types import Message, StopReason, Usage

MAX_INPUT = 200_000  # the longest fits into a request, however it is escaped
CURSOR = r"^\d{1,11}(\.\d{1,9})?~[A-Za-z0-9_-]{1,100}$"
NAMESPACE = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
RequestId = Annotated[str, Field(min_length=1, max_length=100)] | None
Text = Annotated[str, Field(min_length=1, max_length=MAX_INPUT)]
Conversation = list[Annotated[Message, Field(discriminator="role")]]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")  # what is misspelt is refused


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class ErrorDetail(_Answer):
    """What went wrong: `message` for people, `type` and `code` for programs."""

    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None


class ErrorAnswer(_Answer):
    """The body of every answer that is no success; OpenAI's clients understand it too."""

    error: ErrorDetail


class AgentInfo(_Answer):
    """An agent or a swarm that is served; `tools` and `handoffs` are names."""

    name: str
    kind: Literal["agent", "swarm"] = "agent"
    model: str = ""
    description: str = ""
    tools: list[str] = []
    handoffs: list[str] = []


class AgentList(_Answer):
    """All agents, by name."""

    agents: list[AgentInfo]


class RunStatus(StrEnum):
    """Where a run is; all but `running` are final."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunInfo(_Answer):
    """One run: what an agent does with one message of the user.

    Attributes:
        id: For the run's other addresses.
        session_id: The conversation it belongs to.
        agent: Who was asked.
        status: Where it is.
        input, images: What the user said, and the media types of the images that came with it.
        output: The answer, once there is one; a JSON object when the agent's output is one.
        error: Why it failed.
        stop_reason: `completed`, or what ended it early, as in `orbiter.types.RunResult`.
        usage, steps: Tokens of all its model calls, and how many these were.
        last_event: `seq` of its latest event.
        created_at, ended_at: When it began and when it ended, UTC.
        input_requests: What it waits for; the next message names the first by `request_id`.
    """

    id: str
    session_id: str
    agent: str
    status: RunStatus
    input: str
    images: list[str] = []
    output: Any = None
    error: str | None = None
    stop_reason: StopReason | None = None
    usage: Usage = Usage()
    steps: int = 0
    last_event: int = 0
    created_at: datetime
    ended_at: datetime | None = None
    input_requests: list[InputRequest] = []


class SessionInfo(_Answer):
    """A conversation with one agent; `title` is how it began."""

    id: str
    agent: str
    title: str = ""
    created_at: datetime
    updated_at: datetime
    active_run: str | None = None


class SessionDetail(SessionInfo):
    """A conversation with the messages of its finished runs; `path` is where a file of one is."""

    runs: list[RunInfo] = []
    messages: list[dict[str, Any]] = []


class SessionList(_Answer):
    """A page of sessions, the latest first; `next` is the cursor of the page after it."""

    sessions: list[SessionInfo]
    total: int
    next: str | None = None


class NewSession(_Request):
    """Begin a conversation with an agent."""

    agent: str


class NewRun(_Request):
    """Say words, or images as `data:` URLs; where a session waits, it answers `request_id`."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [
        {"required": ["input"], "properties": {"input": {"minLength": 1}}},
        {"required": ["images"], "properties": {"images": {"minItems": 1}}},
    ]})  # fmt: skip

    input: str = Field(default="", max_length=MAX_INPUT)
    images: Images = []
    request_id: RequestId = None


class NewAgentRun(NewRun):
    """Ask an agent; without `session_id` in a new session."""

    session_id: str | None = None


class PageQuery(_Request):
    """Which page of a list: `limit` entries behind the cursor `after`."""

    limit: int = Field(default=100, ge=1, le=1000)
    after: str | None = Field(default=None, pattern=CURSOR)


class TaskPageQuery(PageQuery):
    """Which page of the tasks, and of those in which state."""

    state: TaskState | None = None


class EventsQuery(_Request):
    """From where to follow; the header `Last-Event-ID` outranks it."""

    after: int = Field(default=0, ge=0, le=2**53)


class NewTask(_Request):
    """Hand in a task; `agent` is one of the served agents."""

    input: Text
    agent: str
    system_prompt: str | None = Field(default=None, max_length=MAX_INPUT)


class Answer(_Request):
    """The answer to a task's question; `request_id` is that of the `input_request` it is for."""

    text: Text
    request_id: RequestId = None


class TaskInfo(_Answer):
    """A task, as far as a list needs it: `input` is cut off after 200 characters there."""

    id: str
    state: TaskState
    agent: str = ""
    input: str
    created_at: datetime
    updated_at: datetime


class TaskDetail(TaskInfo):
    """A task with all that is known of it; `input_request` is what a tool of it waits for."""

    result: str | None = None
    error: str | None = None
    question: str | None = None
    input_request: InputRequest | None = None


class TaskPage(_Answer):
    """A page of tasks, the latest first; `next` is the cursor of the page after it."""

    tasks: list[TaskInfo]
    total: int
    next: str | None = None


class Health(_Answer):
    """`ok`, or why not."""

    status: str
    active_runs: int = 0
