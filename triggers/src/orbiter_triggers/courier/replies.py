"""Answers in a thread: a comment of somebody who may write to the repository, in so many words.

Everybody may write comments on a public repository, so GitHub is asked who may write. An approval
is never taken from here: a comment does not show who has looked at what.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import structlog

from orbiter_contracts.input_requests import MAX_ANSWER_CHARACTERS
from orbiter_contracts.trigger_events import OWN_MARK
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.resources import AGENT_TASKS
from orbiter_triggers.courier.answers import GithubError
from orbiter_triggers.courier.cache import CourierCache
from orbiter_triggers.courier.client import Github
from orbiter_triggers.courier.comment_text import ANSWER, mark_of_reply, which_text
from orbiter_triggers.courier.conversation import Conversations, Said, Thread
from orbiter_triggers.courier.tasks import Question, Task
from orbiter_triggers.events.values import text

log = structlog.get_logger(__name__)
_WRITERS: Final = frozenset({"admin", "write"})
"""As GitHub's legacy field `permission` has it: who maintains is told as write."""
_LOGIN: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_MOST_JUDGED: Final = 10_000


class Replies:
    """Answers to the questions of all tasks.

    Args:
        cache: Where a task is put that was answered.
        kube: The API client.
        github: GitHub's.
        allowed: Raises unless this replica is the active one.
    """

    def __init__(
        self, cache: CourierCache, kube: Kube, github: Github, allowed: Callable[[], None]
    ) -> None:
        self._cache = cache
        self._kube = kube
        self._github = github
        self._conversations = Conversations(github)
        self._allowed = allowed
        self._etags: dict[str, str] = {}
        self._judged = dict[int, None]()

    async def look(self, task: Task, tasks: Mapping[str, Question | None]) -> bool:
        """Look for an answer to what a task asks, and give it to the task.

        Who answers without saying which of several tasks is meant is told so, once.

        Args:
            task: A task of an issue or a pull request that asks something.
            tasks: The names of all tasks of this thread, and what each asks.

        Returns:
            Whether there was one.

        Raises:
            GithubBusyError: Not now.
            GithubError: The thread is not there.
            ApiError: The API server refused.
        """
        asked, number = task.asks, task.number
        if asked is None or asked.approval or number is None:
            return False
        moment = asked.asked_at or task.created
        key = f"{task.uid}/{asked.id}"
        known = self._etags.get(key, "")
        thread = await self._conversations.since(task.target.repository, number, moment, known)
        if thread is None:
            return False
        for said in thread.comments:
            told = None if said.id in self._judged else answer_in(said, moment)
            words = "" if told is None else meant_for(told, task.key.name, tasks)
            if words == "":
                continue
            if not await self._may_write(task.target.repository, said):
                self._judge(said, "its author may not write to the repository")
            elif words is None:
                await self._say_which(task, said, thread, tasks)
                # It stays nobody's, also when only one of them asks any more.
                self._judge(said, "several ask, and it names none")
            else:
                await self._give(task, asked, said, words)
                self._etags.pop(key, None)
                return True
        self._etags = {**dict(list(self._etags.items())[-_MOST_JUDGED:]), key: thread.etag}
        return False

    async def _say_which(
        self, task: Task, said: Said, thread: Thread, tasks: Mapping[str, Question | None]
    ) -> None:
        """Reply to a comment with how to name a task, unless there is such a reply already."""
        me, ours = await self._github.login(), mark_of_reply(said.id)
        if any(one.author == me and one.body.startswith(ours) for one in thread.comments):
            return
        text = which_text(said.id, task.key.namespace, tasks)
        path = f"/repos/{task.target.repository}/issues/{task.number}/comments"
        try:
            await self._github.send("POST", path, {"body": text})
        except GithubError as error:
            # A thread that is locked, for instance. An answer further down is one all the same.
            log.warning("not said which tasks ask", comment=said.id, why=str(error))

    async def _may_write(self, repository: str, said: Said) -> bool:
        if not _LOGIN.fullmatch(said.author):
            return False
        path = f"/repos/{repository}/collaborators/{said.author}/permission"
        try:
            answer = await self._github.get(path)
        except GithubError as error:
            # Nobody of that name: a suspended stranger's comment keeps no answer from its task.
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return False
        return text(answer.body, "permission") in _WRITERS

    def _judge(self, said: Said, why: str) -> None:
        """It is no answer, and that is not asked again."""
        log.info("no answer", comment=said.id, author=said.author, why=why)
        self._judged[said.id] = None
        if len(self._judged) > _MOST_JUDGED:
            del self._judged[next(iter(self._judged))]

    async def _give(self, task: Task, asked: Question, said: Said, words: str) -> None:
        obj = self._cache.tasks.get(task.key)
        if obj is None or obj["metadata"]["uid"] != task.uid:
            return
        given: list[Any] = [*(obj["spec"].get("input") or ()), {"id": asked.id, "text": words}]
        # Onto the very object that was looked at: what others have answered meanwhile stays.
        body = {
            "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
            "spec": {"input": given},
        }
        self._allowed()
        stored = await self._kube.patch(AGENT_TASKS, task.key.namespace, task.key.name, body)
        log.info("answered", task=str(task.key), comment=said.id, author=said.author)
        self._cache.tasks.put(stored)


def answer_in(said: Said, since: datetime) -> str | None:
    """What a comment says behind the word that makes it an answer; None when it is none.

    Args:
        said: The comment.
        since: When the task has asked: GitHub's times are of whole seconds.
    """
    body = said.body.strip()
    if said.program or body.startswith(OWN_MARK) or said.created < since.replace(microsecond=0):
        return None
    words = body.removeprefix(ANSWER)
    meant = words != body and (not words or words[0].isspace())
    return words.strip() if meant else None


def meant_for(words: str, name: str, thread: Mapping[str, Question | None]) -> str | None:
    """An answer to the task of this name; "" for one to another, None for one to nobody.

    Args:
        words: What it says.
        name: The task's.
        thread: All tasks of this thread, and what each asks.
    """
    first, *rest = words.split(maxsplit=1) or [""]
    if first in thread:
        return rest[0][:MAX_ANSWER_CHARACTERS] if rest and first == name else ""
    asking = sum(asked is not None for asked in thread.values())
    return words[:MAX_ANSWER_CHARACTERS] if asking == 1 else None
