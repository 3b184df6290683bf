"""What the courier has written about each task: one hash for each trigger, beside its memory."""

from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints, ValidationError
from redis.asyncio import Redis

from orbiter_contracts.queues import Keys
from orbiter_operator.kube.models import Frozen
from orbiter_triggers.courier.poll_state import KEPT_SECONDS

REFUSED: Final = "refused"
"""In the place of an address: GitHub would not have it."""
Short = Annotated[str, StringConstraints(max_length=2048)]


class Record(Frozen):
    """What is written about a task.

    Attributes:
        comment: The id of the comment; None when there is none that we know of.
        digest: Of its text.
        phase: Of the task, as the comment has it.
        reason: Of that phase.
        pull: The address of the pull request; "" for none.
        state: What the commit was last said to be; "" for nothing.
        gone: Whether somebody has deleted the comment, so that there is no other.
    """

    comment: int | None = Field(None, ge=0)
    digest: Short = ""
    phase: Short = ""
    reason: Short = ""
    pull: Short = ""
    state: Short = ""
    gone: bool = False


class Records:
    """Those of all tasks.

    Args:
        redis: A client for short commands.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def read(self, namespace: str, trigger: str, task: str) -> Record:
        """What is written about a task; an empty one for nothing.

        Args:
            namespace: Its namespace.
            trigger: The uid of its trigger.
            task: Its uid.

        Raises:
            RedisError: Redis did not answer.
        """
        key = Keys.of_namespace(namespace).trigger_comments(trigger)
        return read_record(str(await self._redis.hget(key, task) or ""))

    async def write(self, namespace: str, trigger: str, task: str, record: Record) -> None:
        """Keep it.

        Raises:
            RedisError: Redis did not answer.
        """
        key = Keys.of_namespace(namespace).trigger_comments(trigger)
        fields: dict[Any, Any] = {task: record.model_dump_json()}
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=fields)
            pipe.expire(key, KEPT_SECONDS)
            await pipe.execute()

    async def forget(self, namespace: str, trigger: str, task: str) -> None:
        """The task is gone; its comment stays.

        Raises:
            RedisError: Redis did not answer.
        """
        await self._redis.hdel(Keys.of_namespace(namespace).trigger_comments(trigger), task)


def read_record(text: str) -> Record:
    """What stands there; an empty one for what is none."""
    try:
        return Record.model_validate_json(text) if text else Record()
    except ValidationError:
        return Record()
