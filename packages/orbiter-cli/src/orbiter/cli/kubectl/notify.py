"""Sends a test to the receivers of an object, as the courier would, and tells what each answers.

It is sent from here, with the rights of whoever asks: who may read the Secret could sign anything
with it anyway, so nobody gains a right, and nobody can have the courier send what it would not.
"""

import base64
import http.client
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say
from orbiter.cli.ui.terminal import print_json
from orbiter.cli.ui.text import one_line

if TYPE_CHECKING:
    from orbiter_contracts.notify import Sink

KINDS: Final = {
    "AgentTask": "agenttasks",
    "POSession": "posessions",
    "AgentProfile": "agentprofiles",
}
_ANSWER_SECONDS: Final = 15.0
_AGENT: Final = "kubectl-orbiter"


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one receiver.

    Attributes:
        receiver: Where it is; not its address where that is in a Secret.
        status: What it has answered; None when it has not.
        problem: Why not.
    """

    receiver: str
    status: int | None = None
    problem: str = ""

    @property
    def good(self) -> bool:
        """Whether the courier would count it as told."""
        return self.status is not None and 200 <= self.status < 300


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The courier follows none either."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """No request."""


def run_notify_test(kubectl: Kubectl, name: str, *, as_json: bool) -> int:
    """Send it, and print what each receiver has answered.

    Raises:
        CommandError: There is no such object, or it names nobody.
    """
    obj = _object(kubectl, name)
    tried = [_try(kubectl, obj, sink) for sink in _sinks(obj)]
    if as_json:
        print_json([asdict(one) for one in tried])
    else:
        for one in tried:
            say(f"{one.receiver}: {one.status or one_line(one.problem, 200)}")
    return ExitCode.OK if all(one.good for one in tried) else ExitCode.FAILED


def _object(kubectl: Kubectl, name: str) -> Object:
    found = kubectl.find([f"{plural}.orbiter.dev" for plural in KINDS.values()], name)
    if len(found) > 1:
        found = [one for one in found if _written(one)] or found
    for one in found:
        return one
    raise CommandError(
        f"there is no task, session or AgentProfile {name} in namespace {kubectl.namespace()}",
        ExitCode.NOT_FOUND,
    )


def _written(obj: Object) -> Any:
    """Its receivers with those of its profiles, as the operator has put them together."""
    return (obj.get("status") or {}).get("notify") or (obj.get("spec") or {}).get("notify")


def _sinks(obj: Object) -> "tuple[Sink, ...]":
    from orbiter_contracts.notify import read_sinks

    try:
        sinks = read_sinks(_written(obj))
    except ValueError as error:
        raise CommandError(f"{obj['kind']} {obj['metadata']['name']}: {error}") from None
    if not sinks:
        raise CommandError(
            f"{obj['kind']} {obj['metadata']['name']} names no receiver; write spec.notify, there "
            "or in its profile"
        )
    return sinks


def _try(kubectl: Kubectl, obj: Object, sink: "Sink") -> Tried:
    from orbiter_contracts.cloud_events import read_signing_keys, signed_headers

    try:
        signing = sink.secret_ref
        keys = read_signing_keys(_value(kubectl, signing.name, signing.key))
        url = sink.url
        if (source := sink.url_from_secret) is not None:
            url = _value(kubectl, source.name, source.key).strip()
        if url is None or not url.startswith(("https://", "http://")):
            raise CommandError("the Secret has no http(s) URL")
    except ValueError as error:
        problem = f"Secret {signing.name}, key {signing.key}: it {error}"
        return Tried(sink.place, problem=problem)
    except CommandError as error:
        return Tried(sink.place, problem=str(error))
    identifier, body = _event(obj)
    headers = signed_headers(keys, identifier, int(time.time()), body)
    status, problem = _post(url, body, headers | {"User-Agent": _AGENT})
    return Tried(sink.place, status, problem)


def _event(obj: Object) -> tuple[str, bytes]:
    from orbiter_contracts.cloud_events import TEST_TYPE, cloud_event, source_of

    meta, kind = obj["metadata"], obj["kind"]
    identifier = f"{meta['uid']}.test.{uuid.uuid4()}"
    names = {"kind": kind, "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    return identifier, cloud_event(
        identifier=identifier,
        source=source_of(meta["namespace"], KINDS[kind], meta["name"]),
        kind=TEST_TYPE,
        subject=meta["name"],
        time=datetime.now(UTC),
        data={**names, "message": "a test by hand: nothing has happened"},
    )


def _value(kubectl: Kubectl, name: str, key: str) -> str:
    """What a Secret has under a key. It goes through a pipe, and is in no argument."""
    import json

    printed = kubectl.run("get", "secret", name, "--ignore-not-found", "-o", "json")
    if not printed.strip():
        raise CommandError(f"there is no Secret {name} in namespace {kubectl.namespace()}; make it")
    found = (json.loads(printed).get("data") or {}).get(key)
    if found is None:
        raise CommandError(f"Secret {name} has no key {key}")
    try:
        return base64.b64decode(found, validate=True).decode()
    except ValueError:
        raise CommandError(f"Secret {name}, key {key}: it is no text") from None


def _post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int | None, str]:
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 - http only
    opener = urllib.request.build_opener(_NoRedirect())
    try:
        with opener.open(request, timeout=_ANSWER_SECONDS) as response:
            return int(response.status), ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None)
        return (
            None,
            f"no answer: {type(reason if isinstance(reason, Exception) else error).__name__}",
        )
