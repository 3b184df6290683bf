#!/usr/bin/env python3
"""Puts Orbiter on the cluster of this checkout: `python3 cluster/install.py install`.

A thin layer over `helm upgrade --install` with the images that `make images` built; the same chart
and the same flags work on any cluster. Runs on the system's own Python.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from localcluster.errors import ClusterError
from localcluster.layout import REPOSITORY, Layout, from_environment
from localcluster.report import Reporter
from localcluster.shell import run

RELEASE = "orbiter"
NAMESPACE = "orbiter-system"
CHART = REPOSITORY / "helm" / "orbiter"
ROLLOUT_SECONDS = 180


def kubectl(layout: Layout, *arguments: str, stdin: str | None = None) -> str:
    """Run kubectl on this checkout's cluster and return what it printed.

    Raises:
        ClusterError: it failed; the message ends with what it said.
    """
    argv = [str(layout.bin / "kubectl"), "--kubeconfig", str(layout.kubeconfig), *arguments]
    if stdin is None:
        return run(argv)
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"`kubectl {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout


def helm(layout: Layout, *arguments: str) -> str:
    """Run helm on this checkout's cluster and return what it printed."""
    argv = [str(layout.bin / "helm"), "--kubeconfig", str(layout.kubeconfig), *arguments]
    return run(argv)


def built(layout: Layout, image: str) -> str:
    """The stamp of an image that `make images` built; the tag `dev` is always the same.

    As an annotation of the pods it replaces them when the image is a new one.
    """
    stamps = layout.state / "images" / "stamps.json"
    known = json.loads(stamps.read_text()) if stamps.exists() else {}
    return str(known.get(f"built {image}", "unknown"))


def ensure_namespace(layout: Layout, name: str) -> None:
    """Create a namespace that enforces the restricted Pod Security Standard.

    One that exists already is somebody's, and stays as it is.
    """
    if kubectl(layout, "get", "namespace", name, "--ignore-not-found", "-o", "name"):
        return
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    }
    kubectl(layout, "create", "-f", "-", stdin=json.dumps(manifest))


def install(
    layout: Layout,
    report: Reporter,
    namespaces: Sequence[str],
    values: Sequence[str],
    json_values: Sequence[str] = (),
    chart: Path = CHART,
) -> None:
    """Install or upgrade the chart, and wait until the operator answers.

    `chart` is its directory, or a package of it.
    """
    for name in namespaces:
        ensure_namespace(layout, name)
    with report.step("installing the operator with Helm", "10 s"):
        listed = ",".join(namespaces)
        settings = [
            f"workers.namespaces={{{listed}}}",
            f"operator.podAnnotations.orbiter\\.dev/built={built(layout, 'operator')}",
            f"triggers.podAnnotations.orbiter\\.dev/built={built(layout, 'operator')}",
            *values,
        ]
        helm(
            layout,
            *("upgrade", "--install", RELEASE, str(chart), "--namespace", NAMESPACE),
            *("--create-namespace", "--take-ownership"),
            *("-f", str(CHART / "ci" / "local-values.yaml")),
            *(word for setting in settings for word in ("--set", setting)),
            *(word for setting in json_values for word in ("--set-json", setting)),
            *("--wait", "--timeout", f"{ROLLOUT_SECONDS}s"),
        )


def main(argv: Sequence[str]) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["install", "uninstall"])
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        help="namespace in which tasks may run (repeatable; default when absent)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a value for the chart"
    )
    parser.add_argument(
        "--set-json", action="append", default=[], metavar="KEY=JSON", help="the same, in JSON"
    )
    arguments = parser.parse_args(argv)
    layout, report = from_environment(), Reporter()
    try:
        if arguments.verb == "install":
            namespaces = arguments.namespace or ["default"]
            install(layout, report, namespaces, arguments.set, arguments.set_json)
        else:
            with report.step("uninstalling"):
                helm(layout, "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
