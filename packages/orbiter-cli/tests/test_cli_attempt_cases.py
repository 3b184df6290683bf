"""The table of attempts that operator and `orbiter task run` share, here in `orbiter task run`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.attempt_cases import BACKOFFS, ENDS, SESSIONS, USAGES, ended
from support.local_tasks import Run

from orbiter.cli.task.manifest import Manifest
from orbiter.cli.task.worker import LocalWorker
from orbiter_contracts.attempts import Attempt, request_id
from orbiter_contracts.queues import BARE

UID = "6a7b1f4e-0000-4000-8000-000000000001"


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
async def test_an_output_means_phase_reason_message_and_result(case):
    status = await Run(case.output).go()
    assert (status.phase, status.reason, status.message) == (case.phase, case.reason, case.message)
    assert (status.question, status.detail) == (case.question, case.detail)
    shown = status.to_api()
    assert shown["result"] == case.result
    asked = {"question": case.question} if case.phase == "InputRequired" else None
    assert shown.get("inputRequest") == asked


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
async def test_only_failures_are_retried_and_not_all(case):
    run = Run(case.output, case.output, limit=1)
    status = await run.go()
    assert (status.attempts == 2) == (len(run.pauses) == 1) == case.retried
    assert (status.phase, status.reason) == (case.phase, case.reason)


@pytest.mark.parametrize("case", BACKOFFS.values(), ids=BACKOFFS)
async def test_the_backoff_doubles(case):
    failures = [ended("failed")] * case.retry.attempts_allowed
    run = Run(*failures, retry=case.retry)
    assert (await run.go()).phase == "Failed"
    assert tuple(run.pauses) == case.pauses


@pytest.mark.parametrize("case", SESSIONS.values(), ids=SESSIONS)
async def test_a_session_goes_on_after_questions_only(case, tmp_path):
    ids = [request_id(UID, number) for number in range(1, len(case.ends) + 1)]
    kinds = {"?": "input_required", "!": "failed", ".": "success"}
    outputs = [
        ended(kinds[end]).model_copy(update={"request_id": one})
        for one, end in zip(ids, case.ends, strict=True)
    ]
    run = Run(*outputs, answers=["yes"] * case.ends.count("?"), limit=case.ends.count("!"))
    assert (await run.go()).phase == "Completed"
    for number, (asker, answered) in enumerate(zip(case.sessions, run.answered, strict=True), 1):
        told = worker(tmp_path).environment(Attempt("team/fix", UID, number), "5-0", answered)
        assert told["SESSION_ID"] == ids[asker - 1]
        assert told["SNAPSHOT_KEY"] == BARE.task_snapshot(UID)


@pytest.mark.parametrize("case", USAGES.values(), ids=USAGES)
async def test_usage_adds_up_over_attempts(case):
    outputs = [ended("failed", usage=told) for told in case.told]
    status = await Run(*outputs, limit=len(outputs) - 1).go()
    assert status.usage == case.total
    shown = case.total and case.total.model_dump(by_alias=True, exclude_none=True)
    assert status.to_api().get("usage") == shown


def test_what_says_which_attempt_it_is_is_ours_whatever_the_environment_says(tmp_path):
    attempt = Attempt("team/fix", UID, 2)
    told = worker(tmp_path).environment(attempt, "5-0", ())
    own = attempt.environment(worker="team.fix-2", entry="5-0", session=request_id(UID, 2))
    assert own.items() <= told.items()
    assert (told["AGENT_TYPE"], told["MINE"]) == ("orbiter", "kept")


def test_variables_of_the_task_and_of_the_command_both_reach_the_agent(tmp_path):
    attempt, wish = Attempt("team/fix", UID, 1), {"env": [{"name": "B"}]}
    told = worker(tmp_path, wish, AGENT_ENV="IS_SANDBOX").environment(attempt, "5-0", ())
    assert told["AGENT_ENV"] == "IS_SANDBOX,B"
    assert "AGENT_ENV" not in worker(tmp_path).environment(attempt, "5-0", ())


@pytest.mark.parametrize(
    ("missing", "extra"),
    [
        ("orbiter_contracts", "kubernetes"),
        ("jsonschema", "local"),
        ("worker_wrapper", "local"),
        ("fakeredis", "local"),
    ],
)
def test_a_missing_part_of_the_extra_is_named_with_what_to_install(missing, extra, tmp_path):
    task = {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentTask",
        "metadata": {"name": "hello"},
        "spec": {"prompt": "hi", "agent": {"type": "orbiter"}},
    }
    file = tmp_path / "task.yaml"
    file.write_text(json.dumps(task))
    script = (
        f"import sys; sys.modules[{missing!r}] = None\nfrom orbiter.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "task", "run", "-f", str(file)],
        env={
            "PATH": "/usr/bin:/bin",
            "TMPDIR": str(tmp_path),
            "HOME": str(tmp_path),
            "OPENAI_API_KEY": "k",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"error: this needs {missing}")
    assert done.stderr.endswith(f": pip install 'orbiter-cli[{extra}]'\n")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [file]


def worker(directory: Path, agent: dict[str, Any] | None = None, **more: str) -> LocalWorker:
    """A worker of the task team/fix; nothing is started."""
    spec = {"agent": {"type": "orbiter", **(agent or {})}, "timeoutSeconds": 60}
    manifest = Manifest("fix", "team", spec, {}, {})
    environ = {"TASK_ATTEMPT": "9", "MINE": "kept", **more}
    log = directory / "worker.log"
    return LocalWorker(manifest, "redis://nowhere", directory, log, environ, UID)
