#!/usr/bin/env python3
"""What `make demo-chat` shows: a session that wakes for a message, sleeps, and still remembers.

The cluster and the images are there already (see the Makefile). With an ANTHROPIC_API_KEY in the
environment the agent talks to the real API; without one, to the scripted model server that the
tests use, which is told in [[brackets]] what to answer.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from demo import NAMESPACE, SETTINGS, credentials
from install import install, kubectl
from localcluster.errors import ClusterError
from localcluster.layout import REPOSITORY, Layout, from_environment
from localcluster.report import Reporter

SESSION = REPOSITORY / "examples" / "session.yaml"
NAME = "alice"
PLUGIN = REPOSITORY / ".venv" / "bin" / "kubectl-orbiter"
# A demo cannot wait a quarter of an hour for a session to fall asleep.
IMPATIENT = {"spec": {"idle": {"scaleToZeroAfterSeconds": 5}, "streaming": "Enabled"}}
TALK = (
    "Remember this: the launch is on Friday. Answer in one sentence.",
    "When is the launch?",
)
SCRIPTED_TALK = ("[[remember: the launch is on Friday]]", "[[recall]]")
PATIENCE_SECONDS = 120


@contextmanager
def watching(layout: Layout) -> Iterator[None]:
    """Print `kubectl get posessions -w` beside what happens meanwhile."""
    command = [str(layout.bin / "kubectl"), "--kubeconfig", str(layout.kubeconfig), "-n", NAMESPACE]
    command += ["get", "posessions", "-w", "--field-selector", f"metadata.name={NAME}"]
    print("\n$ kubectl get posessions -w &", flush=True)
    with subprocess.Popen(command) as child:
        try:
            yield
        finally:
            child.terminate()


def orbiter(layout: Layout, *words: str) -> None:
    """Run `kubectl orbiter` and let its words be seen."""
    shown = " ".join(f'"{word}"' if " " in word or "[" in word else word for word in words)
    print(f"\n$ kubectl orbiter {shown}", flush=True)
    began = time.monotonic()
    path = f"{layout.bin}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "KUBECONFIG": str(layout.kubeconfig)}
    code = subprocess.call([str(PLUGIN), "-n", NAMESPACE, *words], env=environ)
    if code != 0:
        raise ClusterError(f"`kubectl orbiter {shown}` ended with {code}")
    print(f"({time.monotonic() - began:.1f} s)\n", flush=True)


def asleep(layout: Layout) -> None:
    """Wait until the session sleeps and its pod is gone."""
    wait = ("wait", f"--timeout={PATIENCE_SECONDS}s")
    base = ("-n", NAMESPACE)
    kubectl(layout, *base, *wait, f"posession/{NAME}", "--for=jsonpath={.status.phase}=Asleep")
    pods = ("pods", "-l", f"orbiter.dev/posession={NAME}")
    kubectl(layout, *base, *wait, *pods, "--for=delete")


def talk(layout: Layout) -> None:
    """Say something, wait until the session sleeps, and ask for it."""
    first, second = TALK if os.environ.get("ANTHROPIC_API_KEY") else SCRIPTED_TALK
    with watching(layout):
        orbiter(layout, "chat", NAME, "--once", first)
        asleep(layout)
        print("(asleep: no pod, no cost)", flush=True)
        orbiter(layout, "chat", NAME, "--once", second)
    orbiter(layout, "usage", NAME)


def main() -> int:
    """Run the demo; returns the exit code."""
    layout, report = from_environment(), Reporter()
    began = time.monotonic()
    try:
        install(layout, report, ["default"], SETTINGS)
        credentials(layout, report)
        with report.step(f"kubectl apply -f {SESSION.relative_to(REPOSITORY)}"):
            kubectl(layout, "-n", NAMESPACE, "delete", "posession", NAME, "--ignore-not-found")
            kubectl(layout, "-n", NAMESPACE, "apply", "-f", str(SESSION))
            change = ("patch", "posession", NAME, "--type=merge", "-p", json.dumps(IMPATIENT))
            kubectl(layout, "-n", NAMESPACE, *change)
        talk(layout)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; `make demo-chat` again continues where it can", file=sys.stderr)
        return 130
    print(f"\nDemo done in {time.monotonic() - began:.0f} s. Next, talk to it yourself:")
    print(f"  export KUBECONFIG={layout.kubeconfig} PATH={layout.bin}:{PLUGIN.parent}:$PATH")
    print(f"  kubectl orbiter chat {NAME}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
