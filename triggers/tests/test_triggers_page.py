"""The page's webhook, as it is typed: what the receiver and the trigger make of it."""

import json
import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from orbiter_contracts.webhook_signatures import Hook, read_hook_path
from orbiter_triggers.events.filters import verdict
from orbiter_triggers.events.refusals import RefusedRequestError
from orbiter_triggers.events.requests import read_event
from orbiter_triggers.models import TriggerSpec
from orbiter_triggers.template import build_task, template_problem

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "triggers.md").read_text()
SECTION = PAGE.partition("### From a program of your own\n")[2].partition("\n## ")[0]
MASTER_KEY = "the-master-key-of-this-test"
HOOK = Hook("default", "alerts", "hmac", "9f1c-1")
KUBECTL = f"""#!/bin/sh
case "$*" in
  "apply -f alerts.yaml"|"wait agenttrigger/alerts "*|*port-forward*) ;;
  *"{{.data.alerts\\.secret}}"*) printf %s "$SECRET" | base64 ;;
  *"agenttrigger alerts"*webhookPath*) printf %s {HOOK.path} ;;
  *) echo "no such call: $*" >&2; exit 1 ;;
esac
"""
SEND, BY_PYTHON = re.findall(r"^```sh\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
[MANIFEST] = re.findall(r"^```yaml\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
BY_OPENSSL = r"^SIGNATURE=.*\n"
Request = tuple[str, list[tuple[str, str]], bytes]


def spec() -> TriggerSpec:
    return TriggerSpec.model_validate(yaml.safe_load(MANIFEST)["spec"])


def sent(script: str, home: Path) -> list[Request]:
    """What comes in at the receiver's port while somebody types a block of the page."""
    came: list[Request] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            came.append((self.path, self.headers.items(), body))
            self.send_response(202)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            """It says nothing."""

    (home / "kubectl").write_text(KUBECTL)
    (home / "kubectl").chmod(0o755)
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # Where nothing is forwarded nothing has to be ended.
        typed = script.replace(":8088$", f":{server.server_port}$").replace("kill $!;", "wait;")
        path = f"{home}:{os.environ['PATH']}"
        given = os.environ | {"PATH": path, "SECRET": HOOK.secret(MASTER_KEY)}
        subprocess.run(["sh", "-euc", typed], cwd=home, env=given, check=True)
        server.shutdown()
    assert not (home / "secret").exists()
    return came


@pytest.mark.parametrize("sign", ["openssl", "python"])
def test_what_the_page_signs_is_an_event_that_makes_its_triggers_task(
    tmp_path: Path, sign: str
) -> None:
    typed = SEND if sign == "openssl" else re.sub(BY_OPENSSL, lambda _: BY_PYTHON, SEND, flags=re.M)
    assert ("openssl" in typed) == (sign == "openssl")
    [(path, headers, body)] = sent(typed, tmp_path)
    assert read_hook_path(path) == HOOK
    event = read_event(HOOK, headers, body, [HOOK.secret(MASTER_KEY)], 1_796_000_000.0)
    assert verdict(event, spec()).key
    template = spec().task_template
    assert template_problem(template) is None
    origin = {"name": "alerts", "namespace": "default", "uid": HOOK.uid}
    task, problem = build_task(
        origin, "alerts-1", template, own={}, told=event.told(), annotations={}
    )
    assert problem is None
    assert "the disk of db-1 is full" in task["spec"]["prompt"]
    assert json.loads(event.data)["host"] == "db-1"


def test_with_another_secret_or_another_body_it_is_forged(tmp_path: Path) -> None:
    [(_, headers, body)] = sent(SEND, tmp_path)
    for secret, told in (("other", body), (HOOK.secret(MASTER_KEY), body + b" ")):
        with pytest.raises(RefusedRequestError, match="the signature is not that of this body"):
            read_event(HOOK, headers, told, [secret], 1_796_000_000.0)
