"""GitHub's webhook payloads as events, by their published fields. Total over any JSON object.

Who did it is the payload's `sender`. Whether they may write to the repository is told only for the
author of what the event is about (`author_association`), so it is known when these are the same
person. Three things GitHub lets nobody do who may not: labels are given by people with the triage
role at least, but for those that an issue's form gives; a push is one of somebody with write
access, and so are releases.
"""

from typing import Any, Final

from orbiter_contracts.trigger_events import MAX_LABELS, MAX_PATHS, OWN_MARK
from orbiter_triggers.events.values import inside, text

WRITERS: Final = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Who may write, of those that `author_association` names."""
_HEADS: Final = ("refs/heads/", "refs/tags/")
_BY_TRIAGE: Final = frozenset({"labeled", "unlabeled", "assigned", "unassigned", "milestoned"})
_BY_PUSH: Final = frozenset({"push", "release", "create", "delete"})
_COMMENTS: Final = {
    "issue_comment": "comment",
    "pull_request_review_comment": "comment",
    "pull_request_review": "review",
    "commit_comment": "comment",
    "discussion_comment": "comment",
}
"""Events about a comment, and where that is."""
_SUBJECTS: Final = ("pull_request", "issue", "discussion", "release", "workflow_run")


def github_fields(event: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The fields of an event of GitHub.

    Args:
        event: Its name, which the header X-GitHub-Event has.
        payload: The body.
    """
    action = text(payload, "action")
    spoken = inside(payload, _COMMENTS.get(event, ""))
    subject: Any = next(
        (payload[name] for name in _SUBJECTS if isinstance(payload.get(name), dict)), {}
    )
    comment = text(spoken, "body")
    found = {
        "kind": f"{event}.{action}" if action else event,
        "repository": text(payload, "repository", "full_name"),
        "author": text(payload, "sender", "login"),
        "program": is_program(inside(payload, "sender"), spoken, comment),
        "writer": _may_write(event, action, payload, spoken, subject),
        "number": text(subject, "number"),
        "title": text(subject, "title") or text(subject, "name") or text(subject, "display_title"),
        "body": text(subject, "body"),
        "url": text(spoken, "html_url") or text(subject, "html_url") or text(payload, "compare"),
        "labels": _labels(subject),
        "branch": text(subject, "head", "ref") or text(subject, "head_branch"),
        "commit": text(subject, "head", "sha") or text(subject, "head_sha"),
        "comment": comment,
        "comment_id": text(spoken, "id"),
    }
    return found | (_pushed(payload) if event == "push" else {})


def _pushed(payload: dict[str, Any]) -> dict[str, Any]:
    ref, paths = text(payload, "ref"), dict[str, None]()
    commits = payload.get("commits")
    for commit in commits if isinstance(commits, list) else ():
        for kind in ("added", "modified", "removed"):
            files = inside(commit, kind)
            paths.update((one, None) for one in _some(files) if isinstance(one, str))
    head = next((ref.removeprefix(one) for one in _HEADS if ref.startswith(one)), ref)
    return {
        "branch": head,
        "commit": text(payload, "after"),
        "title": text(payload, "head_commit", "message").partition("\n")[0],
        "body": text(payload, "head_commit", "message"),
        "paths": tuple(paths),
        # GitHub tells of 2,048 commits at most, and of those by others it tells no files.
        "paths_cut": len(paths) > MAX_PATHS,
    }


def _some(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _labels(subject: Any) -> tuple[str, ...]:
    named = [text(one, "name") for one in _some(inside(subject, "labels"))]
    return tuple(filter(None, named))[:MAX_LABELS]


def is_program(sender: Any, spoken: Any, comment: str) -> bool:
    """Whether no person did something, or Orbiter with a person's account.

    Args:
        sender: The account.
        spoken: The comment that it is about; None for none.
        comment: Its text.
    """
    login = text(sender, "login")
    by_app = inside(spoken, "performed_via_github_app") is not None
    return (
        not login
        or text(sender, "type") != "User"
        or login.endswith("[bot]")
        or by_app
        or comment.startswith(OWN_MARK)
    )


def _may_write(
    event: str, action: str, payload: dict[str, Any], spoken: Any, subject: Any
) -> bool | None:
    if event in _BY_PUSH:
        return True
    said = spoken if event in _COMMENTS else subject
    sender = text(payload, "sender", "login")
    if sender and sender == text(said, "user", "login"):
        return text(said, "author_association") in WRITERS
    if action in _BY_TRIAGE and event in ("issues", "pull_request"):
        return True
    if event == "workflow_run":
        home, head = (
            text(subject, name, "full_name") for name in ("repository", "head_repository")
        )
        return bool(head) and head == (home or text(payload, "repository", "full_name"))
    return None
