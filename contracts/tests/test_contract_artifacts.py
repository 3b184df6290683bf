"""What artifacts may be called, which patterns there are, and who is told of the store."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orbiter_contracts.artifact_scripts import read_index
from orbiter_contracts.artifacts import (
    MAX_INDEX_BYTES,
    MAX_PATTERNS,
    Artifacts,
    ArtifactsReport,
    file_name_problem,
    pattern_problem,
)
from orbiter_contracts.messages import DeveloperWorkerInput
from orbiter_contracts.object_store import VARIABLES, StoreAddress, endpoint_problem, environment

SUM = "0" * 64
FILE = {"name": "a", "key": "0000-a", "size_bytes": 1, "sha256": SUM, "place": "redis"}


@pytest.mark.parametrize(
    "pattern", ["a", "out/", "out/*.md", "**", "**/x", ".hidden", "a b", "…", "a" * 256]
)
def test_a_path_from_the_workspace_on_is_a_pattern(pattern: str) -> None:
    assert pattern_problem(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    ["", "/", "/etc", "..", "a/../b", "./a", "a//b", "a/..", "a\nb", "a\x00", "a\\b", "a" * 257],
)
def test_what_leads_out_of_the_workspace_is_no_pattern(pattern: str) -> None:
    assert pattern_problem(pattern)
    with pytest.raises(ValidationError):
        DeveloperWorkerInput(task_id="t", prompt="p", artifacts=[pattern])


def test_a_message_has_only_so_many_patterns() -> None:
    with pytest.raises(ValidationError):
        DeveloperWorkerInput(task_id="t", prompt="p", artifacts=["a"] * (MAX_PATTERNS + 1))


@pytest.mark.parametrize(
    "name",
    [
        *("", "/a", "a//b", "../a", "a/..", ".", "a\nb", "a\x1b[2J", "a\u202eb", "bad\udcff"),
        *("a\x85b", "a\u2028b", "é" * 257, "a\x00"),
    ],
)
def test_a_name_that_a_terminal_or_a_disk_would_take_wrongly_is_none(name: str) -> None:
    assert file_name_problem(name)


@given(st.text())
def test_a_name_that_is_one_stays_below_its_directory(name: str) -> None:
    if file_name_problem(name) is None:
        assert not name.startswith("/")
        assert not {"", ".", ".."} & {*name.split("/")}
        assert not {"Cc", "Cf", "Cs", "Zl", "Zp"} & {*map(unicodedata.category, name)}


@given(st.text() | st.binary())
def test_reading_an_index_is_total(text: str | bytes) -> None:
    assert read_index(text) is None or isinstance(read_index(text), Artifacts)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../a"},
        {"key": "../../other"},
        {"key": "0000-a/b"},
        {"sha256": "x"},
        {"size_bytes": -1},
        {"place": "disk"},
    ],
)
def test_an_index_with_a_hostile_entry_is_none(changes: dict[str, object]) -> None:
    time = "2026-01-10T12:00:00Z"
    good = Artifacts.model_validate({"time": time, "files": [FILE]})
    assert read_index(good.model_dump_json()) == good
    bad = good.model_dump(mode="json") | {"files": [FILE | changes]}
    assert read_index(json.dumps(bad)) is None


def test_an_index_that_is_too_long_is_none() -> None:
    assert read_index(b" " * (MAX_INDEX_BYTES + 1)) is None


@pytest.mark.parametrize(
    "url",
    [
        *("", "s3.example.com", "ftp://host", "https://", "https://user:secret@host"),
        *("https://host/bucket", "https://host?x=1", "https://host:0", "http://[::1"),
    ],
)
def test_what_is_no_endpoint_is_refused_without_repeating_a_password(url: str) -> None:
    problem = endpoint_problem(url)
    assert problem
    assert "secret" not in problem


@pytest.mark.parametrize("prefix", ["/a", "../a", "a/../b", "a//b", "."])
def test_a_prefix_stays_in_its_bucket(prefix: str) -> None:
    with pytest.raises(ValidationError):
        StoreAddress(endpoint="https://host", bucket="agents", prefix=prefix)


def test_an_attempts_objects_are_below_its_namespace() -> None:
    store = StoreAddress(endpoint="https://host/", bucket="agents", prefix="x/y/")
    assert store.attempt("team-a", "9f1c", 2) == "x/y/team-a/tasks/9f1c/2"
    assert StoreAddress(endpoint="https://host", bucket="agents").attempt("n", "u", 1) == (
        "n/tasks/u/1"
    )


def test_a_worker_is_told_of_a_store_without_its_credentials() -> None:
    store = StoreAddress(endpoint="https://host", bucket="agents", prefix="x")
    told = environment(store, 60)
    assert {*told} < {*VARIABLES}
    assert not [name for name in told if "KEY" in name]
    assert environment(None, 60) == {"ARTIFACTS_RETENTION_SECONDS": "60"}


def test_a_report_is_complete_when_nothing_was_left_out() -> None:
    assert ArtifactsReport().complete
    assert not ArtifactsReport(reason="TooLarge").complete
