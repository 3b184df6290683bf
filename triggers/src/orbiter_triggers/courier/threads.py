"""Brings what GitHub shows of one task at a time to where it should be: answer, result, comment."""

import time
from collections.abc import Callable
from typing import Any, Final

import structlog

from orbiter_contracts.outcome import FINAL_PHASES
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.names import Key, label_of, owner_of
from orbiter_operator.runtime.reconciler import WorkQueue
from orbiter_operator.streams.client import RETRIED
from orbiter_triggers.courier.answers import AnswerTooLargeError, GithubError
from orbiter_triggers.courier.cache import CourierCache
from orbiter_triggers.courier.client import Github
from orbiter_triggers.courier.comment_text import comment_text
from orbiter_triggers.courier.comments import Comments, digest_of
from orbiter_triggers.courier.conversation import TooManyCommentsError
from orbiter_triggers.courier.credentials import NoCredentialError
from orbiter_triggers.courier.rate_limits import GithubBusyError
from orbiter_triggers.courier.records import REFUSED, Record, Records
from orbiter_triggers.courier.replies import Replies
from orbiter_triggers.courier.results import Results
from orbiter_triggers.courier.targets import MaySee, target_of
from orbiter_triggers.courier.tasks import Question, Task, read_task
from orbiter_triggers.naming import KIND, TRIGGER

log = structlog.get_logger(__name__)
EDIT_SECONDS: Final = 30.0
"""At least so long a comment says the same, but for a new phase."""
WAITING_SECONDS: Final = 600.0
"""The same while a task waits for what it has waited for: places in line change all the time."""
REPLY_SECONDS: Final = 30.0
"""How often a thread is looked at in which a task asks something."""
REFUSED_SECONDS: Final = 600.0


class Threads:
    """Everything that GitHub is told about tasks.

    Args:
        queue: The keys of tasks about which something may have changed.
        cache: Triggers and tasks.
        kube: The API client.
        github: GitHub's.
        api: GitHub's address.
        records: What was written.
        may_see: Whether a namespace has a repository.
        allowed: Raises unless this replica is the active one.
        answers: Whether comments answer questions.
        link: The address of a task, with {namespace} and {name} in it; "" for none.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        queue: WorkQueue[Key],
        cache: CourierCache,
        kube: Kube,
        github: Github,
        api: str,
        records: Records,
        may_see: MaySee,
        allowed: Callable[[], None],
        answers: bool,
        link: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._cache = cache
        self._records = records
        self._may_see = may_see
        self._answers = answers
        self._link = link
        self._clock = clock
        self._comments = Comments(github)
        self._results = Results(github, api)
        self._replies = Replies(cache, kube, github, allowed)
        self._edited: dict[str, float] = {}

    async def run(self) -> None:
        """Work for ever."""
        await self._queue.work(self.handle)

    async def handle(self, key: Key) -> float | None:
        """One pass over a task, through every failure; returns after how long there is another."""
        try:
            pause = await self._reconcile(key)
            self._queue.succeeded(key)
        except GithubBusyError as error:
            log.info("put off", task=str(key), why=str(error))
            pause = error.seconds
        except (GithubError, AnswerTooLargeError, TooManyCommentsError) as error:
            log.warning("GitHub is not told", task=str(key), why=str(error))
            pause = REFUSED_SECONDS
        except (*RETRIED, NoCredentialError) as error:
            log.info("tried again", task=str(key), error=repr(error))
            return self._queue.failed(key)
        except Exception:
            # What nobody has thought of is this task's affair and no other's.
            log.exception("GitHub is not told", task=str(key))
            pause = REFUSED_SECONDS
        self._queue.requeue_at(key, None if pause is None else self._clock() + pause)
        return pause

    async def _reconcile(self, key: Key) -> float | None:
        for old in self._cache.tasks.removed(key):
            await self._forget(key, old)
        task = self._task(key)
        if task is None:
            return None
        where = key.namespace, task.target.uid, task.uid
        record = await self._records.read(*where)
        asks = self._answers and task.asks is not None and task.number is not None
        if asks and await self._replies.look(task, self._beside(task)):
            return 0.0
        told = await self._tell_results(task, record)
        if told != record:
            await self._records.write(*where, told)
        record, pause = await self._tell(task, told)
        if record != told:
            await self._records.write(*where, record)
        pauses = [pause, REPLY_SECONDS if asks else None]
        return min((one for one in pauses if one is not None), default=None)

    async def _tell_results(self, task: Task, record: Record) -> Record:
        pull = record.pull or await self._results.pull(task)
        state = await self._results.state(task, self._address(task), record.state)
        return record.model_copy(update={"pull": pull, "state": state})

    async def _tell(self, task: Task, record: Record) -> tuple[Record, float | None]:
        """The comment; and after how long it may be edited again, when it should be."""
        if task.number is None or record.gone:
            return record, None
        pull = "" if record.pull == REFUSED else record.pull
        link = self._address(task)
        text = comment_text(task, answers=self._answers, link=link, pull=pull)
        if digest_of(text) == record.digest:
            return record, None
        if (wait := self._wait(task, record)) > 0:
            return record, wait
        record = await self._comments.write(task, task.number, text, record)
        self._edited[task.uid] = self._clock()
        if task.status.phase in FINAL_PHASES:
            del self._edited[task.uid]
        return record, None

    def _wait(self, task: Task, record: Record) -> float:
        """For how many seconds the comment still says what it says."""
        if record.phase != task.status.phase:
            return 0.0
        now, waits = self._clock(), record.phase == "Pending"
        same = waits and record.reason == (task.status.reason or "")
        # Who has just begun does not know when it was written, and there may be hundreds.
        edited = self._edited.setdefault(task.uid, now if same else float("-inf"))
        return edited + (WAITING_SECONDS if same else EDIT_SECONDS) - now

    def _task(self, key: Key) -> Task | None:
        obj = self._cache.tasks.get(key)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return None
        trigger = Key(key.namespace, label_of(obj, TRIGGER), KIND)
        target = target_of(trigger, self._cache.triggers.get(trigger), self._may_see)
        return read_task(key, obj, target)

    def _beside(self, task: Task) -> dict[str, Question | None]:
        """The names of all tasks of the thread of this one, and what each asks."""
        found = dict[str, Question | None]()
        for key in self._cache.tasks:
            other = self._task(key) if key.namespace == task.key.namespace else None
            same = other is not None and other.number == task.number
            if other is not None and same and other.target.repository == task.target.repository:
                found[key.name] = other.asks
        return found

    def _address(self, task: Task) -> str:
        names = {"{namespace}": task.key.namespace, "{name}": task.key.name}
        link = self._link
        for name, value in names.items():
            link = link.replace(name, value)
        return link

    async def _forget(self, key: Key, old: dict[str, Any]) -> None:
        owner, uid = owner_of(old, KIND), old["metadata"]["uid"]
        if owner is not None:
            await self._records.forget(key.namespace, owner[1], uid)
        self._edited.pop(uid, None)
        self._cache.tasks.tidied(key, uid)
