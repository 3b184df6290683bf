#!/usr/bin/env python3
"""What `make test` runs: what has no verb of its own, with the two cores kept busy.

The end-to-end tests take the longest, one after the other because they share a cluster, and wait
for most of that time. So they begin as soon as cluster and images are there, and all else runs
beside them, at a lower priority: unit tests, which compute; integration tests, which wait, five at
a time; and what asks the chart or the API server alone.
Behind them come three minutes of random faults on the same cluster, which nobody else may use then:
what asks the API server waits for their end.
A cluster that was up before stays up; one that this run brought up is taken down again
(KEEP_CLUSTER=1 keeps it).

Tests on real parts race with a busy machine now and then. When a few of them fail they are run once
more, and the run says at its end which were unsteady, because each of those is something to mend.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHES = ROOT / ".pytest_cache"
LOGS = Path(os.environ.get("ORBITER_STATE", ROOT / ".orbiter")) / "log"
PYTEST = [str(ROOT / ".venv/bin/python"), "-m", "pytest", "-q", "--durations=8"]
CLUSTER = [sys.executable, str(ROOT / "cluster/cluster.py")]

# What tests start as real servers, and the Debian package it comes from.
SERVERS = {
    "redis-server": "redis-server",
    "postgres": "postgresql",
    "bwrap": "bubblewrap",
    "chromium": "chromium",
    "promtool": "prometheus",
}
_SHOWN = 200
"""Lines of a log that are shown when its step has failed."""
FEW = 5
"""More failures than that are no accident, and are not tried again."""
E2E = "e2e and not apart"
ON_THE_INSTALLATION = ("tests/e2e", "tests/attacks")
SOAK = "tests/e2e/test_e2e_soak.py"
ON_THE_API_SERVER = ("helm/tests", "tests/integration")
"""Where the tests are that need Orbiter on the cluster, and those that need a cluster alone."""
NICE = ("nice", "-n", "10")
UNIT = "not integration and not cluster and not e2e and not upgrade"
# Files are spread over processes: integration tests wait much, unit tests compute.
COMPUTING, WAITING = ("-n", "2", "--dist", "loadfile"), ("-n", "5", "--dist", "loadfile")
PREPARATION: list[tuple[str, Sequence[str]]] = [
    ("cluster up", [*CLUSTER, "up"]),
    ("images", [sys.executable, str(ROOT / "images/build.py")]),
]


class Run:
    """One run: prints a line per step, remembers what failed."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.failed: list[str] = []
        self.unsteady: list[str] = []
        self.ready = False
        """Whether cluster and images are there."""
        self.undisturbed = threading.Event()
        """Set when no faults are made any more, and the API server answers again."""
        self._children: set[subprocess.Popen[bytes]] = set()

    def say(self, text: str) -> None:
        """Print a line with the time since the run began."""
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        print(f"[{minutes:2d}:{seconds:02d}] {text}", flush=True)

    def step(self, name: str, command: Sequence[str], log: Path | None = None) -> bool:
        """Run one step; with `log` its output goes there and is shown only when it fails."""
        began = time.monotonic()
        self.say(f"{name} ..." + (f" (output in {os.path.relpath(log, ROOT)})" if log else ""))
        output = log.open("wb") if log else None
        try:
            child = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
            self._children.add(child)
            code = child.wait()
            self._children.discard(child)
        finally:
            if output:
                output.close()
        took = time.monotonic() - began
        if code == 0:
            self.say(f"{name}: ok in {took:.0f} s")
            return True
        if log:
            print("\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN:]), flush=True)
        self.say(f"{name}: FAILED with exit code {code} after {took:.0f} s")
        self.failed.append(name)
        return False

    def tests(self, name: str, command: Sequence[str], log: Path | None = None) -> None:
        """Run tests; if a few fail, those once more.

        What has failed is remembered by name, because others may run at the same time.
        """
        cache = CACHES / name.replace(" ", "-")
        last_failed = cache / "v/cache/lastfailed"
        last_failed.unlink(missing_ok=True)
        # How long each test took stays beside the logs, for whoever looks where the time goes.
        report = LOGS / f"test-{name.replace(' ', '-')}.xml"
        command = [*command, "-o", f"cache_dir={cache}"]
        if self.step(name, [*command, f"--junitxml={report}"], log):
            return
        names = list(json.loads(last_failed.read_text())) if last_failed.exists() else []
        # A file that cannot be read has failed without a test's name: for it `--lf` would run
        # everything again.
        if not 0 < len(names) <= FEW or not all("::" in name for name in names):
            return
        # In a log of its own: what the first failure said is all there is of an unsteady test.
        again = log and log.with_name(f"{log.stem}-again.log")
        if self.step(f"{name}, {len(names)} once more", [*command, "--lf"], again):
            self.failed.remove(name)
            self.unsteady += names

    def interrupt(self) -> None:
        """Pass Ctrl-C on to the steps that still run and wait for them."""
        for child in list(self._children):
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
        for child in list(self._children):
            child.wait()


def missing_packages() -> list[str]:
    """Packages of servers that the tests need and this machine lacks."""
    places = [os.environ.get("PATH", ""), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    path = os.pathsep.join(places)
    return [package for program, package in SERVERS.items() if not shutil.which(program, path=path)]


def cluster_is_up() -> bool:
    """Whether a cluster of this checkout is running already."""
    return subprocess.run([*CLUSTER, "status"], capture_output=True, check=False).returncode == 0


def prepare(run: Run, ended: threading.Event) -> None:
    """Bring up everything the tests on the cluster need; stops at the first failure."""
    try:
        for name, command in PREPARATION:
            if not run.step(name, command, LOGS / f"test-{name.replace(' ', '-')}.log"):
                return
        run.ready = True
    except Exception as error:
        # In a thread: nobody else would hear of it, and the tests behind it are left out.
        run.failed.append(f"preparation ({type(error).__name__}: {error})")
        raise
    finally:
        ended.set()


def beside(run: Run) -> None:
    """Run what needs no installation, in the time that the tests of it leave."""
    try:
        run.step("unit tests", [*NICE, *PYTEST, *COMPUTING, "-m", UNIT], LOGS / "test-unit.log")
        command = [*NICE, *PYTEST, *WAITING, "-m", "integration"]
        run.tests("integration tests", command, LOGS / "test-integration.log")
        run.undisturbed.wait()
        if run.ready:
            command = [*NICE, *PYTEST, *COMPUTING, "-m", E2E, *ON_THE_API_SERVER]
            run.tests("chart and definitions", command, LOGS / "test-chart.log")
    except Exception as error:
        run.failed.append(f"tests beside ({type(error).__name__}: {error})")
        raise


def everything(run: Run, selection: str | None) -> None:
    """Run all kinds of tests in the order that keeps the machine busy."""
    if missing := missing_packages():
        run.step(f"install {', '.join(missing)}", [*CLUSTER, "install", *missing])
    was_up = cluster_is_up()
    prepared = threading.Event()
    threading.Thread(target=prepare, args=(run, prepared), daemon=True).start()
    run.step("lint", ["make", "-s", "lint"])
    others = threading.Thread(target=beside, args=(run,), daemon=True)
    others.start()
    prepared.wait()
    if run.ready:
        narrow = ["-k", selection] if selection else []
        command = [*PYTEST, "-m", E2E, "--durations=15", *ON_THE_INSTALLATION, *narrow]
        run.tests("end-to-end tests", command)
        if not selection:
            run.tests("soak", [*PYTEST, "-s", "-m", "e2e", SOAK], LOGS / "test-soak.log")
    run.undisturbed.set()
    others.join()
    if was_up or os.environ.get("KEEP_CLUSTER"):
        run.say("the cluster stays up; `make test-cluster` takes it down and tests its life cycle")
        return
    run.step("cluster down", [*CLUSTER, "down"])
    run.tests("cluster life cycle", [*PYTEST, "-m", "cluster"])


def main() -> int:
    """Parse the arguments, run, and say how it ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", dest="selection", help="only these end-to-end tests (pytest -k)")
    arguments = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    run = Run()
    try:
        everything(run, arguments.selection)
    except KeyboardInterrupt:
        run.interrupt()
        run.say("interrupted; run it again, it continues where it can")
        return 130
    for name in run.unsteady:
        run.say(f"UNSTEADY, it failed and then passed: {name}")
    run.say("FAILED: " + ", ".join(run.failed) if run.failed else "everything passed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
