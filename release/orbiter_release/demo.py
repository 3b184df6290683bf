"""The demo from what is released: the chart's package, and `kubectl orbiter` from the wheels."""

import os
import subprocess
import sys
from pathlib import Path

from orbiter_images.places import ROOT, STATE
from orbiter_images.runner import Report, StepError


def run(packed: Path, programs: Path, report: Report) -> str:
    """Run the demo on the cluster that is up, and look at its task with the plugin of the wheels.

    Args:
        packed: The chart's package.
        programs: Where `kubectl-orbiter` is installed.
        report: Told what comes.

    Raises:
        StepError: The task did not complete, or the plugin cannot tell of it.
    """
    report.say(f"{packed.name} instead of the chart's source; what follows is the demo's own")
    demo = [sys.executable, str(ROOT / "cluster" / "demo.py"), "--chart", str(packed)]
    if subprocess.run(demo, cwd=ROOT, check=False).returncode:
        raise StepError("the demo has failed; above it says why")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    clean |= {
        "KUBECONFIG": str(STATE / "kubeconfig"),
        "PATH": f"{programs}{os.pathsep}{STATE / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["kubectl", "orbiter", "describe", "at/hello"],
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or "Completed" not in done.stdout:
        raise StepError(f"kubectl orbiter describe at/hello: {done.stdout}{done.stderr}"[-2000:])
    return "hello is Completed, and the installed kubectl orbiter tells of it"
