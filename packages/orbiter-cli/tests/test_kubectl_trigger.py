"""`kubectl orbiter trigger`: an event is signed, sent and told of as its sender's would be."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.fake_kubectl import FakeKubectl, Object, an_object, kubectl
from support.webhooks import MASTER_KEY, commented, labeled, pushed
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.main import app
from orbiter.cli.kubectl.trigger import _event_of
from orbiter_contracts.webhook_signatures import Hook, Scheme, is_signed_body, is_signed_message

__all__ = ["kubectl"]


class Receiver:
    """What the receiver is asked, over HTTP."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 202
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.requests.append((self.path, headers, body))
                self.send_response(outer.status)
                self.end_headers()
                self.wfile.write(b'{"error": "full"}')

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def installed(
    kubectl: FakeKubectl,
    receiver: Receiver,
    *notes: Object,
    scheme: Scheme = "github",
    url: str = "",
) -> Hook:
    hook = Hook("default", "fixes", scheme, "9f1c")
    status = {"webhookPath": hook.path, "lastEvents": list(notes)}
    kubectl.has(
        an_object("AgentTrigger", "fixes", status=status),
        an_object(
            "Secret",
            "orbiter-webhooks",
            data={"fixes.url": url or hook.path, "fixes.secret": hook.secret(MASTER_KEY)},
        ),
        an_object(
            *("Service", "orbiter-receiver"),
            namespace="orbiter-system",
            metadata={"labels": {"app.kubernetes.io/component": "receiver"}},
        ),
    )
    (kubectl.home / "redis-port").write_text(str(receiver.port))
    return hook


def trigger(tmp_path: Path, payload: Object, *words: str) -> Result:
    file = tmp_path / "payload.json"
    file.write_text(json.dumps(payload))
    command, *options = words
    return CliRunner().invoke(app, ["trigger", command, "fixes", "-f", str(file), *options])


def note(delivery: str, outcome: str = "Fired", **more: str) -> Object:
    return {"event": f"issues.labeled 12 ({delivery})", "outcome": outcome, **more}


def test_an_event_is_signed_sent_through_a_port_forward_and_told_of(
    kubectl: FakeKubectl, receiver: Receiver, tmp_path: Path
) -> None:
    hook = installed(kubectl, receiver, note("d-1", task="fixes-0a"))
    found = trigger(tmp_path, labeled("agent"), "run", "--delivery", "d-1")
    assert (found.exit_code, found.output) == (0, "agenttrigger/fixes: Fired · fixes-0a\n")
    [(path, headers, body)] = receiver.requests
    assert (path, headers["x-github-event"]) == (hook.path, "issues")
    assert is_signed_body(headers["x-hub-signature-256"], hook.secret(MASTER_KEY), body)
    assert "x-orbiter-test" not in headers
    assert not any(hook.secret(MASTER_KEY) in " ".join(call.argv) for call in kubectl.calls)


def test_a_test_says_that_it_is_one(
    kubectl: FakeKubectl, receiver: Receiver, tmp_path: Path
) -> None:
    installed(kubectl, receiver, scheme="cloudevents", url=f"http://127.0.0.1:{receiver.port}/x")
    words = note("e-1", "Ignored", message="a test: it would make AgentTask fixes-0a")
    kubectl.change("AgentTrigger", "fixes", lambda o: o["status"].update(lastEvents=[words]))
    found = trigger(tmp_path, {"id": "e-1", "specversion": "1.0"}, "test", "--json")
    assert (found.exit_code, json.loads(found.output)) == (0, words)
    [(path, headers, body)] = receiver.requests
    assert (path, headers["x-orbiter-test"]) == ("/x", "true")
    secret = Hook("default", "fixes", "cloudevents", "9f1c").secret(MASTER_KEY)
    signed = (headers["webhook-id"], headers["webhook-timestamp"], body)
    assert is_signed_message(headers["webhook-signature"], secret, *signed)
    assert not any("port-forward" in call.argv for call in kubectl.calls)


def test_what_makes_no_task_is_told_with_why_and_is_no_success(
    kubectl: FakeKubectl, receiver: Receiver, tmp_path: Path
) -> None:
    installed(kubectl, receiver, note("d-1", "Ignored", message="its branch is dev"))
    found = trigger(tmp_path, pushed("a"), "run", "--delivery", "d-1")
    assert (found.exit_code, found.output) == (
        1,
        "agenttrigger/fixes: Ignored · its branch is dev\n",
    )


def test_a_receiver_that_refuses_is_quoted(
    kubectl: FakeKubectl, receiver: Receiver, tmp_path: Path
) -> None:
    installed(kubectl, receiver)
    receiver.status = 503
    found = trigger(tmp_path, commented(), "run")
    assert found.exit_code == 1
    assert 'refused it with 503: {"error": "full"}' in found.output


def test_a_schedule_takes_no_events(kubectl: FakeKubectl, tmp_path: Path) -> None:
    kubectl.has(an_object("AgentTrigger", "fixes", status={}))
    found = trigger(tmp_path, commented(), "run")
    assert found.exit_code == 1
    assert "takes no events" in found.output


def test_one_that_is_not_there_is_not_found(kubectl: FakeKubectl, tmp_path: Path) -> None:
    assert trigger(tmp_path, commented(), "run").exit_code == 3


@pytest.mark.parametrize("text", ["[1]", "{", ""])
def test_a_file_that_is_no_json_object_is_not_sent(
    kubectl: FakeKubectl, receiver: Receiver, tmp_path: Path, text: str
) -> None:
    installed(kubectl, receiver)
    file = tmp_path / "payload.json"
    file.write_text(text)
    found = CliRunner().invoke(app, ["trigger", "run", "fixes", "-f", str(file)])
    assert (found.exit_code, receiver.requests) == (2, [])


def test_the_payload_tells_the_event() -> None:
    assert [_event_of(one) for one in (commented(), labeled("a"), pushed("a"))] == [
        *("issue_comment", "issues", "push"),
    ]
