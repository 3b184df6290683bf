"""`kubectl orbiter notify test`: a test is signed and sent to every receiver of an object."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from support.fake_kubectl import FakeKubectl, an_object, kubectl
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.doctor_objects import not_told
from orbiter.cli.kubectl.main import app
from orbiter_contracts.webhook_signatures import is_signed_message

__all__ = ["kubectl"]
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


class Receiver:
    """What a receiver is sent."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.status = 204
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.requests.append((headers, body))
                self.send_response(outer.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"http://127.0.0.1:{self.server.server_port}"
        self.url = f"{self.place}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def sink(url: str | None, **more: Any) -> dict[str, Any]:
    place = {"url": url} if url else {"urlFromSecret": {"name": "orbiter-notify"}}
    return {**place, "secretRef": {"name": "orbiter-notify"}, **more}


def secret(**data: str) -> dict[str, Any]:
    coded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return an_object("Secret", "orbiter-notify", data=coded)


def trial(*words: str) -> Result:
    return CliRunner().invoke(app, ["notify", "test", "fix", *words])


def test_every_receiver_is_sent_a_test_that_is_signed_and_the_secret_is_in_no_argument(
    kubectl: FakeKubectl, receiver: Receiver
) -> None:
    both = [sink(f"{receiver.url}?token=hidden"), sink(None)]
    kubectl.has(
        an_object("AgentTask", "fix", spec={}, status={"notify": both}),
        secret(secret=SECRET, url=receiver.url),
    )
    found = trial()
    named = "the address in Secret orbiter-notify, key url"
    assert (found.exit_code, found.output) == (0, f"{receiver.place}: 204\n{named}: 204\n")
    headers, body = receiver.requests[0]
    event = json.loads(body)
    assert event["type"] == "dev.orbiter.test"
    assert event["source"] == "/namespaces/default/agenttasks/fix"
    assert headers["content-type"].startswith("application/cloudevents+json")
    signed = (SECRET, headers["webhook-id"], headers["webhook-timestamp"], body)
    assert is_signed_message(headers["webhook-signature"], *signed)
    assert not any(SECRET in " ".join(call.argv) for call in kubectl.calls)


def test_a_receiver_that_refuses_or_sends_elsewhere_is_no_success(
    kubectl: FakeKubectl, receiver: Receiver
) -> None:
    kubectl.has(
        an_object("AgentProfile", "fix", spec={"notify": [sink(receiver.url)]}),
        secret(secret=SECRET),
    )
    receiver.status = 307
    found = trial("--json")
    assert found.exit_code == 1
    assert json.loads(found.output) == [{"receiver": receiver.place, "status": 307, "problem": ""}]
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "Secret orbiter-notify has no key secret"),
        ({"secret": "s3cr3t"}, "Secret orbiter-notify, key secret: it has no signing key"),
        (None, "there is no Secret orbiter-notify"),
    ],
)
def test_what_is_wrong_with_a_secret_is_said(
    kubectl: FakeKubectl, data: dict[str, str] | None, words: str
) -> None:
    task = an_object("AgentTask", "fix", spec={"notify": [sink("https://a.example.com")]})
    kubectl.has(task, *([secret(**data)] if data is not None else []))
    found = trial()
    assert found.exit_code == 1
    assert words in found.output
    assert "s3cr3t" not in found.output


def test_who_does_not_answer_is_told_without_the_address(kubectl: FakeKubectl) -> None:
    kubectl.has(
        an_object("AgentTask", "fix", spec={"notify": [sink(None)]}),
        secret(secret=SECRET, url="http://127.0.0.1:1/hidden"),
    )
    found = trial()
    assert found.exit_code == 1
    assert "no answer: ConnectionRefusedError" in found.output
    assert "hidden" not in found.output


@pytest.mark.parametrize(
    ("notify", "words"), [([], "names no receiver"), ([{"url": "x"}], "notify[0].url: ")]
)
def test_an_object_without_receivers_says_so(
    kubectl: FakeKubectl, notify: list[Any], words: str
) -> None:
    kubectl.has(an_object("AgentTask", "fix", spec={"notify": notify}))
    found = trial()
    assert found.exit_code == 1
    assert words in found.output


def test_one_that_is_not_there_is_not_found(kubectl: FakeKubectl) -> None:
    assert trial().exit_code == 3


def test_doctor_tells_of_what_was_not_told() -> None:
    about = {"involvedObject": {"name": "fix"}, "message": "Completed was not told\nto https://a"}
    assert not_told([{"reason": "Completed", **about}]) == ""
    untold = [
        {"reason": reason, **about} for reason in ("NotificationFailed", "NotificationDelayed")
    ]
    assert not_told(untold) == "fix: Completed was not told to https://a, and 1 more like it"
    assert not_told([{"reason": "NotificationFailed"}]).startswith("?: ")
