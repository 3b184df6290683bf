"""Programs from the distribution: installed when missing, without starting their services."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from localcluster.errors import ClusterError
from localcluster.report import Reporter
from localcluster.shell import run, succeeds

# Program -> Debian package. A program that is there already is used, whoever installed it.
NODE_PROGRAMS: Mapping[str, str] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "openssl": "openssl",
    "gcc": "gcc",
}
CNI_DIRECTORIES = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
CNI_PLUGINS = ("ptp", "host-local", "portmap", "loopback")
POLICY = Path("/usr/sbin/policy-rc.d")
# Asked by Debian before it starts a service. This one removes itself should we die midway.
REFUSE_SERVICES = """\
#!/bin/sh
kill -0 {pid} 2>/dev/null && exit 101
rm -f "$0"
"""


def missing_packages() -> list[str]:
    """Debian packages the node needs and this machine lacks."""
    packages = {package for name, package in NODE_PROGRAMS.items() if not shutil.which(name)}
    if cni_plugins() is None:
        packages.add("containernetworking-plugins")
    if "gcc" in packages:
        packages.add("libc6-dev")
    return sorted(packages)


def cni_plugins() -> Path | None:
    """The directory that holds all the CNI plugins a node needs."""
    complete = (path for path in CNI_DIRECTORIES if all((path / n).exists() for n in CNI_PLUGINS))
    return next(complete, None)


def ensure(packages: Iterable[str], report: Reporter) -> None:
    """Install packages with apt.

    Raises:
        ClusterError: apt is not there, we are not root, or a package cannot be installed.
    """
    wanted = sorted(packages)
    if not wanted:
        return
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise ClusterError(
            f"these programs are missing: {', '.join(wanted)} (Debian's package names). "
            "Install them, or run this as root on Debian or Ubuntu."
        )
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with report.step(f"installing {', '.join(wanted)}", "about 20 s"), _no_services():
        run(["apt-get", "update", "-q"], env=env)
        run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *wanted], env=env)


@contextmanager
def _no_services() -> Iterator[None]:
    if POLICY.exists():  # somebody has a policy already, e.g. in a container image
        yield
        return
    POLICY.write_text(REFUSE_SERVICES.format(pid=os.getpid()))
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def is_installed(package: str) -> bool:
    """Whether dpkg has the package."""
    shown = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    return succeeds(shown) and run(shown) == "installed"
