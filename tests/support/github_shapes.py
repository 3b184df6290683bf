"""GitHub's objects with all of their fields, as its pages on webhooks and its REST API list them.

`fake_github` keeps what the courier goes by; what is added here is what a payload of GitHub's is
mostly made of: addresses, counts, and who may what.
"""

import hashlib
from typing import Any

from support.webhooks import REPOSITORY

Object = dict[str, Any]
OWNER, NAME = REPOSITORY.split("/")
_API, _WEB = "https://api.git.example.com", "https://git.example.com"
_OF_USERS = (
    *("followers", "following{/other_user}", "gists{/gist_id}", "starred{/owner}{/repo}"),
    *("subscriptions", "orgs", "repos", "events{/privacy}", "received_events"),
)
_OF_REPOSITORIES = (
    *("forks", "keys{/key_id}", "collaborators{/collaborator}", "teams", "hooks"),
    *("issues/events{/number}", "events", "assignees{/user}", "branches{/branch}", "tags"),
    *("git/blobs{/sha}", "git/tags{/sha}", "git/refs{/sha}", "git/trees{/sha}", "statuses/{sha}"),
    *("languages", "stargazers", "contributors", "subscribers", "subscription", "commits{/sha}"),
    *("git/commits{/sha}", "comments{/number}", "issues/comments{/number}", "contents/{+path}"),
    *("compare/{base}...{head}", "merges", "{archive_format}{/ref}", "downloads"),
    *("issues{/number}", "pulls{/number}", "milestones{/number}", "labels{/name}"),
    *("notifications{?since,all,participating}", "releases{/id}", "deployments"),
)
_CALLED = {
    "git/blobs": "blobs",
    "git/trees": "trees",
    "issues/events": "issue_events",
    "issues/comments": "issue_comment",
    "": "archive",
}
"""Links that are not called what they lead to."""
_HAS = ("issues", "projects", "downloads", "wiki", "pages", "discussions")
_ALLOWS = ("forking", "merge_commit", "squash_merge", "rebase_merge", "auto_merge")
_REACTIONS = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:7], 16)


def _node(kind: str, number: int) -> str:
    return f"{kind}_kwDO{number:012x}"


def user(login: str, kind: str = "User") -> Object:
    """An account, in its short form of 19 fields."""
    number, home = _number(login), f"{_API}/users/{login}"
    links = {f"{one.partition('{')[0].strip('/')}_url": f"{home}/{one}" for one in _OF_USERS}
    return {
        "login": login,
        "id": number,
        "node_id": _node("U", number),
        "avatar_url": f"{_WEB}/avatars/u/{number}?v=4",
        "gravatar_id": "",
        "url": home,
        "html_url": f"{_WEB}/{login}",
        "organizations_url": links.pop("orgs_url"),
        **links,
        "type": kind,
        "user_view_type": "public",
        "site_admin": False,
    }


def repository() -> Object:
    """The repository, as every payload has it."""
    number, home = _number(REPOSITORY), f"{_API}/repos/{REPOSITORY}"
    links = {}
    for one in _OF_REPOSITORIES:
        path = one.partition("{")[0].strip("/")
        links[f"{_CALLED.get(path, path.replace('/', '_'))}_url"] = f"{home}/{one}"
    return {
        "id": number,
        "node_id": _node("R", number),
        "name": NAME,
        "full_name": REPOSITORY,
        "private": True,
        "owner": user(OWNER, "Organization"),
        "html_url": f"{_WEB}/{REPOSITORY}",
        "description": "Where the baskets are.",
        "fork": False,
        "url": home,
        **links,
        "created_at": "2019-05-15T15:19:25Z",
        "updated_at": "2026-11-20T15:20:34Z",
        "pushed_at": "2026-11-20T15:20:33Z",
        "git_url": f"git://git.example.com/{REPOSITORY}.git",
        "ssh_url": f"git@git.example.com:{REPOSITORY}.git",
        "clone_url": f"{_WEB}/{REPOSITORY}.git",
        "svn_url": f"{_WEB}/{REPOSITORY}",
        "homepage": None,
        "size": 1042,
        **dict.fromkeys(("stargazers_count", "watchers_count", "forks_count", "watchers"), 3),
        "language": "Ruby",
        **{f"has_{one}": one != "discussions" for one in _HAS},
        **{f"allow_{one}": True for one in _ALLOWS},
        "archived": False,
        "disabled": False,
        "open_issues_count": 2,
        "license": None,
        "is_template": False,
        "web_commit_signoff_required": False,
        "topics": ["shop", "baskets"],
        "visibility": "private",
        "forks": 3,
        "open_issues": 2,
        "default_branch": "main",
        "custom_properties": {},
    }


