"""`orbiter task run` as a user runs it: the real wrapper, an Orbiter agent, a scripted model."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
COMMAND = (sys.executable, "-c", "from orbiter.cli.main import main; main()")
SECONDS = 120


def manifest(directory, prompt, **spec):
    """Write a task for an Orbiter agent."""
    task = {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentTask",
        "metadata": {"name": "hello"},
        "spec": {"prompt": prompt, "agent": {"type": "orbiter"}, "timeoutSeconds": 100, **spec},
    }
    file = directory / "task.yaml"
    file.write_text(json.dumps(task))
    return file


@pytest.fixture
def environ(model_server, tmp_path):
    """Where the agent's home and model are."""
    home = tmp_path / "home"
    home.mkdir()
    return os.environ | {
        "HOME": str(home),
        "TMPDIR": str(tmp_path),
        "ANTHROPIC_API_KEY": "any",
        # the model is a scripted one on this machine
        "ORBITER_FORBID_MODEL_CALLS": "",
        "ANTHROPIC_BASE_URL": model_server.url,
    }


def orbiter(environ, *arguments):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env=environ,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=SECONDS,
    )


def test_a_task_runs_to_its_end_and_asks_on_its_way(environ, tmp_path):
    file = manifest(
        tmp_path,
        "[[bash: echo made > here; cat here]]\n"
        '[[tool: ask_user {"question": "Which?"}]]\n[[say: {output} it is]]\n[[result]]',
    )
    work = tmp_path / "work"
    done = orbiter(environ, "task", "run", "-f", file, "--workspace", work, "--answer", "main")
    assert done.returncode == 0, done.stderr
    header, row = done.stdout.splitlines()
    assert header.split() == [
        *("NAME", "PHASE", "AGENT", "MESSAGE", "DURATION", "COST", "ATTEMPTS", "REASON")
    ]
    assert row.split()[:6] == ["hello", "Completed", "orbiter", "main", "it", "is"]
    assert row.split()[-2:] == ["2", "Succeeded"]
    assert (work / "here").read_text() == "made\n"
    assert "hello asks: Which?" in done.stderr


def test_what_the_agent_said_and_did_is_in_a_file(environ, tmp_path):
    file = manifest(tmp_path, "[[bash: echo made]]\n[[say: {output} it is]]\n[[result]]")
    told = tmp_path / "told.jsonl"
    done = orbiter(environ, "task", "run", "-f", file, "--transcript", told)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in told.read_text().splitlines()]
    kinds = [event["type"] for event in events if event["type"] != "usage"]
    assert kinds == ["tool_call", "tool_result", "text", "verdict"]
    assert [event["sequence"] for event in events] == [*range(len(events))]
    assert "made it is" in next(event["text"] for event in events if event["type"] == "text")


def test_a_transcript_that_cannot_be_written_is_refused_before_the_agent_begins(environ, tmp_path):
    file = manifest(tmp_path, "[[say: hello]]")
    done = orbiter(environ, "task", "run", "-f", file, "--transcript", tmp_path / "no/told.jsonl")
    assert done.returncode == 2
    assert "told.jsonl" in done.stderr


def test_a_task_has_a_person_approve_what_its_agent_file_names(environ, tmp_path):
    work = tmp_path / "work"
    (work / ".orbiter").mkdir(parents=True)
    (work / ".orbiter/agent.yaml").write_text(
        "name: careful\nmodel: anthropic:claude-sonnet-4-5\ntools: [workspace]\n"
        "approval: [run_command]\n"
    )
    script = "[[bash: echo made >> here; cat here]]\n[[say: {output}]]\n[[result]]"
    options = ("--workspace", work, "--answer", "perhaps", "--answer", "approve")
    done = orbiter(environ, "task", "run", "-f", manifest(tmp_path, script), *options)
    assert done.returncode == 0, done.stderr
    assert "hello asks: May it call run_command {" in done.stderr
    assert "hello asks: 'perhaps' is no answer" in done.stderr
    assert (work / "here").read_text() == "made\n"


def test_a_question_nobody_answers_and_a_failure_have_exit_codes(environ, tmp_path):
    file = manifest(tmp_path, '[[tool: ask_user {"question": "Which?"}]]', projectId="shop")
    done = orbiter(environ, "task", "run", "-f", file, "--json")
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["status"]["inputRequest"] == {"question": "Which?"}
    assert json.loads(done.stdout)["projectId"] == "shop"
    file = manifest(tmp_path, '[[result: {"status": "failure", "summary": "no"}]]')
    done = orbiter(environ, "task", "run", "-f", file)
    assert done.returncode == 1, done.stderr
    assert "AgentError" in done.stdout


def test_a_mistake_in_the_manifest_is_told_before_anything_runs(environ, tmp_path):
    done = orbiter(environ, "task", "run", "-f", manifest(tmp_path, " "))
    assert done.returncode == 2
    assert "spec.prompt: prompt is empty; write what the agent should do" in done.stderr


