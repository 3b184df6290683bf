"""The page on clients, run against an API server whose operator is played here."""

import asyncio
import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.fake_api import FakeApi
from support.markdown_blocks import blocks_of, run_blocks

PAGE = Path(__file__).parents[3] / "docs" / "client.md"
pytestmark = pytest.mark.integration


def operate(api: FakeApi) -> None:
    """Let each task ask a question, and end with the answer."""
    loop = asyncio.get_running_loop()

    def seen(change, plural, obj):
        phase, name = obj.get("status", {}).get("phase"), obj["metadata"]["name"]
        if plural != "agenttasks":
            return
        if phase is None:
            asked = {"id": "q1", "question": "main or trunk?"}
            say(name, {"phase": "InputRequired", "inputRequest": asked})
        elif phase == "InputRequired" and (given := obj["spec"].get("input")):
            summary = f"pushed to {given[0]['text']}"
            say(name, {"phase": "Completed", "result": {"summary": summary}})

    def say(name, status):
        loop.call_soon(api.patch, "agenttasks", "team-a", name, {"status": status})

    api.listeners.append(seen)


async def test_the_page_on_clients_tells_what_is_so(api, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    operate(api)
    assert await run_blocks(PAGE) == len(blocks_of(PAGE)) > 1


KUBECTL = """#!/bin/sh
case "$*" in
  *openid-configuration) echo '{"issuer":"https://cluster","jwks_uri":"x"}' ;;
  *"create token ada --audience=orbiter-server --audience=https://cluster "*) echo a-secret ;;
  *) echo "no such call: $*" >&2; exit 1 ;;
esac
"""


def test_the_token_of_the_page_comes_from_a_file_that_nobody_else_reads(tmp_path):
    asked = []

    class Server(BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append((self.command, self.path, self.headers["Authorization"], body))
            self.send_response(200)
            self.end_headers()

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *words):
            pass

    [typed] = re.findall(r"^```sh\n(ISSUER=.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        script = typed.replace("127.0.0.1:8000", f"127.0.0.1:{server.server_port}")
        script = script.replace("rm header", "stat -c %a header; rm header")
        environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        command = ["sh", "-ex", "-c", script]
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        server.shutdown()
    assert ran.stdout == "600\n"
    # What a shell with -x says is what other people see of its commands.
    assert "a-secret" not in ran.stderr
    assert [(method, token) for method, _, token, _ in asked] == [
        ("POST", "Bearer a-secret"),
        ("GET", "Bearer a-secret"),
    ]
    assert b"Fix the login page" in asked[0][3]
