"""What a pod would get from Secrets and ConfigMaps: here from the same file or the environment."""

from pathlib import Path

from orbiter.cli.task.auth import along_its_way
from orbiter.cli.task.manifest import Manifest, Object
from orbiter.cli.ui.outcome import UsageError
from orbiter_contracts.mcp_servers import mcp_problem, told_of_mcp_servers
from orbiter_contracts.references import reference_problem, references, unescaped


def prompt_of(manifest: Manifest) -> str:
    """The task's prompt, also when a ConfigMap of the file holds it.

    Raises:
        UsageError: That ConfigMap is not in the file, or the prompt names what other tasks found.
    """
    if "prompt" in manifest.spec:
        prompt = str(manifest.spec["prompt"])
    else:
        prompt = _config(manifest, manifest.spec["promptFrom"]["configMapKeyRef"], "promptFrom")
    problem = reference_problem(prompt, manifest.spec.get("dependsOn", ()))
    if problem is None and (named := references(prompt)):
        problem = f"prompt: {named[0]}: the results of other tasks are on a cluster only"
    if problem:
        raise UsageError(f"spec.{problem}")
    return unescaped(prompt)


def system_prompt(manifest: Manifest) -> str | None:
    """The agent's system prompt; its instructions are in there, and not in your own HOME.

    Raises:
        UsageError: A ConfigMap that is named is not in the file.
    """
    agent: Object = manifest.spec["agent"]
    said = agent.get("instructions") or {}
    text = said.get("text")
    if reference := said.get("configMapKeyRef"):
        text = _config(manifest, reference, "agent.instructions")
    return "\n\n".join(filter(None, (text, agent.get("systemPrompt")))) or None


def environment(manifest: Manifest, own: dict[str, str], private: Path) -> dict[str, str]:
    """The environment of the worker: ours, and what the task's agent is given.

    Args:
        manifest: The task.
        own: Our environment; secrets that are not in the file are looked for there by their key.
        private: Directory that nobody else reads, for what has to be a file.

    Raises:
        UsageError: A Secret or ConfigMap that is named is nowhere, or its agent's way is none here.
    """
    agent: Object = manifest.spec["agent"]
    found = along_its_way(manifest, own)
    if reference := agent.get("credentialsSecretRef"):
        found |= manifest.secrets.get(reference["name"], {})
    for item in agent.get("env") or ():
        found[item["name"]] = _value(manifest, item, own)
    found |= _mcp_servers(manifest, agent.get("mcpServers") or [])
    if source := agent.get("fileFrom"):
        file = private / "agent.yaml"
        file.write_text(_config(manifest, source["configMapKeyRef"], "agent.fileFrom"))
        found["AGENT_FILE"] = str(file)
    git = (manifest.spec.get("workspace") or {}).get("git") or {}
    if reference := git.get("credentialsSecretRef"):
        found["GIT_CREDENTIALS_DIR"] = str(_git(manifest, reference["name"], private))
    return found


def _mcp_servers(manifest: Manifest, servers: list[Object]) -> dict[str, str]:
    """What the worker is told of MCP servers; their secrets are in the file, or nowhere."""
    if problem := mcp_problem(servers):
        raise UsageError(f"spec.agent.{problem}")
    told = told_of_mcp_servers(servers)
    found = dict(told.environment)
    for variable, kept in told.secrets.items():
        value = manifest.secrets.get(kept.name, {}).get(kept.key)
        if value is None:
            raise UsageError(
                f"spec.agent.mcpServers: Secret {kept.name} with key {kept.key} is not in the "
                "file; add it behind a line with ---"
            )
        found[variable] = value
    return found


def _value(manifest: Manifest, item: Object, own: dict[str, str]) -> str:
    if "value" in item:
        return str(item["value"])
    reference = item["valueFrom"]["secretKeyRef"]
    kept = manifest.secrets.get(reference["name"], {}).get(reference["key"])
    value = kept if kept is not None else own.get(item["name"])
    if value is None:
        raise UsageError(
            f"agent.env {item['name']}: Secret {reference['name']} is not in the file and the "
            "variable is not set here; add one of them"
        )
    return value


def _config(manifest: Manifest, reference: Object, field: str) -> str:
    text = manifest.config_maps.get(reference["name"], {}).get(reference["key"])
    if text is None:
        raise UsageError(
            f"spec.{field}: ConfigMap {reference['name']} with key {reference['key']} is not in "
            "the file; add it behind a line with ---"
        )
    return str(text)


def _git(manifest: Manifest, name: str, private: Path) -> Path:
    if name not in manifest.secrets:
        raise UsageError(
            f"spec.workspace.git.credentialsSecretRef: Secret {name} is not in the file; add it"
        )
    directory = private / "git"
    directory.mkdir(mode=0o700)
    for key, value in manifest.secrets[name].items():
        file = directory / key
        file.touch(mode=0o600)
        file.write_text(value)
    return directory
