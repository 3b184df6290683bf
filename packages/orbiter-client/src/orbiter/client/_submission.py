"""How a request makes one task, however often it is made."""

from orbiter.client.changes import (
    DEFAULT_PROFILE,
    REQUEST,
    name_of_key,
    names_no_agent,
    request_digest,
    task_manifest,
)
from orbiter.client.contract import TaskApi
from orbiter.client.errors import ClientError
from orbiter.client.models import NewTask, Submitted, Task
from orbiter.client.objects import part_of, read_task


async def submit(api: TaskApi, new: NewTask, namespace: str, key: str | None) -> Submitted:
    """Make a task; see `TaskClient.submit`. Its name is what makes it happen once."""
    if key is not None and new.name is not None:
        raise ClientError("invalid", "the key names the task: leave `name` out", field="name")
    name = None if key is None else name_of_key(key)
    digest = None if key is None else request_digest(new)
    wanted = await _with_profile(api, new, namespace)
    try:
        made = await api.create(namespace, task_manifest(wanted, name=name, digest=digest))
    except ClientError as error:
        if error.code != "exists" or name is None or digest is None:
            raise
        return Submitted(task=await _same(api, namespace, name, new, digest), created=False)
    return Submitted(task=read_task(made), created=True)


async def _with_profile(api: TaskApi, new: NewTask, namespace: str) -> NewTask:
    """Return what is wanted with the profile of tasks that name none, if there is one."""
    if not names_no_agent(new):
        return new
    if await api.has_profile(namespace, DEFAULT_PROFILE):
        return new.model_copy(update={"profile": DEFAULT_PROFILE})
    if await api.has_profile(None, DEFAULT_PROFILE):
        return new.model_copy(update={"cluster_profile": DEFAULT_PROFILE})
    return new


async def _same(api: TaskApi, namespace: str, name: str, new: NewTask, digest: str) -> Task:
    """Return the task that a key has named, if it is of this request."""
    found = await api.get(namespace, name)
    if found is None:
        raise ClientError("conflict", f"task {namespace}/{name} was deleted just now: try again")
    kept = part_of(part_of(found, "metadata"), "annotations").get(REQUEST)
    # whoever may make tasks may write annotations: the prompt has to be ours, too
    if kept != digest or part_of(found, "spec").get("prompt") != new.prompt:
        raise ClientError(
            "other_task", f"task {namespace}/{name} was made of another request: a new request "
            "needs a new idempotency key", field="Idempotency-Key",
        )  # fmt: skip
    return read_task(found)
