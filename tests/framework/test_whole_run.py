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
    run, ended = program.Run(), threading.Event()
    with pytest.raises(FileNotFoundError):
        program.prepare(run, ended)
    assert ended.is_set(), "nobody waits for it for ever"
    assert not run.ready
    assert len(run.failed) == 1
