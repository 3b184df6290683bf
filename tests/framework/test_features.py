"""The feature table of README: our marks have tests, and the file it is made of is today's."""

import ast
import asyncio
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/peers"))

import adapter_orbiter  # noqa: E402 - the checks of other frameworks are programs, not a package
import kept_probes  # noqa: E402
import probes  # noqa: E402
from catalog import FEATURES  # noqa: E402
from homes import PEERS, version_of  # noqa: E402

FOUND = json.loads((ROOT / "bench" / "features.json").read_text())


@pytest.mark.parametrize("feature", [f for f in FEATURES if f.test], ids=lambda f: f.probe)
def test_the_test_of_a_feature_exists(feature):
    path, name = feature.test.split("::")
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tests = ast.walk(ast.parse((ROOT / path).read_text()))
    assert name in {node.name for node in tests if isinstance(node, functions)}


async def test_our_own_probes_say_what_our_tests_say(monkeypatch):
    monkeypatch.setenv("ORBITER_FORBID_MODEL_CALLS", "")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("PROBE_SERVER_PYTHON", sys.executable)
    found = await probes.answers(adapter_orbiter.PEER)
    found |= await asyncio.to_thread(kept_probes.answers, "orbiter")
    assert found == {feature.probe: bool(feature.test) for feature in FEATURES}


def test_the_answers_are_of_these_rows_and_versions():
    rows = [(row["what"], row["test"]) for row in FOUND["features"]]
    assert rows == [(f.what, f.test) for f in FEATURES], "run `make check-peers`"
    assert FOUND["versions"] == {name: version_of(name) for name in PEERS}, "run `make check-peers`"
    assert all({"orbiter", *PEERS} == row["found"].keys() for row in FOUND["features"])


@pytest.mark.parametrize("name", ["pydantic-ai", "openai-agents"])
def test_a_page_on_moving_names_the_version_it_was_run_with(name):
    page = (ROOT / "docs" / f"migrate-from-{name}.md").read_text()
    assert f"with {name} {version_of(name)}" in " ".join(page.split())