def organization() -> Object:
    """The owner, as an organization."""
    home, number = f"{_API}/orgs/{OWNER}", _number(OWNER)
    links = ("repos", "events", "hooks", "issues", "members{/member}", "public_members{/member}")
    return {
        "login": OWNER,
        "id": number,
        "node_id": _node("O", number),
        "url": home,
        **{f"{one.partition('{')[0]}_url": f"{home}/{one}" for one in links},
        "avatar_url": f"{_WEB}/avatars/u/{number}?v=4",
        "description": "",
    }


def label(name: str) -> Object:
    number = _number(name)
    address = f"{_API}/repos/{REPOSITORY}/labels/{name}"
    known = {"id": number, "node_id": _node("LA", number), "url": address, "name": name}
    return known | {"color": "d73a4a", "default": False, "description": "What to do with it"}


def reactions(address: str) -> Object:
    return {"url": f"{address}/reactions", "total_count": 0, **dict.fromkeys(_REACTIONS, 0)}


def issue(number: int, author: str) -> Object:
    """What an issue has beside what `fake_github` writes."""
    home, many = f"{_API}/repos/{REPOSITORY}/issues/{number}", ("labels{/name}", "comments")
    return {
        "url": home,
        "repository_url": f"{_API}/repos/{REPOSITORY}",
        **{f"{one.partition('{')[0]}_url": f"{home}/{one}" for one in (*many, "events")},
        "node_id": _node("I", number),
        "user": user(author),
        "state": "open",
        "locked": False,
        **dict.fromkeys(("assignee", "milestone", "closed_at", "active_lock_reason")),
        "assignees": [],
        "comments": 0,
        "reactions": reactions(home),
        "timeline_url": f"{home}/timeline",
        "performed_via_github_app": None,
        "state_reason": None,
        "sub_issues_summary": {"total": 0, "completed": 0, "percent_completed": 0},
        "type": None,
    }


def pull(number: int, author: str, branch: str, sha: str) -> Object:
    """What a pull request has beside what an issue has."""
    home = f"{_API}/repos/{REPOSITORY}/pulls/{number}"
    ends = {
        name: {
            "label": f"{OWNER}:{ref}",
            "ref": ref,
            "sha": commit,
            "user": user(OWNER, "Organization"),
            "repo": repository(),
        }
        for name, ref, commit in (("head", branch, sha), ("base", "main", "0" * 40))
    }
    return {
        "url": home,
        "node_id": _node("PR", number),
        "diff_url": f"{_WEB}/{REPOSITORY}/pull/{number}.diff",
        "patch_url": f"{_WEB}/{REPOSITORY}/pull/{number}.patch",
        "issue_url": home.replace("pulls", "issues"),
        "user": user(author),
        **dict.fromkeys(("merged_at", "merge_commit_sha", "merged_by", "mergeable", "auto_merge")),
        "requested_reviewers": [],
        "requested_teams": [],
        **{
            f"{one}_url": f"{home}/{one}"
            for one in ("commits", "review_comments", "comments", "statuses")
        },
        **ends,
        "_links": {one: {"href": f"{home}/{one}"} for one in ("self", "html", "issue", "commits")},
        "draft": False,
        "merged": False,
        "mergeable_state": "unknown",
        "maintainer_can_modify": False,
        **dict.fromkeys(("commits", "additions", "deletions", "changed_files"), 1),
    }


def comment(identifier: int, number: int, author: Object) -> Object:
    """What a comment has beside what `fake_github` writes."""
    address = f"{_API}/repos/{REPOSITORY}/issues/comments/{identifier}"
    return {
        "url": address,
        "html_url": f"{_WEB}/{REPOSITORY}/issues/{number}#issuecomment-{identifier}",
        "node_id": _node("IC", identifier),
        "user": author,
        "reactions": reactions(address),
    }


def app(slug: str) -> Object:
    """The App that a comment was written through."""
    number = _number(slug)
    known = {"id": number, "slug": slug, "node_id": _node("A", number), "name": slug}
    more = {"owner": user(OWNER, "Organization"), "description": "", "events": []}
    rights = {"issues": "write", "metadata": "read", "pull_requests": "write"}
    return known | more | {"html_url": f"{_WEB}/apps/{slug}", "permissions": rights}


def payload(action: str, sender: Object, **subject: Any) -> Object:
    """A webhook's body.

    Args:
        action: What has happened.
        sender: Who did it.
        **subject: To what.
    """
    home = {"repository": repository(), "organization": organization()}
    return {"action": action, **subject, **home, "sender": sender}
