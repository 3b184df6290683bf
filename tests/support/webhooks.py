"""Requests as the senders of webhooks make them: GitHub's published payloads, and signatures."""

import json
import time
import uuid
from typing import Any

from orbiter_contracts.webhook_signatures import Hook, signed_body, signed_message

Object = dict[str, Any]
MASTER_KEY = "the-master-key-of-this-test"
REPOSITORY = "octo-org/shop"
SHA = "6113728f27ae82c7b1a177c8d03f9e96e0adf246"


def person(login: str = "mona", kind: str = "User") -> Object:
    return {"login": login, "id": 21031067, "type": kind, "site_admin": False}


def issue(number: int = 12, *, author: str = "mona", **more: Any) -> Object:
    return {
        "id": 73464126,
        "number": number,
        "title": "The basket forgets its items",
        "body": "Steps: add two, reload.",
        "html_url": f"https://git.example.com/{REPOSITORY}/issues/{number}",
        "user": person(author),
        "labels": [],
        "state": "open",
        "author_association": "MEMBER",
        **more,
    }


def comment(identifier: int = 99262140, *, author: str = "mona", **more: Any) -> Object:
    return {
        "id": identifier,
        "body": "/agent look at this",
        "html_url": f"https://git.example.com/{REPOSITORY}/issues/12#issuecomment-{identifier}",
        "user": person(author),
        "author_association": "MEMBER",
        "performed_via_github_app": None,
        **more,
    }


def payload(action: str = "", *, sender: Object | None = None, **more: Any) -> Object:
    """The body of an event of GitHub.

    Args:
        action: What has happened to its subject; some events have none.
        sender: Who did it.
        **more: The subject, for instance `issue`.
    """
    acted = {"action": action} if action else {}
    home = {"id": 35129377, "name": "shop", "full_name": REPOSITORY, "private": True}
    return acted | more | {"repository": home, "sender": sender or person()}


def commented(identifier: int = 99262140, **more: Any) -> Object:
    """Somebody has written a comment."""
    return payload("created", issue=issue(), comment=comment(identifier, **more))


def labeled(*labels: str, number: int = 12, sender: str = "mona", author: str = "mona") -> Object:
    """Somebody has given an issue its last label."""
    given = [{"id": index, "name": name} for index, name in enumerate(labels)]
    found = issue(number, author=author, labels=given)
    return payload("labeled", sender=person(sender), issue=found, label=given[-1])


def pushed(*files: str, branch: str = "main", after: str = SHA, sender: str = "mona") -> Object:
    """Somebody has pushed a commit."""
    head = {"id": after, "message": "Fix\n\nlong", "added": [], "removed": []}
    head["modified"] = list(files)
    return payload(
        sender=person(sender), ref=f"refs/heads/{branch}", after=after, commits=[head],
        head_commit=head, pusher={"name": sender},
    )  # fmt: skip


def pull_request(action: str = "opened", *, author: str = "mona", **more: Any) -> Object:
    """Something has happened to a pull request."""
    made = issue(7, author=author, **more)
    made["head"] = {"ref": "fix-basket", "sha": SHA, "repo": {"full_name": REPOSITORY}}
    made["base"] = {"ref": "main", "sha": "0" * 40}
    return payload(action, sender=person(author), number=7, pull_request=made)


def github_request(
    hook: Hook, event: str, body: Object, *, secret: str = "", delivery: str = ""
) -> tuple[dict[str, str], bytes]:
    """Headers and body as GitHub sends them."""
    raw = json.dumps(body).encode()
    return {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery or str(uuid.uuid4()),
        "X-Hub-Signature-256": signed_body(secret or hook.secret(MASTER_KEY), raw),
    }, raw


def standard_request(
    hook: Hook,
    body: Object | bytes,
    *,
    identifier: str = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
    at: float | None = None,
    secret: str = "",
    **headers: str,
) -> tuple[dict[str, str], bytes]:
    """Headers and body as Standard Webhooks has them; more headers by their names with `_`."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    seconds = str(int(time.time() if at is None else at))
    signature = signed_message(secret or hook.secret(MASTER_KEY), identifier, seconds, raw)
    return {
        "Content-Type": "application/json",
        "webhook-id": identifier,
        "webhook-timestamp": seconds,
        "webhook-signature": signature,
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }, raw
