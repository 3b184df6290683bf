"""The programs that build images: docker, podman or buildah, whichever is there.

Where a registry of base images may not be in reach (buildah on a Debian machine as root), the base
is made here and everything that a Dockerfile would download is mounted into the build.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .places import IMAGES
from .runner import StepError, run

CHOICES = "install docker, podman or buildah; on Debian as root this installs buildah by itself"


@dataclass(frozen=True)
class Engine:
    """A program that understands Dockerfiles.

    Attributes:
        kind: docker, podman or buildah.
        makes_base: whether the base image is made on this machine.
    """

    kind: str
    makes_base: bool = False

    @property
    def _command(self) -> list[str]:
        if self.kind != "buildah":
            return [self.kind]
        # A store of our own: what `make images` needs is gone with the state directory.
        return ["buildah", "--root", str(IMAGES / "storage"), "--runroot", str(IMAGES / "run")]

    def build(
        self,
        dockerfile: str,
        name: str,
        arguments: Mapping[str, str],
        mounts: Iterable[tuple[Path, str]] = (),
        context: Path = Path(),
    ) -> None:
        """Build an image; `mounts` are (directory here, directory in the build)."""
        command = [*self._command, "build", "--quiet", "-f", dockerfile, "-t", name]
        if self.kind == "buildah":
            # A chroot needs no more rights than a root shell has, in containers and small VMs too.
            command += ["--isolation", "chroot", "--layers"]
            for source, target in mounts:
                command += ["--volume", f"{source}:{target}:ro"]
        for key, value in arguments.items():
            command += ["--build-arg", f"{key}={value}"]
        run([*command, str(context)])

    def known(self) -> set[str]:
        """Return the names of the images it has."""
        names = run([*self._command, "images", "--format", self._format])
        return set(names.split())

    @property
    def _format(self) -> str:
        return "{{.Name}}:{{.Tag}}" if self.kind == "buildah" else "{{.Repository}}:{{.Tag}}"

    def export(self, name: str, archive: Path) -> None:
        """Write an image into an uncompressed archive, which a cluster reads once."""
        archive.unlink(missing_ok=True)
        if self.kind == "buildah":
            run([*self._command, "push", "--quiet", name, f"docker-archive:{archive}:{name}"])
        else:
            run([self.kind, "save", "-o", str(archive), name])


def answers(*command: str) -> bool:
    """Whether a program is there and does what it is asked."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def is_debian() -> bool:
    """Whether this machine's own package sources can make a Debian base."""
    release = Path("/etc/os-release")
    return release.exists() and "ID=debian" in release.read_text().split()


def choose() -> Engine:
    """Return the engine to use.

    Raises:
        StepError: There is none, and this is not the machine to install one on.
    """
    if answers("docker", "info"):
        return Engine("docker")
    if answers("podman", "info"):
        return Engine("podman")
    root = os.geteuid() == 0
    if shutil.which("buildah") is None and not (root and is_debian()):
        raise StepError(f"no program to build images with: {CHOICES}")
    return Engine("buildah", makes_base=root and is_debian())
