"""What GitHub is told of a task beside its comment: a pull request, and how its commit does.

Both are done as often as need be and are there once: a pull request that exists is the one that was
wanted, and of a commit the latest state of a name counts.
"""

from http import HTTPStatus
from typing import Final

import structlog

from orbiter_contracts.bounds import one_line
from orbiter_triggers.courier.answers import GithubError
from orbiter_triggers.courier.client import Github
from orbiter_triggers.courier.comment_text import mark, quoted, unmeant
from orbiter_triggers.courier.records import REFUSED
from orbiter_triggers.courier.tasks import Task, is_in_repository
from orbiter_triggers.events.values import text

log = structlog.get_logger(__name__)
_TITLE: Final = 120
_DESCRIPTION: Final = 140
_STATES: Final = {"Completed": "success", "Failed": "failure", "Cancelled": "error"}


class Results:
    """Tells GitHub of what tasks have come to.

    Args:
        github: The API.
        api: Its address, which says of which GitHub a repository is.
    """

    def __init__(self, github: Github, api: str) -> None:
        self._github = github
        self._api = api

    async def pull(self, task: Task) -> str:
        """The pull request of what a task has pushed.

        Returns:
            Its address; "" when there is nothing to pull, `REFUSED` when GitHub does not have it.

        Raises:
            GithubBusyError: Not now.
        """
        git, result = task.spec.workspace.git, task.status.result
        pushed = git.push == "Always" and git.branch and result.commit_sha and not result.pr_url
        if task.status.phase != "Completed" or not pushed or git.branch is None:
            return ""
        if not is_in_repository(git.url, self._api, task.target.repository):
            return ""
        try:
            return await self._open(task, git.branch, git.ref)
        except GithubError as error:
            log.warning("no pull request", task=str(task.key), branch=git.branch, why=str(error))
            return REFUSED

    async def _open(self, task: Task, branch: str, ref: str | None) -> str:
        home = f"/repos/{task.target.repository}"
        base = ref or text((await self._github.get(home)).body, "default_branch")
        if base == branch:
            return REFUSED
        summary = task.status.result.summary or ""
        about = f"For #{task.number}. " if task.number is not None else ""
        body = {
            "title": unmeant(one_line(summary, _TITLE)) or f"AgentTask {task.key.name}",
            "head": branch,
            "base": base,
            "body": f"{mark(task.uid)}\n\n{about}Made by AgentTask `{task.key.name}`.\n\n"
            f"{quoted(summary)}\n",
        }
        try:
            made = await self._github.send("POST", f"{home}/pulls", body)
            return text(made.body, "html_url") or REFUSED
        except GithubError as error:
            if error.status != HTTPStatus.UNPROCESSABLE_ENTITY or "already exists" not in str(
                error
            ):
                raise
        owner = task.target.repository.partition("/")[0]
        query = {"head": f"{owner}:{branch}", "state": "open"}
        found = (await self._github.get(f"{home}/pulls", query)).body
        return text(found[0], "html_url") if isinstance(found, list) and found else REFUSED

    async def state(self, task: Task, link: str, before: str) -> str:
        """Say how the commit does that a task came of; returns what was said.

        Args:
            task: The task.
            link: Where there is more of it; "" for nowhere.
            before: What was said last.

        Raises:
            GithubBusyError: Not now.
        """
        state = _STATES.get(task.status.phase, "pending")
        if not task.commit or before in (state, REFUSED):
            return before
        told = task.status.message or task.status.phase
        body = {
            "state": state,
            "context": f"orbiter/{task.target.key.name}",
            "description": one_line(told, _DESCRIPTION),
            **({"target_url": link} if link else {}),
        }
        path = f"/repos/{task.target.repository}/statuses/{task.commit}"
        try:
            await self._github.send("POST", path, body)
        except GithubError as error:
            log.warning("no status", task=str(task.key), commit=task.commit, why=str(error))
            return REFUSED
        return state
