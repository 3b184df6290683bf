"""The page on notifications: its receiver takes what the courier sends, and nothing else."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.markdown_blocks import blocks_of

from orbiter_contracts.cloud_events import read_signing_keys, signed_headers
from orbiter_contracts.notify import read_sinks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "notify.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
Receive = Callable[[str, dict[str, str], bytes, set[str]], int]


def block(kind: str) -> str:
    return PAGE.read_text().split(f"```{kind}\n")[1].split("```")[0]


def receiver() -> Receive:
    [program] = blocks_of(PAGE)
    names: dict[str, Any] = {}
    exec(program.code, names)
    found: Receive = names["receive"]
    return found


def test_its_receiver_takes_the_pages_event_once_and_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    receive, seen = receiver(), set[str]()
    event = json.loads(block("json"))
    body = json.dumps(event).encode()
    headers = signed_headers(read_signing_keys(SECRET), event["id"], int(time.time()), body)
    assert [receive(SECRET, headers, body, seen) for _ in range(2)] == [204, 204]
    said = "fix-login dev.orbiter.agenttask.completed the blank screen is gone\n"
    assert capsys.readouterr().out == said
    assert receive(SECRET, headers, body + b" ", seen) == 401
    other = "whsec_" + "A" * 43 + "="
    assert receive(other, headers, body, seen) == 401
    late = signed_headers(read_signing_keys(SECRET), event["id"], int(time.time()) - 3600, body)
    assert receive(SECRET, late, body, seen) == 401


def test_while_a_key_is_changed_both_are_right() -> None:
    receive, other = receiver(), "whsec_" + "A" * 43 + "="
    body = block("json").encode()
    keys = read_signing_keys(f"{other} {SECRET}")
    headers = signed_headers(keys, "e-1", int(time.time()), body)
    assert receive(SECRET, headers, body, set()) == receive(other, headers, body, set()) == 204


def test_its_task_can_be_one() -> None:
    task = yaml.safe_load(block("yaml"))
    [sink] = read_sinks(task["spec"]["notify"])
    assert sink.place == "https://hooks.example.com"
