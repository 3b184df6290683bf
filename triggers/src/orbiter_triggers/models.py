"""AgentTrigger as the controller understands it: the spec it reads and the status it writes.

crds/agenttrigger.yaml is the authority on what each field means; unknown fields are ignored.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from orbiter_contracts.bounds import MAX_COUNT
from orbiter_contracts.webhook_signatures import Scheme
from orbiter_operator.kube.models import KubeModel, Status, Time

Outcome = Literal[
    "Fired", "Ignored", "Missed", "Suspended", "Duplicate", "Dropped", "Waiting", "Refused"
]
MOST_NOTES: Final = 10
"""How many of the latest events the status tells of."""
_MOST = 64


class GithubSource(KubeModel):
    """A repository, as OWNER/NAME."""

    repository: str


class WebhookSource(KubeModel):
    """How another program signs what it sends."""

    scheme: Literal["hmac", "standard-webhooks", "cloudevents"]


class CronSource(KubeModel):
    """A schedule."""

    schedule: str
    time_zone: str = "UTC"
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    starting_deadline_seconds: int | None = Field(None, ge=0)


class Source(KubeModel):
    """Where work comes from: one of three."""

    github: GithubSource | None = None
    webhook: WebhookSource | None = None
    cron: CronSource | None = None

    @property
    def scheme(self) -> Scheme | None:
        """How its events come in; None for a schedule, and where not one source is written."""
        if self.github is not None:
            return "github" if self.webhook is None else None
        return self.webhook.scheme if self.webhook is not None else None


KeyField = Literal["comment", "commit", "number", "delivery", "url"]
Names = Annotated[tuple[str, ...], Field(max_length=_MOST)]


class Filters(KubeModel):
    """Which events make a task; an empty list is no condition."""

    events: Names = ()
    labels: Names = ()
    branches: Names = ()
    paths: Names = ()
    comment: str | None = None
    authors: Literal["Writers", "Anyone"] = "Writers"


class TaskMetadata(KubeModel):
    """What tasks have beside the trigger's own labels and annotations."""

    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class TaskTemplate(KubeModel):
    """The task that is made. Its spec stays as the API has it: it is copied."""

    metadata: TaskMetadata = TaskMetadata()
    spec: dict[str, Any] = Field(default_factory=dict)


class HistoryLimits(KubeModel):
    """How many ended tasks are kept."""

    successful: int = Field(10, ge=0)
    failed: int = Field(10, ge=0)


class TriggerSpec(KubeModel):
    """What makes tasks, which, and what they are."""

    source: Source = Source()
    filters: Filters = Filters()
    key: KeyField | None = None
    task_template: TaskTemplate = TaskTemplate()
    max_per_hour: int = Field(20, ge=1)
    when_full: Literal["Queue", "Drop"] = "Queue"
    suspend: bool = False
    history_limits: HistoryLimits = HistoryLimits()


class Note(KubeModel):
    """One of the latest events, and what became of it."""

    time: Time
    event: str
    outcome: Outcome
    task: str | None = None
    message: str | None = None


class TriggerStatus(Status):
    """What the trigger has done."""

    active: int = 0
    last_task: str | None = None
    webhook_path: str | None = None
    waiting_events: int | None = None
    last_schedule_time: Time | None = None
    next_schedule_time: Time | None = None
    missed_runs: int = Field(0, ge=0, le=MAX_COUNT)
    last_events: Annotated[tuple[Note, ...], Field(max_length=MOST_NOTES)] = ()

    def noted(self, *notes: Note) -> tuple[Note, ...]:
        """The latest events with these, of which the last is the newest.

        One that says of the same event what is said already is left out.
        """
        found = list(self.last_events)
        for note in notes:
            same = (note.event, note.outcome, note.message)
            if all((old.event, old.outcome, old.message) != same for old in found):
                found.insert(0, note)
        return tuple(found[:MOST_NOTES])
