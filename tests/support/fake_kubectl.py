"""A `kubectl` on PATH that answers from objects the test keeps, and notes what it was asked.

Whatever runs kubectl as a subprocess is tested with it, flags, pipes and exit codes included.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("fake_kubectl_program.py")
Object = dict[str, Any]
_PATIENCE_SECONDS = 20.0
_POLL_SECONDS = 0.005


@dataclass(frozen=True)
class Call:
    """One run of kubectl."""

    argv: list[str]
    stdin: str


class FakeKubectl:
    """A cluster of objects in a file.

    Attributes:
        home: The directory of its files.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.bin = home / "bin"
        self.bin.mkdir(parents=True)
        program = self.bin / "kubectl"
        # -I -S: nothing of ours is imported, which makes it start in a hundredth of a second
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {PROGRAM} "$@"\n')
        program.chmod(0o755)
        (home / "objects.json").write_text("[]")

    def environment(self) -> dict[str, str]:
        """The variables with which a process finds it."""
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "FAKE_KUBECTL_HOME": str(self.home)}

    def has(self, *objects: Object) -> None:
        """Add objects, or replace those of the same kind and name."""
        new = {_key(each): each for each in objects}
        old = [each for each in self.objects if _key(each) not in new]
        self._keep([*old, *new.values()])

    def change(self, kind: str, name: str, change: Callable[[Object], object]) -> None:
        """Change one object."""
        found = self.objects
        change(next(each for each in found if _key(each)[:2] == (kind, name)))
        self._keep(found)

    def status(self, kind: str, name: str, **status: Any) -> None:
        """Change fields of an object's status, as the operator does."""
        self.change(kind, name, lambda found: found.setdefault("status", {}).update(status))

    def delete(self, kind: str, name: str) -> None:
        """Remove an object."""
        self._keep([each for each in self.objects if _key(each)[:2] != (kind, name)])

    def get(self, kind: str, name: str) -> Object:
        """Read an object."""
        return next(each for each in self.objects if _key(each)[:2] == (kind, name))

    def once_told(self, action: Callable[[], object], *, times: int = 1) -> threading.Thread:
        """Do something when `get --watch` has told a state so many times from now on."""
        path = self.home / "told"
        path.write_text("")

        def wait() -> None:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while len(path.read_text().splitlines()) < times and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            action()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        return thread

    def fails(self, said: str) -> None:
        """Let every call fail with these words on stderr."""
        (self.home / "fails").write_text(said)

    @property
    def objects(self) -> list[Object]:
        """All objects."""
        found: list[Object] = json.loads((self.home / "objects.json").read_text())
        return found

    @property
    def calls(self) -> list[Call]:
        """What it was asked so far."""
        path = self.home / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [Call(**json.loads(line)) for line in lines]

    def _keep(self, objects: list[Object]) -> None:
        draft = self.home / "objects.draft"
        draft.write_text(json.dumps(objects))
        draft.replace(self.home / "objects.json")


def _key(found: Object) -> tuple[str, str, str]:
    metadata = found["metadata"]
    return found["kind"], metadata["name"], metadata["namespace"]


def an_object(kind: str, name: str, *, namespace: str = "default", **fields: Any) -> Object:
    """An object as the API server would show it."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "creationTimestamp": "2026-01-10T12:00:00Z",
        **fields.pop("metadata", {}),
    }
    return {"apiVersion": "orbiter.dev/v1alpha1", "kind": kind, "metadata": metadata, **fields}


def a_task(name: str = "hello", **status: Any) -> Object:
    """An AgentTask with this status."""
    spec = {"prompt": "say hello", "agent": {"type": "claude"}, "timeoutSeconds": 1800}
    return an_object("AgentTask", name, spec=spec, status=status)


def a_session(name: str = "alice", *, spec: Object | None = None, **status: Any) -> Object:
    """A POSession whose worker is po-1."""
    told = {
        "phase": "Asleep",
        "workerId": "po-1",
        "inputStream": "worker:po:po-1:input",
        "outputStream": "worker:po:po-1:output",
        **status,
    }
    wanted = {"userId": 7, "rotation": {"commands": ["/new"]}, **(spec or {})}
    return an_object("POSession", name, spec=wanted, status=told)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    """The fake on this process's PATH."""
    fake = FakeKubectl(tmp_path / "fake-kubectl")
    for name, value in fake.environment().items():
        monkeypatch.setenv(name, value)
    return fake
