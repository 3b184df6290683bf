"""Sends an event to an AgentTrigger as its sender would, and tells what has become of it.

The whole way is gone: signed with the trigger's own secret, through the receiver, decided by the
controller, read from the trigger's status. The secret stays in this process.
"""

import base64
import hashlib
import json
import time
import urllib.error
import urllib.request
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.redis_forward import forwarded
from orbiter.cli.ui.input import parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say
from orbiter.cli.ui.terminal import print_json

TRIGGERS: Final = "agenttriggers.orbiter.dev"
SECRET: Final = "orbiter-webhooks"  # noqa: S105 - the name of one
_SERVICE: Final = "app.kubernetes.io/component=receiver"
_PORT: Final = 80
_ANSWER_SECONDS: Final = 20.0
_DECIDED_SECONDS: Final = 30
_PAUSE_SECONDS: Final = 0.3
_FIRED: Final = ("Fired", "Duplicate")


@dataclass(frozen=True, slots=True)
class Sending:
    """What to send.

    Attributes:
        trigger: The trigger's name.
        file: Where the body is.
        event: GitHub's name of the event; None to go by the body.
        delivery: How the delivery is called; None for a new one.
        test: Whether no task is wanted.
    """

    trigger: str
    file: str
    event: str | None
    delivery: str | None
    test: bool


def run_trigger(kubectl: Kubectl, sending: Sending, *, timeout: str | None, as_json: bool) -> int:
    """Send it, and print what has become of it.

    Raises:
        CommandError: There is no such trigger or no way to it, or it was refused, and why.
    """
    patience = parse_seconds(timeout) or _DECIDED_SECONDS
    found = _trigger(kubectl, sending.trigger)
    path = (found.get("status") or {}).get("webhookPath")
    if not path:
        raise CommandError(
            f"AgentTrigger {sending.trigger} takes no events: its source is a schedule, or "
            "triggers.webhooks.enabled of the chart is not set"
        )
    body = _body(sending.file)
    url, secret = _hook(kubectl, sending.trigger)
    headers, delivery = _signed(path, sending, body, secret)
    with ExitStack() as opened:
        if not url.startswith("http"):
            url = f"http://127.0.0.1:{opened.enter_context(_forward(kubectl))}{path}"
        _post(url, body, headers)
    note = _decided(kubectl, sending.trigger, delivery, time.monotonic() + patience)
    if as_json:
        print_json(note)
    else:
        words = (note["outcome"], note.get("task"), note.get("message"))
        say(f"agenttrigger/{sending.trigger}: {' · '.join(filter(None, words))}")
    return ExitCode.OK if sending.test or note["outcome"] in _FIRED else ExitCode.FAILED


def _trigger(kubectl: Kubectl, name: str) -> Object:
    for found in kubectl.find([TRIGGERS], name):
        return found
    raise CommandError(
        f"there is no AgentTrigger {name} in namespace {kubectl.namespace()}", ExitCode.NOT_FOUND
    )


def _body(file: str) -> bytes:
    try:
        body = Path(file).read_bytes()
        whole = isinstance(json.loads(body), dict)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}", ExitCode.USAGE) from None
    except ValueError:
        whole = False
    if not whole:
        raise CommandError(f"{file}: is no JSON object", ExitCode.USAGE)
    return body


def _hook(kubectl: Kubectl, name: str) -> tuple[str, str]:
    """Address and secret of a trigger's webhook."""
    keys = (rf"{name}\.url", rf"{name}\.secret")
    asked = "{'|'}".join(f"{{.data.{key}}}" for key in keys)
    words = ("get", "secret", SECRET, "--ignore-not-found", "-o", f"jsonpath={asked}")
    url, _, secret = kubectl.run(*words).strip().partition("|")
    if not url or not secret:
        raise CommandError(
            f"the Secret {SECRET} in namespace {kubectl.namespace()} says nothing of {name}; "
            "does the triggers' program run?"
        )
    return base64.b64decode(url).decode(), base64.b64decode(secret).decode()


def _signed(path: str, sending: Sending, body: bytes, secret: str) -> tuple[dict[str, str], str]:
    """The headers as the sender of such events writes them, and how the delivery is called."""
    from orbiter_contracts import webhook_signatures as signatures

    hook = signatures.read_hook_path(path)
    if hook is None:
        raise CommandError(f"{path}: is no address of a webhook; is this command too old?")
    payload: Any = json.loads(body)
    headers = {"Content-Type": "application/json", "User-Agent": "kubectl-orbiter"}
    if sending.test:
        headers[signatures.TEST] = "true"
    delivery = sending.delivery or str(uuid.uuid4())
    if hook.scheme in ("github", "hmac"):
        headers[signatures.GITHUB_SIGNATURE] = signatures.signed_body(secret, body)
        if hook.scheme == "hmac":
            return headers, hashlib.sha256(body).hexdigest()[:32]
        headers[signatures.GITHUB_EVENT] = sending.event or _event_of(payload)
        headers[signatures.GITHUB_DELIVERY] = delivery
        return headers, delivery
    seconds = str(int(time.time()))
    headers |= {signatures.ID: delivery, signatures.TIMESTAMP: seconds}
    headers[signatures.SIGNATURE] = signatures.signed_message(secret, delivery, seconds, body)
    if hook.scheme == "cloudevents":
        headers["Content-Type"] = "application/cloudevents+json"
        return headers, str(payload.get("id", ""))
    return headers, delivery


def _event_of(payload: dict[str, Any]) -> str:
    """GitHub's name of the event that has such a payload."""
    if "comment" in payload:
        return "pull_request_review_comment" if "pull_request" in payload else "issue_comment"
    for name, event in (
        ("review", "pull_request_review"),
        *((one, one) for one in ("pull_request", "workflow_run", "release")),
        *(("issue", "issues"), ("commits", "push"), ("zen", "ping")),
    ):
        if name in payload:
            return event
    raise CommandError(
        "the payload does not tell which event it is; add --event, for instance --event issues",
        ExitCode.USAGE,
    )


def _forward(kubectl: Kubectl) -> Any:
    services = kubectl.list_all("services", f"--selector={_SERVICE}", everywhere=True)
    if not services:
        raise CommandError(
            "there is no Service of the receiver, or you may not list Services; set "
            "triggers.webhooks.url of the chart to where it is reached",
            ExitCode.UNREACHABLE,
        )
    meta = services[0]["metadata"]
    return forwarded(kubectl, f"service/{meta['name']}", _PORT, meta["namespace"])


def _post(url: str, body: bytes, headers: dict[str, str]) -> None:
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 - http only
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as response:  # noqa: S310
            response.read()
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(4096).decode(errors="replace")
        raise CommandError(f"the receiver refused it with {error.code}: {said}") from None
    except OSError as error:
        raise CommandError(f"the receiver does not answer: {error}", ExitCode.UNREACHABLE) from None


def _decided(kubectl: Kubectl, name: str, delivery: str, until: float) -> Object:
    """What the status says of a delivery, as soon as it says something that is not to wait."""
    while True:
        status = _trigger(kubectl, name).get("status") or {}
        for note in status.get("lastEvents") or ():
            if str(note.get("event", "")).endswith(f"({delivery[:60]})"):
                found: Object = note
                return found
        if time.monotonic() > until:
            raise CommandError(
                f"the event was received, and nothing is decided yet; see what "
                f"kubectl get agenttrigger {name} -o yaml says",
                ExitCode.TIMEOUT,
            )
        time.sleep(_PAUSE_SECONDS)
