"""`kubectl orbiter` reads objects of strange contents, and all others beside them."""

import json

import pytest
from support.fake_kubectl import FakeKubectl, a_task, kubectl
from typer.testing import CliRunner

from orbiter.cli.kubectl.client import Kubectl, Scope, decode
from orbiter.cli.kubectl.main import app

__all__ = ["kubectl"]
STRANGE = {
    "1100 nested objects": '{"a":' * 1100 + "1" + "}" * 1100,
    "9000 nested lists": "[" * 9000 + "]" * 9000,
    "half a character": '"\\ud800"',
    "an integer of 5000 digits": "9" * 5000,
}


@pytest.fixture(params=STRANGE.values(), ids=STRANGE)
def strange(request: pytest.FixtureRequest, kubectl: FakeKubectl) -> FakeKubectl:
    """A cluster with a good task and one of strange contents."""
    (kubectl.home / "overlay").write_text(request.param)
    task = a_task("strange", phase="Failed", reason="InvalidSpec", message="too deep")
    task["spec"]["podTemplate"] = "the-overlay"
    kubectl.has(a_task("good", phase="Completed"), task)
    return kubectl


def test_a_list_has_all_objects(strange: FakeKubectl) -> None:
    found = Kubectl(Scope()).list_all("agenttasks.orbiter.dev")
    assert [each["metadata"]["name"] for each in found] == ["good", "strange"]


def test_a_strange_task_is_watched_to_its_end(strange: FakeKubectl) -> None:
    result = CliRunner().invoke(app, ["watch", "strange"], catch_exceptions=False)
    assert result.exit_code == 1
    assert "Failed (InvalidSpec)" in result.stdout


@pytest.mark.parametrize("written", ['{"a":' * 900 + "1" + "}" * 900, "1e999"])
def test_what_json_itself_would_read_is_bounded_too(written: str) -> None:
    task = decode(f'{{"spec":{{"podTemplate":{written}}}}}')
    json.dumps(task, allow_nan=False)
    value, depth = task["spec"]["podTemplate"], 0
    while isinstance(value, dict):
        value, depth = value["a"], depth + 1
    assert isinstance(value, str)
    assert depth <= 200