def left(tmp_path):
    return [file.name for file in tmp_path.glob("orbiter-hello-*")]


def test_a_missing_key_is_named_before_anything_starts(environ, tmp_path):
    del environ["ANTHROPIC_API_KEY"]
    environ.pop("OPENAI_API_KEY", None)
    environ.pop("ANTHROPIC_AUTH_TOKEN", None)
    done = orbiter(environ, "task", "run", "-f", manifest(tmp_path, "Hello"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ANTHROPIC_API_KEY is not set: the agent orbiter needs it")
    assert done.stderr.count("\n") == 1
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("workspace", "told"),
    [
        ("task.yaml", "task.yaml cannot be used: File exists; name a directory"),
        ("/proc/x", "/proc/x cannot be used: No such file or directory"),
    ],
)
def test_a_workspace_that_cannot_be_made_is_told(environ, tmp_path, workspace, told):
    file = manifest(tmp_path, "Hello")
    done = orbiter(environ, "task", "run", "-f", file, "--workspace", tmp_path / workspace)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert left(tmp_path) == []


def test_of_a_success_only_the_agents_files_are_left(environ, tmp_path):
    done = orbiter(environ, "task", "run", "-f", manifest(tmp_path, "[[result]]"))
    assert done.returncode == 0, done.stderr
    assert "workspace" not in done.stderr
    assert left(tmp_path) == []
    file = manifest(tmp_path, "[[bash: echo made > here]] [[result]]")
    done = orbiter(environ, "task", "run", "-f", file, "--json")
    work = Path(json.loads(done.stdout)["workspace"])
    assert (work / "here").read_text() == "made\n"
    assert [item.name for item in work.parent.iterdir()] == ["workspace"]


def test_of_a_failure_the_log_is_left_and_no_secret(environ, tmp_path):
    file = manifest(
        tmp_path,
        '[[result: {"status": "failure", "summary": "no"}]]',
        agent={"type": "orbiter", "fileFrom": {"configMapKeyRef": {"name": "a", "key": "f"}}},
    )
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    agent = json.dumps({"name": "a", "model": "anthropic:claude-sonnet-4-5"})
    file.write_text(file.read_text() + "\n---\n" + json.dumps({**config, "data": {"f": agent}}))
    done = orbiter(environ, "task", "run", "-f", file)
    assert done.returncode == 1, done.stderr
    [log] = [line for line in done.stderr.splitlines() if line.startswith("worker's log: ")]
    place = Path(log.removeprefix("worker's log: ")).parent
    assert sorted(item.name for item in place.iterdir()) == ["worker.log"]
    assert "workspace: " not in done.stderr


def test_ctrl_c_at_a_terminal_leaves_whole_lines(environ, tmp_path):
    pipe = tmp_path / "begun"
    os.mkfifo(pipe)
    file = manifest(tmp_path, f"[[bash: echo yes > {pipe}; tail -f /dev/null]]")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "task", "run", "-f", str(file)],
        env=environ, stdin=theirs, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        with pipe.open() as begun:
            assert begun.read() == "yes\n"
        process.send_signal(signal.SIGINT)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:
            pass  # Linux' way to say that the other end is closed
        process.wait(SECONDS)
    os.close(ours)
    lines = [line.rpartition("\r\x1b[K")[2] for line in shown.decode().split("\r\n")]
    assert process.returncode == 130
    assert any(line.startswith("NAME    PHASE") for line in lines), lines
    assert any(line.startswith("hello   Cancelled") for line in lines), lines


def test_ctrl_c_stops_the_agent_and_leaves_nothing_behind(environ, tmp_path):
    mark = f"orbiter-{os.getpid()}"
    pipe = tmp_path / "begun"
    os.mkfifo(pipe)
    script = f"echo yes > {pipe}; exec -a {mark} tail -f /dev/null"
    file = manifest(tmp_path, f"[[bash: {script}]]")
    with subprocess.Popen(
        [*COMMAND, "task", "run", "-f", str(file)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        with pipe.open() as begun:
            assert begun.read() == "yes\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, err
    assert "Cancelled" in out
    assert "Traceback" not in err
    assert not _running(mark)


def test_ctrl_c_at_the_agents_question_ends_it_too(environ, tmp_path):
    file = manifest(tmp_path, '[[tool: ask_user {"question": "Which?"}]]')
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [*COMMAND, "task", "run", "-f", str(file)],
            env=environ,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            while process.stderr.read(1) != ">":
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=SECONDS)
    finally:
        os.close(ours)
        os.close(theirs)
    assert process.returncode == 130
    assert "Cancelled" in out


def test_exec_is_one_turn_for_programs(environ):
    done = subprocess.run(
        [*COMMAND, "exec", "--session-id", "s"],
        input="[[say: hello]] [[result]]",
        env=environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["result"].startswith("hello")
    assert said["session_id"] == "s"
    assert said["cost_usd"] > 0


def _running(mark):
    lines = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(place.read_text())
        except OSError:
            continue  # it has just ended
    return [line for line in lines if line.startswith(mark)]
