"""An AgentTask from a file, held against the schema that the API server would hold it against.

`data/agenttask.yaml` is a copy of crds/agenttask.yaml (`make crds`). Its rules in CEL that a person
is likely to break are written here again in Python, and told in the CRD's own words.
"""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from orbiter.cli.agent.agent_types import AGENT_TYPES, UNKNOWN_TYPE
from orbiter.cli.agent.yaml_lines import Document, fast, read_documents
from orbiter.cli.ui.outcome import UsageError
from orbiter.cli.ui.sentences import shown

Object = dict[str, Any]
_KIND = ("orbiter.dev/v1alpha1", "AgentTask")
_AGENT, _TIMEOUT_SECONDS = "claude", 1800
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Manifest:
    """What a file says.

    Attributes:
        name: The task's name.
        namespace: Its namespace.
        spec: Its spec with the schema's defaults filled in.
        secrets: Secrets of the same file, by name: their keys as text.
        config_maps: ConfigMaps of the same file, by name.
    """

    name: str
    namespace: str
    spec: Object
    secrets: Mapping[str, Mapping[str, str]]
    config_maps: Mapping[str, Mapping[str, str]]


Check = Callable[[Object], bool]


def _one_place(workspace: Object) -> bool:
    places = workspace.keys() - {"setup"}
    return len(places) == 1 or (not places and "setup" in workspace)


CHECKS: dict[str, tuple[tuple[str, ...], Check]] = {
    "prompt is empty; write what the agent should do": (
        ("prompt",),
        lambda spec: str(spec.get("prompt", "x")).strip() != "",
    ),
    "write prompt or promptFrom, not both": (
        ("promptFrom",),
        lambda spec: not ("prompt" in spec and "promptFrom" in spec),
    ),
    "a task needs a prompt; write prompt, or promptFrom to take it from a ConfigMap": (
        (),
        lambda spec: "prompt" in spec or "promptFrom" in spec,
    ),
    UNKNOWN_TYPE: (
        ("agent", "type"),
        lambda spec: spec["agent"].get("type") in AGENT_TYPES,
    ),
    "timeoutSeconds must be from 1 to 604800 (a week); write for instance 1800 for half an hour": (
        ("timeoutSeconds",),
        lambda spec: 1 <= spec["timeoutSeconds"] <= 604800,
    ),
    "write exactly one of git, persistentVolumeClaim and emptyDir": (
        ("workspace",),
        lambda spec: "workspace" not in spec or _one_place(spec["workspace"]),
    ),
}
"""Rules of the CRD by their message: where the mistake is, and when there is none."""


def read_manifest(path: Path, name: str | None = None) -> Manifest:
    """Read the AgentTask of a file.

    Args:
        path: The file; Secrets and ConfigMaps in it are used, other objects are not.
        name: Which AgentTask, when there are several.

    Raises:
        AgentFileError: The file cannot be read.
        UsageError: There is no such task in it, or it has mistakes; each is told with its line.
    """
    documents = read_documents(path)
    tasks = [item for item in documents if _kind(item) == _KIND]
    names = [str((item.values.get("metadata") or {}).get("name")) for item in tasks]
    if name is not None:
        tasks = [item for item, known in zip(tasks, names, strict=True) if known == name]
    if not names:
        raise UsageError(f"{path} has no AgentTask of orbiter.dev/v1alpha1")
    there = ", ".join(names)
    if name is not None and not tasks:
        raise UsageError(f"{path} has no AgentTask named {name!r}; there are: {there}")
    if len(tasks) != 1:
        raise UsageError(f"{path}: one AgentTask is needed, there are: {there}; choose with --name")
    (document,) = tasks
    mistakes = check(document)
    if mistakes:
        raise UsageError("; ".join(mistakes))
    meta = document.values["metadata"]
    return Manifest(
        name=meta["name"],
        namespace=meta.get("namespace", "default"),
        spec=_spec(document),
        secrets={k: _secret(v) for k, v in _named(documents, "Secret").items()},
        config_maps={k: v.get("data") or {} for k, v in _named(documents, "ConfigMap").items()},
    )


def check(document: Document) -> list[str]:
    """Every mistake of an AgentTask, each with its place."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(_strict(_schema()))
    found = sorted(validator.iter_errors(document.values), key=lambda error: list(error.path))
    mistakes = [document.mistake([*error.path, *_extra(error)], _words(error)) for error in found]
    name = str((document.values.get("metadata") or {}).get("name", ""))
    if not _NAME.fullmatch(name):
        mistakes.append(document.mistake(["metadata", "name"], f"{name!r} is no name of an object"))
    if not mistakes:
        spec = _spec(document)
        mistakes += [
            document.mistake(["spec", *place], message + _value_at(spec, place))
            for message, (place, holds) in CHECKS.items()
            if not holds(spec)
        ]
    return mistakes


def _spec(document: Document) -> Object:
    """The spec with its defaults: the schema's, and of what a profile could have said ours."""
    spec: Object = _filled(_schema()["properties"]["spec"], document.values["spec"])
    agent = {"type": _AGENT} | spec["agent"]
    return {"timeoutSeconds": _TIMEOUT_SECONDS, **spec, "agent": agent}


def _value_at(spec: Object, place: tuple[str, ...]) -> str:
    """The value of a field that a rule does not like, where it has one that can be quoted."""
    value: Any = spec
    for key in place:
        value = value.get(key)
    plain = place and isinstance(value, str | int) and str(value).strip()
    return f", not {shown(value)}" if plain else ""


def _kind(document: Document) -> tuple[Any, Any]:
    return document.values.get("apiVersion"), document.values.get("kind")


def _named(documents: list[Document], kind: str) -> dict[str, Object]:
    found = [item.values for item in documents if item.values.get("kind") == kind]
    return {item["metadata"]["name"]: item for item in found}


def _secret(obj: Object) -> dict[str, str]:
    coded = (obj.get("data") or {}).items()
    plain = {key: base64.b64decode(value).decode("utf-8", "replace") for key, value in coded}
    return plain | (obj.get("stringData") or {})


@cache
def _schema() -> Object:
    text = (files("orbiter.cli") / "data" / "agenttask.yaml").read_text(encoding="utf-8")
    schema: Object = fast(yaml.load, text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _strict(schema: Any, place: str = "") -> Any:
    """The schema with unknown fields refused, as `kubectl apply` does."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(value, key) for key, value in schema.items() if not key.startswith("x-")}
    if "properties" in schema and "type" in schema and place != "metadata":
        made.setdefault("additionalProperties", False)
    if isinstance(made.get("minimum"), int) and made.pop("exclusiveMinimum", None) is True:
        made["exclusiveMinimum"] = made.pop("minimum")
    return made


def _filled(schema: Object, value: Any) -> Any:
    """The value with the schema's defaults for what is absent."""
    if isinstance(value, list) and "items" in schema:
        return [_filled(schema["items"], item) for item in value]
    if not isinstance(value, dict):
        return value
    made = dict(value)
    for key, part in schema.get("properties", {}).items():
        if key not in made and "default" in part:
            made[key] = part["default"]
        if key in made:
            made[key] = _filled(part, made[key])
    return made


def _extra(error: Any) -> list[str]:
    """The name of the field that should not be there."""
    if error.validator != "additionalProperties":
        return []
    known = error.schema.get("properties", {})
    return [next(key for key in error.instance if key not in known)]


def _words(error: Any) -> str:
    if error.validator == "additionalProperties":
        return f"there is no such field; known: {', '.join(error.schema['properties'])}"
    return str(error.message)
