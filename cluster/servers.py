#!/usr/bin/env python3
"""The servers that agents talk to in the demo and in the tests: a scripted model, and git.

`python3 cluster/servers.py model-server git-server` puts them on the cluster of this checkout. The
demo and the tests want the model to be told different things, so whoever installs a server owns
its whole Deployment: what somebody else has set there before is gone. Runs on the system's own
Python.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from install import ensure_namespace, kubectl
from localcluster.errors import ClusterError
from localcluster.layout import REPOSITORY, Layout, from_environment
from localcluster.report import Reporter

NAMESPACE = "orbiter-test"
MANIFESTS = REPOSITORY / "tests" / "e2e" / "manifests"
SERVERS = ("model-server", "git-server")
MODEL_URL = f"http://model-server.{NAMESPACE}.svc"
ROLLOUT_SECONDS = 120


def install_server(layout: Layout, name: str, env: Mapping[str, str] | None = None) -> None:
    """Put one server on the cluster as its manifest says, and wait until it answers.

    Args:
        layout: Where this checkout's cluster is.
        name: One of `SERVERS`.
        env: Variables for it beside those of its manifest.

    Raises:
        ClusterError: It cannot be installed, or does not answer in time.
    """
    ensure_namespace(layout, NAMESPACE)
    home = ("-n", NAMESPACE)
    objects = _objects(layout, name)
    _tell(objects, env or {})
    manifest = {"apiVersion": "v1", "kind": "List", "items": objects}
    # `apply` alone would keep what another command has added. A new Deployment also takes the
    # newest image, whose tag is always the same.
    gone = ("--ignore-not-found", "--cascade=foreground")
    kubectl(layout, *home, "delete", f"deployment/{name}", *gone)
    kubectl(layout, *home, "apply", "-f", "-", stdin=json.dumps(manifest))
    ready = ("rollout", "status", f"deployment/{name}", f"--timeout={ROLLOUT_SECONDS}s")
    kubectl(layout, *home, *ready)


def _objects(layout: Layout, name: str) -> list[dict[str, Any]]:
    """The objects of a server's manifest; kubectl is the one program here that reads YAML."""
    path = str(MANIFESTS / f"{name}.yaml")
    read = ("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", path)
    text = kubectl(layout, "-n", NAMESPACE, *read).strip()
    objects = []
    while text:
        found, end = json.JSONDecoder().raw_decode(text)
        objects.append(found)
        text = text[end:].lstrip()
    return objects


def _tell(objects: list[dict[str, Any]], env: Mapping[str, str]) -> None:
    """Give the Deployment's one container these variables."""
    for item in objects:
        if item["kind"] == "Deployment":
            (container,) = item["spec"]["template"]["spec"]["containers"]
            told = [{"name": variable, "value": value} for variable, value in env.items()]
            container["env"] = [*container.get("env", ()), *told]


def main(argv: Sequence[str]) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=SERVERS, metavar="NAME")
    layout, report = from_environment(), Reporter()
    try:
        for name in parser.parse_args(argv).names:
            with report.step(f"starting the {name}", "3 s"):
                install_server(layout, name)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
