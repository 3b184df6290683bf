"""The running cluster, for tests: kubectl and helm with its kubeconfig, and waiting for objects.

`cluster` is the fixture. Objects go in and out as dicts. `wait_for` follows a watch, so it notices
at once and costs nothing while it waits; a watch that breaks (a restarted API server) is begun
again.
"""

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATE = Path(os.environ.get("ORBITER_STATE", ROOT / ".orbiter"))
Object = dict[str, Any]

_CALL_SECONDS = 120
_RETRY_SECONDS = 0.1
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


class CommandError(Exception):
    """kubectl or helm failed; the text is what it said on stderr."""


class Cluster:
    """One cluster, reached through its kubeconfig."""

    def __init__(self, kubeconfig: Path, tools: Path) -> None:
        self.kubeconfig = kubeconfig
        self._tools = tools

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return its stdout."""
        return self._run("kubectl", arguments, stdin)

    def helm(self, *arguments: str, stdin: str | None = None) -> str:
        """Run helm and return its stdout."""
        return self._run("helm", arguments, stdin)

    def apply(
        self,
        manifest: str | Path | Object | list[Object],
        *flags: str,
        namespace: str | None = "default",
    ) -> str:
        """Apply YAML text, a file or objects; returns what kubectl printed.

        With `namespace=None` each object says where it belongs.
        """
        place = ("-n", namespace) if namespace else ()
        if isinstance(manifest, Path):
            return self.kubectl(*place, "apply", *flags, "-f", str(manifest))
        if isinstance(manifest, list):
            manifest = {"apiVersion": "v1", "kind": "List", "items": manifest}
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        return self.kubectl(*place, "apply", *flags, "-f", "-", stdin=text)

    def find(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        """Read an object, None when there is none."""
        text = self.kubectl("-n", namespace, "get", kind, name, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text else None

    def get(self, kind: str, name: str, namespace: str = "default") -> Object:
        """Read an object that must exist."""
        found: Object = json.loads(self.kubectl("-n", namespace, "get", kind, name, "-o", "json"))
        return found

    def list_all(self, kind: str, namespace: str = "default", selector: str = "") -> list[Object]:
        """Read all objects of a kind in a namespace."""
        text = self.kubectl("-n", namespace, "get", kind, "-l", selector, "-o", "json")
        items: list[Object] = json.loads(text)["items"]
        return items

    def patch(
        self, kind: str, name: str, change: Object, namespace: str = "default", *flags: str
    ) -> str:
        """Merge-patch an object; `--subresource=status` is a flag."""
        change_text = json.dumps(change)
        return self.kubectl(
            *("-n", namespace, "patch", kind, name, "--type=merge", "-p", change_text, *flags)
        )

    def delete(self, kind: str, name: str, namespace: str = "default", *flags: str) -> None:
        """Delete an object, or nothing when there is none."""
        self.kubectl("-n", namespace, "delete", kind, name, "--ignore-not-found", *flags)

    def wait_for(
        self,
        kind: str,
        name: str,
        condition: Callable[[Object], object],
        *,
        namespace: str = "default",
        seconds: float = 60.0,
    ) -> Object:
        """Wait until an object exists and `condition` holds for it; return it as it was then."""
        return self.wait_for_all(
            kind,
            lambda found: name in found and condition(found[name]),
            namespace=namespace,
            flags=(f"--field-selector=metadata.name={name}",),
            seconds=seconds,
        )[name]

    def wait_until_gone(
        self, kind: str, name: str, *, namespace: str = "default", seconds: float = 60.0
    ) -> None:
        """Wait until there is no such object."""
        deadline = time.monotonic() + seconds
        while self.find(kind, name, namespace):
            left = deadline - time.monotonic()
            assert left > 0, f"{kind} {name} is still there after {seconds} s"
            with contextlib.suppress(CommandError):
                self.kubectl(
                    *("-n", namespace, "wait", kind, name, "--for=delete", f"--timeout={left}s")
                )

    def wait_for_all(
        self,
        kind: str,
        condition: Callable[[Mapping[str, Object]], object],
        *,
        namespace: str = "default",
        flags: tuple[str, ...] = (),
        seconds: float = 60.0,
    ) -> dict[str, Object]:
        """Wait until `condition` holds for all objects of a kind, given by name.

        It is asked after each object of the first listing too, so it has to say how many there are.

        Returns:
            The objects as they were then.

        Raises:
            AssertionError: It did not hold in time; the text has the last objects' states.
        """
        deadline = time.monotonic() + seconds
        found: dict[str, Object] = {}
        while time.monotonic() < deadline:
            found = {}
            with contextlib.closing(self._changes(kind, namespace, flags, deadline)) as changes:
                for change, item in changes:
                    found[item["metadata"]["name"]] = item
                    if change == "DELETED":
                        del found[item["metadata"]["name"]]
                    if condition(found):
                        return found
            time.sleep(_RETRY_SECONDS)
        states = {name: item.get("status", item) for name, item in found.items()}
        shown = json.dumps(states, indent=1)[:4000]
        raise AssertionError(f"{kind} in {namespace}: still not so after {seconds} s: {shown}")

    def _changes(
        self, kind: str, namespace: str, flags: tuple[str, ...], deadline: float
    ) -> Generator[tuple[str, Object], None, None]:
        """Every object of a kind and then each change, until the watch breaks or time is over."""
        words = ("-n", namespace, "get", kind, "--watch", "--output-watch-events", "-o", "json")
        argv = self.command("kubectl", *words, *flags)
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            timer = threading.Timer(max(0.0, deadline - time.monotonic()), process.kill)
            timer.start()
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    event = json.loads(line)
                    yield event["type"], event["object"]
            finally:
                timer.cancel()
                process.kill()

    @contextlib.contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """A namespace that enforces the restricted Pod Security Standard and goes at the end."""
        present = self.find("namespace", name)
        if present and present["metadata"].get("deletionTimestamp"):
            self.wait_until_gone("namespace", name, seconds=_CALL_SECONDS)
        labels = {"labels": _RESTRICTED}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **labels}})
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")

    def command(self, tool: str, *arguments: str) -> list[str]:
        """The words that run a tool on this cluster, for tests that keep it running."""
        program = self._tools / tool
        path = str(program) if program.exists() else shutil.which(tool)
        assert path, f"no {tool} in {self._tools} or on PATH: make cluster-up"
        return [path, "--kubeconfig", str(self.kubeconfig), *arguments]

    def _run(self, tool: str, arguments: tuple[str, ...], stdin: str | None) -> str:
        argv = self.command(tool, *arguments)
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=_CALL_SECONDS
        )
        if done.returncode != 0:
            raise CommandError(done.stderr.strip() or f"{tool} {' '.join(arguments)} failed")
        return done.stdout


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The cluster of this checkout. It must be up: `make cluster-up`."""
    kubeconfig = STATE / "kubeconfig"
    assert kubeconfig.exists(), f"no cluster is up ({kubeconfig} is missing): make cluster-up"
    return Cluster(kubeconfig, STATE / "bin")
