"""What `kubectl orbiter` writes to a task is what every client of tasks writes, the page too."""

from typing import Any

import pytest

from orbiter.approval import digest
from orbiter.cli.kubectl.answer import give
from orbiter.cli.kubectl.cancel import run_cancel
from orbiter.cli.kubectl.references import Found
from orbiter.cli.kubectl.retry import build_retry
from orbiter.cli.ui.outcome import CommandError
from orbiter.client import ClientError
from orbiter.client.changes import answer_patch, cancel_patch, retry_manifest

CALL = {"tool": "deploy", "arguments": {"to": "prod", "count": 2}}
SHOWN = {**CALL, "digest": digest("deploy", CALL["arguments"])}
REQUESTS: dict[str, dict[str, Any]] = {
    "question": {"id": "q1", "question": "main or trunk?"},
    "approval": {"id": "q1", "question": "", "kind": "approval", "calls": [SHOWN]},
    "another operator's": {"id": "q1", "question": "may I?", "kind": "approval", "calls": []},
}
SPECS: dict[str, dict[str, Any]] = {
    "first answer": {"prompt": "Fix it"},
    "second answer": {"prompt": "Fix it", "input": [{"id": "q0", "text": "x"}]},
}


class Recorded:
    """Stands for kubectl: knows who somebody is and keeps what is patched."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        self.patches: list[Any] = []

    def run(self, *words: str) -> str:
        assert words[:2] == ("auth", "whoami")
        return '{"status": {"userInfo": {"username": "ada"}}}'

    def patch(self, resource: str, name: str, change: Any, *, how: str) -> None:
        self.patches.append((how, change))


def task(spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    meta = {"name": "fix-" + "long-" * 11 + "x", "namespace": "team-a"}
    return {"kind": "AgentTask", "metadata": meta, "spec": spec, "status": status}


@pytest.mark.parametrize("text", ["main", "approve", "no, not today", '{"decision": "approve"}'])
@pytest.mark.parametrize("asked", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_an_answer_is_written_in_the_same_way(spec, asked, text):
    waiting = task(spec, phase="InputRequired", inputRequest=asked)
    kubectl = Recorded(waiting)
    try:
        give(kubectl, Found("AgentTask", waiting), text)
    except CommandError:
        with pytest.raises(ClientError):
            answer_patch(waiting, text, "ada")
    else:
        assert kubectl.patches == [("json", answer_patch(waiting, text, "ada"))]


def test_a_task_is_cancelled_in_the_same_way(monkeypatch):
    kubectl = Recorded(running := task({"prompt": "Fix it"}, phase="Running"))
    monkeypatch.setattr(
        "orbiter.cli.kubectl.cancel.resolve", lambda *_: Found("AgentTask", running)
    )
    run_cancel(kubectl, "fix", wait=False, timeout=None)
    assert kubectl.patches == [("merge", cancel_patch("ada"))]


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", [None, "again"])
@pytest.mark.parametrize("checkpoint", [None, {"time": "x"}])
@pytest.mark.parametrize("phase", ["Completed", "Failed", "Cancelled", "Running", None])
def test_a_task_is_done_again_in_the_same_way(phase, checkpoint, name, resume):
    spec = {
        "prompt": "Fix it", "agent": {"type": "claude"}, "input": [{"id": "q", "text": "t"}],
        "desiredState": "Cancelled", "cancelledBy": "ada", "resumeFrom": "older",
    }  # fmt: skip
    ended = task(spec, phase=phase, checkpoint=checkpoint)
    try:
        theirs = build_retry(Found("AgentTask", ended), name, resume=resume, max_cost=None)
    except CommandError:
        with pytest.raises(ClientError):
            retry_manifest(ended, name=name, resume=resume)
    else:
        assert retry_manifest(ended, name=name, resume=resume) == theirs
