"""What a task of the cluster was told to do: its spec, as fields to read and as YAML. Total.

A spec names Secrets and never has what is in them; what is in it anybody sees who may get the task.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from orbiter.server._internal.cluster_detail import Object, part_of
from orbiter.server.cluster_task_models import ClusterSpec, SpecField

VALUE_CHARS: Final = 2_000
YAML_CHARS: Final = 1_500_000
"""More than a spec has that the API server takes; its escapes may be longer."""
_NOT_SHOWN: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Everything once more."""
_UNBROKEN: Final = 2**31 - 1


def spec_of(item: Object) -> ClusterSpec:
    """Return a task's spec for people. It takes its time, so not on the event loop.

    Args:
        item: As the API server has it.
    """
    text = _yaml(item)
    fields = [
        SpecField(name=name, value=_cut(_seen(value))) for name, value in _fields(item) if value
    ]
    return ClusterSpec(fields=fields, yaml=text[:YAML_CHARS], yaml_cut=len(text) > YAML_CHARS)


def _fields(item: Object) -> Iterator[tuple[str, str]]:
    meta, spec, status = (part_of(item, key) for key in ("metadata", "spec", "status"))
    agent = part_of(spec, "agent")
    begun = part_of(status, "agent")
    yield "Agent", _said(agent.get("type") or begun.get("type"))
    yield "Model", _said(agent.get("model") or begun.get("model"))
    profile = part_of(status, "profile") or part_of(spec, "profileRef")
    yield "Profile", _words(profile.get("kind"), profile.get("name"))
    yield "Prompt from", _key(part_of(spec, "promptFrom"), "configMapKeyRef", "ConfigMap")
    yield "System prompt", _said(agent.get("systemPrompt"))
    yield "Agent's file", _key(part_of(agent, "fileFrom"), "configMapKeyRef", "ConfigMap")
    yield from _limits(spec, agent)
    yield from _workspace(part_of(spec, "workspace"))
    yield "Artifacts", _listed(spec.get("artifacts"))
    yield "After", _listed(spec.get("dependsOn"))
    yield "Goes on from", _said(spec.get("resumeFrom"))
    yield "One at a time", _said(spec.get("concurrencyKey"))
    yield "Priority", _said(spec.get("priority"))
    yield "Queue", _words(spec.get("queueName"), spec.get("queuePriorityClass"))
    yield from _access(agent)
    yield "Run by", _said(spec.get("managedBy"))
    yield "Kept for", _with("", spec.get("ttlSecondsAfterFinished"), " s after its end")
    if spec.get("desiredState") == "Cancelled":
        yield "Cancelled", _with("by ", spec.get("cancelledBy")) or "yes"
    labels = part_of(meta, "labels").items()
    yield "Labels", ", ".join(f"{_said(key)}={_said(value)}" for key, value in labels)


def _limits(spec: Object, agent: Object) -> Iterator[tuple[str, str]]:
    retry, disruption = part_of(spec, "retry"), part_of(spec, "disruption")
    yield (
        "At most",
        _joined(
            _with("", agent.get("maxCostUSD"), " USD"),
            _with("", agent.get("maxTurns"), " turns"),
            _with("", spec.get("timeoutSeconds"), " s an attempt"),
            _with("", spec.get("inputTimeoutSeconds"), " s for an answer"),
        ),
    )
    yield (
        "Further attempts",
        _joined(_said(retry.get("limit")), _with("after ", retry.get("backoffSeconds"), " s")),
    )
    yield (
        "When its pod is taken",
        _joined(
            _said(disruption.get("policy")),
            _with("at most ", disruption.get("limit"), " times"),
            _with("a checkpoint every ", disruption.get("checkpointSeconds"), " s"),
        ),
    )


