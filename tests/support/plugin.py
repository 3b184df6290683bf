"""`kubectl orbiter`, run by the real kubectl as its plugin."""

import os
import subprocess
import sys
from pathlib import Path

from support.cluster import STATE
from support.world import NAMESPACE, World

CALL_SECONDS = 120


class Plugin:
    """kubectl with our plugin on PATH."""

    def __init__(self, world: World) -> None:
        tools = [str(STATE / "bin"), str(Path(sys.executable).parent)]
        path = os.pathsep.join([*tools, os.environ["PATH"]])
        self._environ = {
            **os.environ,
            "PATH": path,
            "KUBECONFIG": str(world.cluster.kubeconfig),
        }

    def command(self, *words: str) -> tuple[list[str], dict[str, str]]:
        """How it is run, and in which environment."""
        return ["kubectl", "orbiter", *words, "-n", NAMESPACE], self._environ

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Begin to run it."""
        command, environ = self.command(*words)
        return subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        """Run it; return what it printed, on stdout if all is well and on stderr if not."""
        with self.start(*words) as child:
            said, complained = child.communicate(timeout=CALL_SECONDS)
        assert child.returncode == code, f"{words}: {child.returncode}\n{said}\n{complained}"
        return complained if code else said
