"""The program behind `make test`: whatever keeps tests from running makes the run fail."""

import importlib.util
import sys
import threading
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "run.py"


@pytest.fixture
def program():
    spec = importlib.util.spec_from_file_location("whole_run", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_log_outside_of_the_checkout_is_named_and_written(program, tmp_path, capsys):
    run, log = program.Run(), tmp_path / "step.log"
    assert run.step("a step", [sys.executable, "-c", "print('here')"], log)
    assert log.read_text() == "here\n"
    assert "step.log" in capsys.readouterr().out


def test_a_cluster_that_cannot_be_prepared_fails_the_run(program, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "LOGS", tmp_path / "not" / "there")
    run, ready = program.Run(), threading.Event()
    with pytest.raises(FileNotFoundError):
        program.prepare(run, ready)
    assert not ready.is_set()
    assert len(run.failed) == 1


class Steps:
    """A run that runs nothing, and remembers what it was to run."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, list[str]]] = []
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def step(self, name, command, log=None) -> bool:
        self.steps.append((name, list(command)))
        return False


def test_three_minutes_of_faults_have_the_same_seed_each_time(program, monkeypatch):
    monkeypatch.delenv("SEED", raising=False)
    monkeypatch.setattr(program, "cluster_kind", lambda: "local")
    run = Steps()
    program.soak(run)
    ((name, command),) = run.steps
    assert name == "soak"
    assert command[:3] == ["env", "SOAK_SECONDS=180", "SEED=15"]
    assert {"-s", program.SOAK} <= set(command)
    assert (program.ROOT / program.SOAK).exists()


def test_a_seed_that_is_given_is_that_of_the_faults(program, monkeypatch):
    monkeypatch.setenv("SEED", "4711")
    monkeypatch.setattr(program, "cluster_kind", lambda: "local")
    run = Steps()
    program.soak(run)
    assert "SEED=4711" in run.steps[0][1]


def test_a_cluster_without_a_second_node_has_no_soak_and_that_is_said(program, monkeypatch):
    monkeypatch.setattr(program, "cluster_kind", lambda: "kind")
    run = Steps()
    program.soak(run)
    assert run.steps == []
    assert run.said == [
        "soak: left out, its second node needs the local cluster and this one is kind"
    ]
