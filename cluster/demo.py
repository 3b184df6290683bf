#!/usr/bin/env python3
"""What `make demo` shows: one AgentTask from `kubectl apply` to its result, on a real cluster.

The cluster and the images are there already (see the Makefile). With an ANTHROPIC_API_KEY in the
environment the agent talks to the real API; without one, to the scripted model server that the
tests use.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

from install import CHART, install, kubectl
from localcluster.errors import ClusterError
from localcluster.layout import REPOSITORY, Layout, from_environment
from localcluster.report import Reporter
from servers import MODEL_URL, install_server
from servers import NAMESPACE as MODEL_NAMESPACE

NAMESPACE = "default"
SETTINGS = [
    # Else the workers could not reach it: it is not on a public address.
    "networkPolicy.modelServer.enabled=true",
    f"networkPolicy.modelServer.namespace={MODEL_NAMESPACE}",
    r"networkPolicy.modelServer.podLabels.app\.kubernetes\.io/name=model-server",
]
SCRIPT = """\
[[say: I will write the program and run it.]]
[[bash: cat > primes.py <<'END'
primes = [n for n in range(2, 30) if all(n % d for d in range(2, n))]
print(*primes)
END
python3 primes.py]]
[[result: {"summary": "primes.py prints 2 3 5 7 11 13 17 19 23 29", "data": {"file": "primes.py"}}]]
"""
TASK = REPOSITORY / "examples" / "task.yaml"
ENDED = {"Completed", "Failed", "Cancelled"}
PATIENCE_SECONDS = 600


def credentials(layout: Layout, report: Reporter) -> None:
    """Give the agent its credentials: the user's key, or a made-up one for the scripted server."""
    key = os.environ.get("ANTHROPIC_API_KEY")
    if key:
        data = {"ANTHROPIC_API_KEY": key}
        report.say("ANTHROPIC_API_KEY is set: the agent uses the real API, and this costs money")
    else:
        data = {"ANTHROPIC_API_KEY": "sk-not-a-key", "ANTHROPIC_BASE_URL": MODEL_URL}
        report.say("no ANTHROPIC_API_KEY is set: the agent talks to a scripted model server")
        with report.step("starting the scripted model server"):
            install_server(layout, "model-server", {"MODEL_SCRIPT": SCRIPT})
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "claude-credentials", "namespace": NAMESPACE},
        # Not `stringData`, which only adds: a demo that used the scripted server before must not
        # leave its address beside the user's key.
        "data": {name: b64encode(text.encode()).decode() for name, text in data.items()},
    }
    # Server-side, so that the key does not end up in a last-applied annotation.
    kubectl(
        layout,
        *("apply", "--server-side", "--force-conflicts", "-f", "-"),
        stdin=json.dumps(secret),
    )


def watch(layout: Layout, name: str) -> None:
    """Print `kubectl get agenttasks -w` until the task has ended."""
    base = [str(layout.bin / "kubectl"), "--kubeconfig", str(layout.kubeconfig), "-n", NAMESPACE]
    command = [*base, "get", "agenttasks", "-w", "--field-selector", f"metadata.name={name}"]
    print(f"\n$ kubectl get agenttasks -w --field-selector metadata.name={name}", flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        patience = threading.Timer(PATIENCE_SECONDS, child.terminate)
        patience.start()
        try:
            for line in child.stdout or ():
                print(line, end="", flush=True)
                if ENDED & set(line.split()):
                    return
        finally:
            patience.cancel()
            child.terminate()
    raise ClusterError(f"agenttask {name} did not end within {PATIENCE_SECONDS} s")


def show(layout: Layout, name: str) -> bool:
    """Print what came of the task; True when it completed."""
    task: dict[str, Any] = json.loads(
        kubectl(layout, "-n", NAMESPACE, "get", "agenttask", name, "-o", "json")
    )
    status = task["status"]
    usage = status.get("usage", {})
    print(f"\n$ kubectl get agenttask {name} -o wide")
    print(kubectl(layout, "-n", NAMESPACE, "get", "agenttask", name, "-o", "wide"))
    print(f"The agent says: {status.get('result', {}).get('summary') or status.get('message')}")
    print(
        f"It took {status.get('durationMs', 0) / 1000:.1f} s, {usage.get('turns', 0)} turns, "
        f"{usage.get('inputTokens', 0)} + {usage.get('outputTokens', 0)} tokens, "
        f"{usage.get('costUSD') or 0:.4f} USD"
    )
    return bool(status.get("phase") == "Completed")


def main() -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chart", type=Path, default=CHART, help="a package of the chart")
    chart = parser.parse_args().chart
    layout, report = from_environment(), Reporter()
    began = time.monotonic()
    try:
        install(layout, report, ["default"], SETTINGS, chart=chart)
        credentials(layout, report)
        name = "hello"
        with report.step(f"kubectl apply -f {TASK.relative_to(REPOSITORY)}"):
            kubectl(layout, "-n", NAMESPACE, "delete", "agenttask", name, "--ignore-not-found")
            kubectl(layout, "-n", NAMESPACE, "apply", "-f", str(TASK))
        watch(layout, name)
        completed = show(layout, name)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; `make demo` again continues where it can", file=sys.stderr)
        return 130
    print(f"\nDemo done in {time.monotonic() - began:.0f} s. Next, try:")
    print(f"  export KUBECONFIG={layout.kubeconfig} PATH={layout.bin}:$PATH")
    print("  kubectl apply -f examples/tasks-depends-on.yaml && kubectl get agenttasks -w")
    return 0 if completed else 1


if __name__ == "__main__":
    sys.exit(main())
