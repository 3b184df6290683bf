"""`make test` runs a few failed tests once more, and says so."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration  # each runs pytest, which takes seconds to start

spec = importlib.util.spec_from_file_location(
    "run_of_make_test", Path(__file__).parents[1] / "run.py"
)
assert spec is not None
assert spec.loader is not None
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)

UNSTEADY = """
import pathlib
def test_good(): pass
def test_unsteady():
    mark = pathlib.Path("mark")
    seen = mark.exists()
    mark.touch()
    assert seen
"""


@pytest.fixture
def tests(tmp_path, monkeypatch):
    """Run a file of tests as `make test` does; what failed and what was unsteady."""
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "CACHES", tmp_path / ".pytest_cache")
    monkeypatch.setattr(run, "LOGS", tmp_path)

    def give(text):
        (tmp_path / "test_it.py").write_text(text)
        (tmp_path / "pytest.ini").write_text("[pytest]")
        found = run.Run()
        found.tests("some tests", [sys.executable, "-m", "pytest", "-q"])
        return found

    return give


def test_what_passes_the_second_time_is_unsteady(tests, capfd):
    found = tests(UNSTEADY)
    assert found.failed == []
    assert found.unsteady == ["test_it.py::test_unsteady"]
    assert "1 passed" in capfd.readouterr().out, "only the failed one is run again"


def test_what_fails_twice_has_failed(tests):
    found = tests("def test_bad(): assert False")
    assert found.failed == ["some tests", "some tests, 1 once more"]
    assert found.unsteady == []


def test_how_long_each_took_is_kept_also_when_some_are_run_again(tests, tmp_path):
    tests(UNSTEADY)
    assert 'tests="2"' in (tmp_path / "test-some-tests.xml").read_text()


def test_many_failures_are_no_accident(tests):
    found = tests(
        "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_bad(n): assert 0"
    )
    assert found.failed == ["some tests"]


def test_a_file_that_cannot_be_read_is_no_accident_and_nothing_is_run_for_it_again(tests):
    found = tests("import pytest\n@pytest.mark.parametrize('n', [1])\ndef test_bad(): pass")
    assert found.failed == ["some tests"]
