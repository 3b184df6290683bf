"""What a task that ran on this machine leaves there: files of its agent and its log, no more."""

import pytest

from orbiter.cli.task.directory import run_directory
from orbiter.cli.ui.outcome import UsageError


@pytest.fixture(autouse=True)
def made_in(tmp_path, monkeypatch):
    home = tmp_path / "tmp"
    home.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(home))
    return home


@pytest.mark.parametrize("error", [UsageError("no"), OSError(), KeyboardInterrupt(), ValueError()])
def test_an_error_before_the_run_leaves_nothing(made_in, tmp_path, error):
    with pytest.raises(type(error)), run_directory("a", str(tmp_path / "deep/work")):
        raise error
    assert list(made_in.iterdir()) == []
    assert not (tmp_path / "deep").exists()


def test_of_a_failure_the_log_is_left_and_no_empty_directory(made_in, tmp_path):
    with run_directory("a", str(tmp_path / "deep/work")) as run:
        run.log.write_text("why")
        run.clear(failed=True)
    assert [path.name for path in made_in.rglob("*")] == [run.path.name, "worker.log"]
    assert not (tmp_path / "deep").exists()


def test_a_failure_without_a_log_leaves_no_directory(made_in):
    with run_directory("a", None) as run:
        run.clear(failed=True)
    assert list(made_in.iterdir()) == []


@pytest.mark.parametrize("failed", [True, False])
def test_what_was_there_and_what_the_agent_made_is_left(made_in, tmp_path, failed):
    (tmp_path / "mine").mkdir()
    with run_directory("a", str(tmp_path / "mine")) as run:
        run.clear(failed=failed)
    assert (tmp_path / "mine").is_dir()
    with run_directory("a", None) as run:
        (run.workspace / "file").touch()
        run.clear(failed=failed)
    assert (run.workspace / "file").exists()


def test_after_a_success_a_workspace_that_was_asked_for_is_there(made_in, tmp_path):
    with run_directory("a", str(tmp_path / "deep/work")) as run:
        run.log.write_text("what it did")
        run.clear(failed=False)
    assert (tmp_path / "deep/work").is_dir()
    assert list(made_in.iterdir()) == []
