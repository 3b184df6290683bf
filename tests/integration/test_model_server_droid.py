"""The real droid CLI (Factory) with the scripted model as a model of one's own, on loopback."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.agent_clis import ModelServer, agent_cli

pytestmark = pytest.mark.integration


def test_it_runs_commands_through_the_chat_api(model_server: ModelServer, tmp_path: Path) -> None:
    own = {
        "model": "scripted",
        "displayName": "scripted",
        "baseUrl": f"{model_server.url}/v1",
        "apiKey": "scripted",
        "provider": "generic-chat-completion-api",
    }
    (tmp_path / ".factory").mkdir()
    (tmp_path / ".factory" / "settings.json").write_text(json.dumps({"customModels": [own]}))
    done = subprocess.run(
        [agent_cli("factory"), "exec", "-o", "json", "-m", "custom:scripted-0", "--auto", "high"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FACTORY_API_KEY": "fk-scripted"},
        input="[[bash: echo one]] [[say: it said {output}]]",
        capture_output=True,
        text=True,
        timeout=90,
    )
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["is_error"]) == (0, False)
    assert answer["result"].startswith("it said one")
    assert model_server.stats["requests"]["/v1/chat/completions"] == 2
