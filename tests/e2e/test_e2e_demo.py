"""What a demo leaves behind changes nothing for whoever uses the cluster next."""

import base64
import importlib
from types import ModuleType

import pytest
from support.installation import ROOT, SERVERS, install_servers
from support.world import World


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program `make demo`, which is no package."""
    monkeypatch.syspath_prepend(str(ROOT / "cluster"))
    return importlib.import_module("demo")


def test_a_model_server_that_is_installed_has_forgotten_what_a_demo_told_it(world: World) -> None:
    model = "deployment/model-server"
    world.kubectl("-n", SERVERS, "set", "env", model, "MODEL_SCRIPT=[[say: primes]]")
    world.kubectl("-n", SERVERS, "annotate", model, "told-by=somebody")
    install_servers("model-server")
    found = world.cluster.get("deployment", "model-server", SERVERS)
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert "env" not in container
    assert "told-by" not in found["metadata"]["annotations"]


def test_with_a_key_a_demo_no_longer_leads_to_the_scripted_model_of_the_one_before(
    world: World, demo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, report = demo.from_environment(), demo.Reporter()
    monkeypatch.setattr(demo, "install_server", lambda *told: None)
    keys = []
    with world.cluster.namespace("e2e-demo") as namespace:
        monkeypatch.setattr(demo, "NAMESPACE", namespace)
        for key in ("", "sk-the-users-own"):
            monkeypatch.setenv("ANTHROPIC_API_KEY", key)
            demo.credentials(layout, report)
            secret = world.cluster.get("secret", "claude-credentials", namespace)["data"]
            keys.append({name: base64.b64decode(text).decode() for name, text in secret.items()})
    assert keys == [
        {"ANTHROPIC_API_KEY": "sk-not-a-key", "ANTHROPIC_BASE_URL": demo.MODEL_URL},
        {"ANTHROPIC_API_KEY": "sk-the-users-own"},
    ]
