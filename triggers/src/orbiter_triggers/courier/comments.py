"""One comment for each task, which says how it is: found again by its mark, and edited.

The mark counts in a comment of our own alone. A comment is looked for before one is made, so who
was killed between making it and writing that down makes no second one.
"""

import hashlib
from http import HTTPStatus

import structlog

from orbiter_triggers.courier.answers import GithubError
from orbiter_triggers.courier.client import Github
from orbiter_triggers.courier.comment_text import mark
from orbiter_triggers.courier.conversation import Conversations
from orbiter_triggers.courier.records import Record
from orbiter_triggers.courier.tasks import Task
from orbiter_triggers.events.values import inside

log = structlog.get_logger(__name__)


def digest_of(text: str) -> str:
    """What stands for the text of a comment."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class Comments:
    """Those of all tasks.

    Args:
        github: The API.
    """

    def __init__(self, github: Github) -> None:
        self._github = github
        self._conversations = Conversations(github)

    async def write(self, task: Task, number: int, text: str, record: Record) -> Record:
        """Have the comment say this.

        Args:
            task: The task.
            number: Of its issue or pull request.
            text: What it should say.
            record: What is known to be written.

        Returns:
            The record of what is written now.

        Raises:
            GithubBusyError: Not now; it may be written all the same.
            GithubError: GitHub refuses.
            TooManyCommentsError: Nobody can tell whether there is one.
        """
        home = f"/repos/{task.target.repository}/issues"
        known = record.comment
        if known is None:
            known = await self._found(task, number)
        if known is None:
            made = await self._github.send("POST", f"{home}/{number}/comments", {"body": text})
            identity = inside(made.body, "id")
            known = identity if isinstance(identity, int) and identity >= 0 else None
            log.info("comment made", task=str(task.key), comment=known)
        else:
            try:
                await self._github.send("PATCH", f"{home}/comments/{known}", {"body": text})
            except GithubError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                # Whoever has deleted it does not want it.
                return record.model_copy(update={"gone": True})
        said = {"phase": task.status.phase, "reason": task.status.reason or ""}
        told = {"comment": known, "digest": digest_of(text), **said}
        return record.model_copy(update=told)

    async def _found(self, task: Task, number: int) -> int | None:
        """Our comment about a task, if there is one."""
        me = await self._github.login()
        thread = await self._conversations.since(task.target.repository, number, task.created)
        for said in thread.comments if thread is not None else ():
            if said.author == me and said.body.startswith(mark(task.uid)):
                return said.id
        return None
