"""A task as the courier tells of it: what of an AgentTask people on GitHub see. Pure."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from orbiter_operator.kube.models import KubeModel, Time, read_model
from orbiter_operator.kube.names import Key, owner_of, parse_time
from orbiter_triggers.courier.targets import Target
from orbiter_triggers.naming import COMMIT, KIND, NUMBER

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,11}")
_SHA: Final = re.compile(r"[0-9a-f]{40,64}")
_SCP: Final = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+):(?P<path>[^/].*)")


class Question(KubeModel):
    """What a task waits for."""

    id: str
    question: str = ""
    asked_at: Time | None = None
    kind: str | None = None
    calls: tuple[dict[str, Any], ...] | None = None

    @property
    def approval(self) -> bool:
        """Whether a call of a tool is to be approved, which nobody does in a thread."""
        return self.kind not in (None, "question") or bool(self.calls)


class Result(KubeModel):
    """What the agent has reported."""

    summary: str | None = None
    commit_sha: str | None = Field(None, alias="commitSHA")
    pr_url: str | None = Field(None, alias="prURL")


class Usage(KubeModel):
    """What it has cost."""

    cost_usd: float | None = Field(None, alias="costUSD")


class TaskStatus(KubeModel):
    """What has become of it."""

    phase: str = "Pending"
    reason: str | None = None
    message: str | None = None
    progress: str | None = None
    attempts: int = 0
    duration: str | None = None
    result: Result = Result()
    usage: Usage = Usage()
    input_request: Question | None = None


class Git(KubeModel):
    """Where it works."""

    url: str = ""
    ref: str | None = None
    branch: str | None = None
    push: Literal["Never", "Always"] = "Never"


class Workspace(KubeModel):
    """The directory it works in."""

    git: Git = Git()


class Given(KubeModel):
    """An answer that it has."""

    id: str


class TaskSpec(KubeModel):
    """What of its spec matters here."""

    workspace: Workspace = Workspace()
    input: tuple[Given, ...] = ()


class Task(NamedTuple):
    """A task of a trigger that hears GitHub.

    Attributes:
        number: The issue or pull request it came of; None for none.
        commit: The commit it came of; "" for none.
    """

    key: Key
    uid: str
    created: datetime
    target: Target
    number: int | None
    commit: str
    spec: TaskSpec
    status: TaskStatus

    @property
    def asks(self) -> Question | None:
        """The question that nobody has answered yet."""
        asked = self.status.input_request
        if self.status.phase != "InputRequired" or asked is None:
            return None
        return None if any(one.id == asked.id for one in self.spec.input) else asked


def read_task(key: Key, obj: Mapping[str, Any], target: Target | None) -> Task | None:
    """An AgentTask as one of these; None when it is none of this trigger's.

    Whoever may write tasks may write the annotations: that leads to what the namespace has anyway.

    Args:
        key: Its key.
        obj: The object.
        target: The trigger of the name that its owner has; None for none.
    """
    meta = obj["metadata"]
    owner = owner_of(dict(obj), KIND)
    if target is None or owner != (target.key.name, target.uid):
        return None
    spec, wrong = read_model(TaskSpec, _filled(obj.get("spec")))
    status, wrong_too = read_model(TaskStatus, _filled(obj.get("status")))
    created = parse_time(meta["creationTimestamp"])
    if wrong or wrong_too or created is None:
        return None
    notes = meta.get("annotations") or {}
    number, commit = str(notes.get(NUMBER, "")), str(notes.get(COMMIT, ""))
    return Task(
        key=key,
        uid=meta["uid"],
        created=created,
        target=target,
        number=int(number) if _NUMBER.fullmatch(number) else None,
        commit=commit if _SHA.fullmatch(commit) else "",
        spec=spec,
        status=status,
    )


def _filled(value: Any) -> Any:
    """Without what is null, which means the same as nothing."""
    if not isinstance(value, dict):
        return value or {}
    return {name: one for name, one in value.items() if one is not None}


def is_in_repository(url: str, api: str, repository: str) -> bool:
    """Whether a git URL leads to a repository of the GitHub whose API is there.

    Args:
        url: With a scheme, or as scp has it.
        api: The API's address.
        repository: As OWNER/NAME.
    """
    home = (urlsplit(api).hostname or "").removeprefix("api.")
    try:
        parts = urlsplit(url)
        host, path = parts.hostname or "", parts.path
    except ValueError:
        return False
    if not parts.scheme or not host:
        found = _SCP.fullmatch(url)
        host, path = (found["host"], found["path"]) if found else ("", "")
    named = path.strip("/").removesuffix(".git").lower()
    return host.lower() == home and named == repository.lower()
