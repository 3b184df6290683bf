"""A Debian base image made on this machine from its own package sources."""

import hashlib
import shutil
import sys
from pathlib import Path

from .catalog import PREFIX, TAG
from .engine import Engine
from .places import IMAGES, ROOT
from .runner import StepError, run
from .stamp import Stamps

NAME = f"{PREFIX}/base:{TAG}"
PACKAGES = ("ca-certificates", "python3", "python3-pip")
# Beside documentation; licences stay.
UNUSED = (
    "usr/share/locale/*",
    "usr/share/man/*",
    "usr/share/info/*",
    "usr/share/lintian/*",
    "var/cache/apt/*",
    "var/lib/apt/lists/*",
    "var/log/*",
)


def stamp(suite: str) -> str:
    """Return what the base is made of."""
    return hashlib.sha256(repr((suite, PACKAGES, UNUSED)).encode()).hexdigest()[:16]


def is_known(known: set[str], suite: str, stamps: Stamps) -> bool:
    """Whether the base was made here as it should be now."""
    return NAME in known and stamps.holds("built base", stamp(suite))


def install_tools() -> None:
    """Install buildah and debootstrap where they are missing."""
    if shutil.which("buildah") and shutil.which("debootstrap"):
        return
    run([sys.executable, str(ROOT / "cluster/cluster.py"), "install", "buildah", "debootstrap"])


def mirror() -> str:
    """Return where this machine gets its Debian packages from.

    Raises:
        StepError: apt knows no such place.
    """
    fields = "$(REPO_URI) $(COMPONENT)"
    listed = run(["apt-get", "indextargets", "--format", fields, "Created-By: Packages"])
    for line in listed.splitlines():
        uri, component = line.split()
        if component == "main" and "security" not in uri:
            return uri
    raise StepError("apt has no source of Debian's main packages: see /etc/apt/sources.list")


def make(engine: Engine, suite: str, stamps: Stamps) -> None:
    """Make the base image; the archive of its files is kept for the next time."""
    archive = IMAGES / f"base-{stamp(suite)}.tar"
    if not archive.exists():
        unpack_packages(suite, archive)
    context = IMAGES / "base"
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir()
    (context / "base.tar").hardlink_to(archive)
    dockerfile = context / "Dockerfile"
    dockerfile.write_text('FROM scratch\nADD base.tar /\nCMD ["/bin/bash"]\n')
    engine.build(str(dockerfile), NAME, {}, context=context)
    stamps.store("built base", stamp(suite))
    shutil.rmtree(context)


def unpack_packages(suite: str, archive: Path) -> None:
    """Let debootstrap unpack a minimal Debian and put its files into an archive."""
    # debootstrap cannot work below a directory with a space in its name.
    parent = Path("/var/tmp") if " " in str(IMAGES) else IMAGES  # noqa: S108
    root = parent / "orbiter-debootstrap"
    discard(root)
    packages = f"--include={','.join(PACKAGES)}"
    run(["debootstrap", "--variant=minbase", packages, suite, str(root), mirror()])
    remove_unused(root)
    partial = archive.with_suffix(".partial")
    run(["tar", "--create", "--numeric-owner", "--file", str(partial), "-C", str(root), "."])
    partial.replace(archive)
    discard(root)


def discard(root: Path) -> None:
    """Remove a tree; what a killed debootstrap has mounted in it is unmounted, not emptied."""
    mounted = (line.split(" ")[1] for line in Path("/proc/self/mounts").read_text().splitlines())
    for point in sorted(mounted, reverse=True):
        if Path(point).is_relative_to(root):
            run(["umount", point])
    if root.exists():
        shutil.rmtree(root)


def remove_unused(root: Path) -> None:
    """Delete what a container has no use for."""
    for pattern in UNUSED:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in (root / "usr/share/doc").rglob("*"):
        if path.is_file() and path.name != "copyright":
            path.unlink()