def _workspace(workspace: Object) -> Iterator[tuple[str, str]]:
    git, volume = part_of(workspace, "git"), part_of(workspace, "persistentVolumeClaim")
    yield "Repository", _said(git.get("url"))
    yield "Branch", _words(git.get("branch"), _with("from ", git.get("ref")))
    yield "Push", _said(git.get("push"))
    yield "Git credential", _with("Secret ", part_of(git, "credentialsSecretRef").get("name"))
    yield "Volume", _said(volume.get("claimName"))
    yield "Setup", _said(workspace.get("setup"))


def _access(agent: Object) -> Iterator[tuple[str, str]]:
    """What the agent is given: of a Secret its name, and never what is in it."""
    yield "Credentials", _with("Secret ", part_of(agent, "credentialsSecretRef").get("name"))
    yield "Way to the model", _said(part_of(agent, "auth").get("type"))
    yield "Environment", _lines(_variable(each) for each in _objects(agent.get("env")))
    yield (
        "MCP servers",
        _lines(
            _joined(_said(each.get("name")), _said(each.get("url")) or _command(each))
            for each in _objects(agent.get("mcpServers"))
        ),
    )
    skills = (_said(part_of(each, "configMapRef").get("name")) or _said(each.get("name"))
              for each in _objects(agent.get("skills")))  # fmt: skip
    yield "Skills", _joined(*skills)
    told = part_of(agent, "instructions")
    yield "Instructions", _said(told.get("text")) or _key(told, "configMapKeyRef", "ConfigMap")


def _command(server: Object) -> str:
    arguments = server.get("args")
    return _words(server.get("command"), *(arguments if isinstance(arguments, list) else ()))


def _variable(given: Object) -> str:
    name = _said(given.get("name"))
    secret = _key(part_of(given, "valueFrom"), "secretKeyRef", "Secret")
    return f"{name} from {secret}" if secret else f"{name}={_said(given.get('value'))}"


def _key(told: Object, reference: str, kind: str) -> str:
    found = part_of(told, reference)
    name, key = _said(found.get("name")), _said(found.get("key"))
    return f"{kind} {name}, {key}" if name else ""


def _said(value: object) -> str:
    """A text or a number as it is; nothing of whatever is neither."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return value[: VALUE_CHARS + 1] if isinstance(value, str) else str(value)


def _with(before: str, value: object, behind: str = "") -> str:
    said = _said(value)
    return f"{before}{said}{behind}" if said else ""


def _words(*values: object) -> str:
    return " ".join(filter(None, map(_said, values)))


def _joined(*texts: str) -> str:
    return ", ".join(filter(None, texts))


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(filter(None, texts))


def _listed(values: object) -> str:
    return _joined(*map(_said, values)) if isinstance(values, list) else _said(values)


def _objects(values: object) -> list[Object]:
    found = values if isinstance(values, list) else []
    return [each for each in found if isinstance(each, dict)]


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARS else f"{text[: VALUE_CHARS - 1]}…"


def _yaml(item: Object) -> str:
    """An object as people write it, without what the cluster has added."""
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        """The library's, with texts of several lines as they are."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        hides = not value.replace("\n", "").isprintable()
        style = '"' if hides else "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    meta = part_of(item, "metadata")
    notes = {k: v for k, v in part_of(meta, "annotations").items() if k != _NOT_SHOWN}
    kept = {key: meta[key] for key in ("name", "namespace", "labels") if meta.get(key)}
    shown = {
        "apiVersion": item.get("apiVersion", "orbiter.dev/v1alpha1"),
        "kind": item.get("kind", "AgentTask"),
        "metadata": {**kept, **({"annotations": notes} if notes else {})},
        "spec": item.get("spec"),
    }
    try:
        told: str = yaml.dump(
            shown, Dumper=Dumper, allow_unicode=True, sort_keys=False, width=_UNBROKEN
        )
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return f"# this spec cannot be written as YAML: {type(error).__name__}\n"
    return _seen(told)


def _seen(text: str) -> str:
    """A text in which nothing hides, such as marks that turn letters around: in YAML in quotes."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else _escape(ord(c)) for c in text)


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
