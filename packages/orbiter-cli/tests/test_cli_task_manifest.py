"""Manifests for `orbiter task run`: held against the CRD, mistakes told with their line."""

import json
from pathlib import Path

import pytest
import yaml

from orbiter.cli.task.manifest import CHECKS, read_manifest
from orbiter.cli.task.settings import environment, prompt_of, system_prompt
from orbiter.cli.ui.outcome import UsageError
from orbiter_operator.kube.models import Agent
from orbiter_operator.tasks.models import TaskSpec

ROOT = Path(__file__).parents[3]
TASK = """\
apiVersion: orbiter.dev/v1alpha1
kind: AgentTask
metadata: {name: fix}
spec:
  prompt: do it
"""
CONFIG = """\
---
apiVersion: v1
kind: ConfigMap
metadata: {name: texts}
data: {prompt: from a map, agent: "name: poet"}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {ANTHROPIC_API_KEY: secret, TOKEN: t}
data: {username: Ym90}
"""


@pytest.fixture
def file(tmp_path):
    def write(text=TASK):
        path = tmp_path / "task.yaml"
        path.write_text(text)
        return path

    return write


def test_the_copy_of_the_schema_is_that_of_the_crd():
    copy = ROOT / "packages/orbiter-cli/src/orbiter/cli/data/agenttask.yaml"
    assert copy.read_text() == (ROOT / "crds/agenttask.yaml").read_text(), "run `make crds`"


def test_every_rule_that_is_checked_is_one_of_the_crd():
    text = " ".join((ROOT / "crds/agenttask.yaml").read_text().split())
    for message in CHECKS:
        assert message in text


def test_the_example_of_the_project_is_valid_and_gets_the_schemas_defaults():
    manifest = read_manifest(ROOT / "examples/task.yaml")
    assert manifest.spec["retry"]["limit"] >= 0
    assert manifest.spec["agent"]["type"] == "claude"
    assert manifest.spec["inputTimeoutSeconds"] == 259200


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("prompt: do it", "promt: do it"), r"task\.yaml:5: spec\.promt: there is no such field"),
        (("prompt: do it", "prompt: 5"), r"task\.yaml:5: spec\.prompt: 5 is not of type 'string'"),
        (("prompt: do it", "prompt: ' '"), r"task\.yaml:5: spec\.prompt: prompt is empty; write"),
        (("prompt: do it", "taskId: x"), r"task\.yaml:4: spec: a task needs a prompt"),
        (("name: fix", "name: Fix me"), r"task\.yaml:3: metadata\.name: 'Fix me' is no name"),
        (
            ("do it", "x\n  agent: {type: cursor}"),
            r"spec\.agent\.type: unknown agent.*, not 'cursor'",
        ),
        (("do it", "x\n  agent: {type: clod}"), r"task\.yaml:6: spec\.agent\.type: unknown agent"),
        (("do it", "x\n  retry: {limit: -1}"), r"spec\.retry\.limit: -1 is less than the minimum"),
        (("do it", "x\n  timeoutSeconds: 0"), r"task\.yaml:6: .*must be from 1 to 604800"),
        (("kind: AgentTask", "kind: Pod"), r"task\.yaml has no AgentTask of orbiter"),
        (("do it", "[x"), r"task\.yaml:\d: it is no YAML"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_field(file, change, said):
    with pytest.raises(Exception, match=said):
        read_manifest(file(TASK.replace(*change)))


def test_of_several_tasks_one_is_chosen_by_name(file):
    both = file(f"{TASK}---\n{TASK.replace('fix', 'other')}")
    with pytest.raises(UsageError, match="no AgentTask named 'nope'; there are: fix, other"):
        read_manifest(both, "nope")
    with pytest.raises(UsageError, match="there are: fix, other; choose with --name"):
        read_manifest(both)
    assert read_manifest(both, "other").name == "other"


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("${{deps.plan.result.data.steps}}", "the results of other tasks are on a cluster only"),
        ("${{deps.build.result.data.x}}", "build is not in dependsOn"),
    ],
)
def test_a_prompt_that_needs_other_tasks_is_refused(file, prompt, words):
    spec = f"  dependsOn: [plan]\n  prompt: {json.dumps(prompt)}\n"
    manifest = read_manifest(file(TASK.replace("  prompt: do it\n", spec)))
    with pytest.raises(UsageError, match=words):
        prompt_of(manifest)


