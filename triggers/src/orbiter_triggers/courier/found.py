"""What a poll finds as GitHub's webhooks would have told it, so that both make the same task.

A list has less than a webhook's payload: the issue of a comment, the files of a push. What is
missing is asked for, once for each round.
"""

from typing import Any, Final, NamedTuple
from urllib.parse import quote

from orbiter_contracts.trigger_events import MAX_PATHS
from orbiter_triggers.courier.client import Github
from orbiter_triggers.courier.lists import ACTIONS, Listing, kept, number_in_url
from orbiter_triggers.courier.rate_limits import RESERVED
from orbiter_triggers.events.filters import has_command, may_fire
from orbiter_triggers.events.github import github_fields, is_program
from orbiter_triggers.events.values import inside, text
from orbiter_triggers.models import TriggerSpec

Object = dict[str, Any]
_PUSHES: Final = frozenset(
    {"push", "force_push", "branch_creation", "pr_merge", "merge_queue_merge"}
)
_NOTHING: Final = "0" * 40
_HEADS: Final = "refs/heads/"


class Found(NamedTuple):
    """An event: its name as the header of a webhook has it, and its fields."""

    name: str
    fields: Object


class Finder:
    """Finds the events of one repository, for one trigger, in one round.

    Args:
        github: The API.
        repository: As OWNER/NAME.
        spec: What the trigger waits for.
    """

    def __init__(self, github: Github, repository: str, spec: TriggerSpec) -> None:
        self._github = github
        self._repository = repository
        self._filters = spec.filters
        self._asked: dict[str, Any] = {}

    async def events(self, listing: Listing, item: Object) -> list[Found]:
        """The events that an item of a list is.

        Raises:
            GithubBusyError: Not now.
            GithubError: What belongs to it is not there.
        """
        if listing.name == "issues":
            return await self._opened(item)
        if listing.name == "events":
            return await self._acted(item)
        if listing.name == "pushes":
            return await self._pushed(item)
        return await self._commented(listing, item)

    async def _opened(self, item: Object) -> list[Found]:
        name, subject = await self._subject(item)
        if not may_fire(f"{name}.opened", self._filters):
            return []
        return [self._made(name, "opened", item.get("user"), subject)]

    async def _acted(self, item: Object) -> list[Found]:
        action, issue = text(item, "event"), item.get("issue")
        name = "pull_request" if isinstance(inside(issue, "pull_request"), dict) else "issues"
        wanted = action in ACTIONS and may_fire(f"{name}.{action}", self._filters)
        if not wanted or not isinstance(issue, dict):
            return []
        name, subject = await self._subject(issue)
        return [self._made(name, action, item.get("actor"), subject)]

    async def _commented(self, listing: Listing, item: Object) -> list[Found]:
        command = self._filters.comment
        if command and not has_command(text(item, "body"), command):
            return []
        # Nothing is asked about what starts nothing.
        if is_program(item.get("user"), item, text(item, "body")):
            return []
        on_pull = listing.name == "reviews"
        number = number_in_url(item, "pull_request_url" if on_pull else "issue_url")
        if number is None:
            return []
        kind, name = ("pulls", "pull_request") if on_pull else ("issues", "issue")
        subject = {name: await self._get(f"/{kind}/{number}"), "comment": item}
        event = "pull_request_review_comment" if on_pull else "issue_comment"
        return [self._made(event, "created", item.get("user"), subject)]

    async def _pushed(self, item: Object) -> list[Found]:
        ref, after, actor = text(item, "ref"), text(item, "after"), item.get("actor")
        gone = not after or after == _NOTHING
        if text(item, "activity_type") not in _PUSHES or gone or not ref.startswith(_HEADS):
            return []
        found = list[Found]()
        if may_fire("push", self._filters):
            found.append(await self._push(item, ref, after))
        if may_fire("pull_request.synchronize", self._filters):
            owner, branch = self._repository.partition("/")[0], ref.removeprefix(_HEADS)
            query = {"head": f"{owner}:{branch}", "state": "open"}
            pulls = await self._get("/pulls", query)
            for pull in pulls if isinstance(pulls, list) else []:
                # Of several pushes the last one counts: the others are in it.
                if text(pull, "head", "sha") == after:
                    made = self._made("pull_request", "synchronize", actor, {"pull_request": pull})
                    found.append(made)
        return found

    async def _push(self, item: Object, ref: str, after: str) -> Found:
        before = text(item, "before")
        if before and before != _NOTHING and text(item, "activity_type") != "branch_creation":
            told = await self._get(f"/compare/{quote(before)}...{quote(after)}")
            commits = inside(told, "commits")
            last = commits[-1] if isinstance(commits, list) and commits else None
        else:
            told = last = await self._get(f"/commits/{quote(after)}")
        files = inside(told, "files")
        paths = [text(one, "filename") for one in files] if isinstance(files, list) else []
        more = {
            "ref": ref,
            "after": after,
            "compare": text(told, "html_url"),
            "head_commit": {"message": text(last, "commit", "message")},
            "commits": [{"modified": paths}],
        }
        made = self._made("push", "", item.get("actor"), more)
        # GitHub compares 300 files at most.
        return made._replace(fields=made.fields | {"paths_cut": len(paths) >= MAX_PATHS})

    async def _subject(self, issue: Object) -> tuple[str, Object]:
        """An issue; or the pull request that it is, of which only that has the branch."""
        if not isinstance(issue.get("pull_request"), dict):
            return "issues", {"issue": issue}
        return "pull_request", {"pull_request": await self._get(f"/pulls/{text(issue, 'number')}")}

    def _made(self, name: str, action: str, sender: Any, subject: Object) -> Found:
        payload = {
            **subject,
            "action": action,
            "sender": sender,
            "repository": {"full_name": self._repository},
        }
        return Found(name, github_fields(name, payload))

    async def _get(self, path: str, query: dict[str, str] | None = None) -> Any:
        known = f"{path} {query or ''}"
        if known not in self._asked:
            whole = f"/repos/{self._repository}{path}"
            answer = await self._github.get(whole, query, reserved=RESERVED)
            self._asked[known] = _without_many(answer.body)
        return self._asked[known]


def _without_many(value: Any) -> Any:
    """`kept` keeps the first hundred of a list: of files there may be more, of commits the last."""
    made = kept(value)
    files = inside(value, "files")
    if isinstance(made, dict) and isinstance(files, list):
        made["files"] = [{"filename": text(one, "filename")} for one in files[:MAX_PATHS]]
    commits = inside(value, "commits")
    if isinstance(made, dict) and isinstance(commits, list):
        made["commits"] = [kept(one) for one in commits[-1:]]
    return made
