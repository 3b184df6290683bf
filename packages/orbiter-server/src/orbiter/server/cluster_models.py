"""The cluster's objects, a page of them and one in detail, and what is asked of a transcript."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from orbiter.server.models import ClusterObject


class ClusterDetail(ClusterObject):
    """One of them with what is known of it; texts are cut off, what is unknown is null."""

    prompt: str = ""
    model: str = ""
    reason: str = ""
    progress: str = ""
    summary: str = ""
    commit: str = ""
    pull_request: str = ""
    question: str = ""
    disruptions: int = 0
    turns: int = 0
    cost_usd: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    over: bool = False


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