def test_a_prompt_says_with_two_dollars_what_is_no_reference(file):
    spec = '  prompt: "Explain $${{deps.NAME}}."\n'
    manifest = read_manifest(file(TASK.replace("  prompt: do it\n", spec)))
    assert prompt_of(manifest) == "Explain ${{deps.NAME}}."


def test_what_a_pod_would_mount_comes_from_the_same_file(file, tmp_path):
    spec = """\
  promptFrom: {configMapKeyRef: {name: texts, key: prompt}}
  agent:
    type: orbiter
    credentialsSecretRef: {name: keys}
    fileFrom: {configMapKeyRef: {name: texts, key: agent}}
    env: [{name: T, valueFrom: {secretKeyRef: {name: keys, key: TOKEN}}}]
  workspace: {git: {url: "https://example.com/a.git", credentialsSecretRef: {name: keys}}}
"""
    manifest = read_manifest(file(TASK.replace("  prompt: do it\n", spec) + CONFIG))
    assert prompt_of(manifest) == "from a map"
    found = environment(manifest, {"ANTHROPIC_API_KEY": "ours", "PATH": "p"}, tmp_path)
    assert (found["ANTHROPIC_API_KEY"], found["T"], found["PATH"]) == ("secret", "t", "p")
    assert yaml.safe_load(Path(found["AGENT_FILE"]).read_text()) == {"name": "poet"}
    assert (Path(found["GIT_CREDENTIALS_DIR"]) / "username").read_text() == "bot"


def test_what_is_named_and_nowhere_is_said(file, tmp_path):
    spec = "  agent: {env: [{name: T, valueFrom: {secretKeyRef: {name: k, key: T}}}]}\n"
    manifest = read_manifest(file(TASK + spec))
    assert environment(manifest, {"T": "ours"}, tmp_path)["T"] == "ours"
    with pytest.raises(UsageError, match=r"agent\.env T: Secret k is not in the file"):
        environment(manifest, {}, tmp_path)


def test_instructions_are_part_of_the_system_prompt(file):
    spec = "  agent: {systemPrompt: be brief, instructions: {%s}}\n"
    said = read_manifest(file(TASK + spec % "text: be kind"))
    assert system_prompt(said) == "be kind\n\nbe brief"
    kept = spec % "configMapKeyRef: {name: texts, key: prompt}"
    assert system_prompt(read_manifest(file(TASK + kept + CONFIG))) == "from a map\n\nbe brief"
    assert system_prompt(read_manifest(file())) is None


def test_mcp_servers_have_their_secrets_from_the_same_file(file, tmp_path):
    server = """\
  agent:
    mcpServers:
      - name: docs
        url: https://docs.example.com/mcp
        headers: [{name: Authorization, valueFrom: {secretKeyRef: {name: %s, key: TOKEN}}}]
"""
    found = environment(read_manifest(file(TASK + server % "keys" + CONFIG)), {}, tmp_path)
    assert found["AGENT_MCP_SECRET_1"] == "t"
    assert '"variable": "AGENT_MCP_SECRET_1"' in found["AGENT_MCP_SERVERS"]
    with pytest.raises(UsageError, match="Secret other with key TOKEN is not in the file"):
        environment(read_manifest(file(TASK + server % "other" + CONFIG)), {}, tmp_path)
    wrong = server.replace("name: docs", "name: -docs")
    with pytest.raises(UsageError, match=r"mcpServers\[0\].name: is no name of a server"):
        environment(read_manifest(file(TASK + wrong % "keys" + CONFIG)), {}, tmp_path)


def test_what_a_profile_could_have_said_has_the_operators_defaults_without_a_cluster(file):
    text = "apiVersion: orbiter.dev/v1alpha1\nkind: AgentTask\nmetadata: {name: a}\n"
    spec = read_manifest(file(text + "spec: {prompt: go, profileRef: {name: house}}")).spec
    assert (spec["agent"], spec["timeoutSeconds"]) == ({"type": "claude"}, 1800)
    assert (Agent().type, TaskSpec().timeout_seconds) == ("claude", 1800)
