"""The JSON of every message, frozen: a change here is a change for other people's programs."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from orbiter_contracts import (
    AgentVerdict,
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    GitWorkspace,
    InvalidMessageError,
    POWorkerInput,
    POWorkerOutput,
    SessionRecord,
    Usage,
    WorkerLifecycleEvent,
    Workspace,
    WorkspaceReport,
    decode,
    encode,
)
from orbiter_contracts.messages import Message

AT = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
STAMP = "2026-01-10T12:00:00Z"

FROZEN: list[tuple[Message, dict[str, object]]] = [
    (
        POWorkerInput(request_id="r", user_id=7, prompt="hi", timestamp=AT),
        {
            "request_id": "r",
            "prompt": "hi",
            "timeout": 1800,
            "session_continue": True,
            "timestamp": STAMP,
            "user_id": 7,
        },
    ),
    (
        POWorkerOutput(request_id="r", user_id=7, text="hello", timestamp=AT),
        {
            "request_id": "r",
            "status": "success",
            "error": None,
            "reason": None,
            "usage": None,
            "warnings": [],
            "started_at": None,
            "finished_at": None,
            "duration_ms": None,
            "timestamp": STAMP,
            "user_id": 7,
            "text": "hello",
            "is_final": True,
            "sequence": 0,
            "part": 0,
            "session_id": None,
        },
    ),
    (
        DeveloperWorkerInput(
            request_id="r",
            task_id="t",
            prompt="do",
            timestamp=AT,
            workspace=Workspace(git=GitWorkspace(url="https://git.example/a.git")),
        ),
        {
            "request_id": "r",
            "prompt": "do",
            "timeout": 1800,
            "session_continue": True,
            "timestamp": STAMP,
            "task_id": "t",
            "project_id": None,
            "workspace": {
                "git": {
                    "url": "https://git.example/a.git",
                    "ref": None,
                    "branch": None,
                    "push": "Never",
                }
            },
            "artifacts": [],
        },
    ),
    (
        DeveloperWorkerOutput(
            request_id="r",
            task_id="t",
            timestamp=AT,
            started_at=AT,
            finished_at=AT,
            duration_ms=0,
            verdict=AgentVerdict(summary="done"),
            usage=Usage(input_tokens=1),
            workspace=WorkspaceReport(head_sha="abc"),
        ),
        {
            "request_id": "r",
            "status": "success",
            "error": None,
            "reason": None,
            "usage": {
                "input_tokens": 1,
                "output_tokens": 0,
                "cache_read_tokens": 0,
                "cache_write_tokens": 0,
                "cost_usd": None,
                "turns": 0,
            },
            "warnings": [],
            "started_at": STAMP,
            "finished_at": STAMP,
            "duration_ms": 0,
            "timestamp": STAMP,
            "task_id": "t",
            "project_id": None,
            "worker_id": None,
            "commit_sha": None,
            "pr_url": None,
            "verdict": {
                "status": "success",
                "summary": "done",
                "data": {},
                "commit_sha": None,
                "pr_url": None,
                "text": None,
                "question": None,
                "request": None,
            },
            "workspace": {
                "base_sha": None,
                "head_sha": "abc",
                "branch": None,
                "pushed": False,
                "error": None,
            },
            "artifacts": None,
        },
    ),
    (
        WorkerLifecycleEvent(worker_id="w", event="ready", timestamp=AT),
        {"worker_id": "w", "event": "ready", "timestamp": STAMP, "details": {}},
    ),
    (
        SessionRecord(session_id="s", worker_id="w", created_at=AT, last_activity=AT),
        {"session_id": "s", "worker_id": "w", "created_at": STAMP, "last_activity": STAMP},
    ),
]


@pytest.mark.parametrize(("message", "expected"), FROZEN, ids=lambda v: type(v).__name__)
def test_the_json_of_a_message_never_changes(message: Message, expected: dict[str, object]) -> None:
    assert json.loads(message.model_dump_json()) == expected


@pytest.mark.parametrize("message", [m for m, _ in FROZEN], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("raw", [False, True], ids=["text", "bytes"])
def test_a_message_survives_the_envelope(message: Message, raw: bool) -> None:
    fields = encode(message, agenttask="team/fix")
    assert fields["agenttask"] == "team/fix"
    if raw:
        assert decode(type(message), {k.encode(): v.encode() for k, v in fields.items()}) == message
    else:
        assert decode(type(message), fields) == message


def test_a_newer_producers_unknown_field_is_ignored() -> None:
    message = decode(POWorkerInput, {"data": '{"prompt":"hi","user_id":1,"mood":"good"}'})
    assert message.prompt == "hi"


def test_a_missing_request_id_is_given_and_differs_each_time() -> None:
    fields = {"data": '{"prompt":"hi","user_id":1}'}
    assert decode(POWorkerInput, fields).request_id != decode(POWorkerInput, fields).request_id


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        POWorkerInput(prompt="hi", user_id=1).prompt = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "no field 'data'"),
        ({"data": "not json"}, "Invalid JSON"),
        ({"data": "{}"}, "prompt"),
        ({"data": '{"prompt":"","user_id":1}'}, "prompt"),
        ({"data": '{"prompt":"x","user_id":1,"timeout":0}'}, "timeout"),
        ({"data": '{"prompt":"x","user_id":"who"}'}, "user_id"),
    ],
)
def test_a_bad_entry_is_refused_with_the_field_named(fields: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidMessageError, match=says):
        decode(POWorkerInput, fields)
