"""Objects as tests write them: a name and the fields that matter."""

from typing import Any

import yaml
from support.cluster import Object

# The parser in C, where PyYAML has it: a rendering of the chart takes 40 ms instead of 360.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
API_VERSION = "orbiter.dev/v1alpha1"


def agent_task(name: str, **spec: Any) -> Object:
    """An AgentTask with a prompt that the spec's fields may replace."""
    spec = {"prompt": "Say hello."} | spec
    return {
        "apiVersion": API_VERSION,
        "kind": "AgentTask",
        "metadata": {"name": name},
        "spec": {field: value for field, value in spec.items() if value is not None},
    }


def po_session(name: str, **spec: Any) -> Object:
    """A POSession of user 1 unless the spec's fields say otherwise."""
    spec = {"userId": 1} | spec
    return {
        "apiVersion": API_VERSION,
        "kind": "POSession",
        "metadata": {"name": name},
        "spec": {field: value for field, value in spec.items() if value is not None},
    }


def read_manifests(text: str) -> list[Object]:
    """The objects of several YAML documents, without the empty ones."""
    return [found for found in yaml.load_all(text, Loader=_LOADER) if found]
