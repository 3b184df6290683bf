"""What is built from source, once: Kubernetes, kubectl, helm, kind and the pause image.

A build is skipped when the hash of its inputs is the one it was made from.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from localcluster.archive import single_program_image
from localcluster.errors import ClusterError
from localcluster.layout import SOURCES, Layout
from localcluster.node import KUBERNETES_VERSION, PAUSE_IMAGE
from localcluster.report import Reporter
from localcluster.shell import run, succeeds

NODE_SOURCES = SOURCES / "node"
PAUSE_SOURCE = SOURCES / "pause" / "pause.c"
PROGRAMS = (
    "etcd",
    "coredns",
    "kubectl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "network-policies",
    "volume-provisioner",
)
# A program of its own: it runs once for each pod, and the large one takes 0.1 s to begin.
POD_ADDRESS = "pod-address"
HELM_VERSION = "3.20.2"
HELM_PACKAGE = "helm.sh/helm/v3/cmd/helm"
KUBECTL_PACKAGE = "k8s.io/kubernetes/cmd/kubectl"
KIND_MODULE = "sigs.k8s.io/kind@v0.33.0"
SLOW = "about 6 min cold on 2 cores, seconds when Go's build cache is warm"


def build_node(layout: Layout, report: Reporter) -> Path:
    """Build the multi-call binary; returns the directory where it goes by all its names."""
    binary, names = layout.build / "localcluster", layout.build / "programs"
    _go_build(layout, report, "Kubernetes", binary, ".", SLOW)
    names.mkdir(exist_ok=True)
    for name in PROGRAMS:
        _link(names / name, binary)
    return names


def build_cni(layout: Layout, report: Reporter) -> Path:
    """Build our CNI plugin; returns the directory it is in, which has room for others."""
    binary = layout.build / POD_ADDRESS
    _go_build(layout, report, "a CNI plugin", binary, f"./{POD_ADDRESS}", "a second")
    _link(layout.cni / POD_ADDRESS, binary)
    return layout.cni


def add_plugins(layout: Layout, installed: Path, names: Iterable[str]) -> None:
    """Put the distribution's CNI plugins beside ours: a runtime looks in one directory only."""
    for name in names:
        _link(layout.cni / name, installed / name)


def build_pause_image(layout: Layout, report: Reporter) -> Path:
    """Build the image of the container that holds each pod's namespaces."""
    image = layout.build / "pause.tar"
    stamp = _digest([PAUSE_SOURCE], PAUSE_IMAGE)
    if _is_fresh(image, stamp):
        return image
    with report.step("building the pause image"):
        program = layout.build / "pause"
        run(["gcc", "-Os", "-static", "-s", "-o", str(program), str(PAUSE_SOURCE)])
        architecture = run(["go", "env", "GOARCH"]).strip()
        image.write_bytes(single_program_image(program.read_bytes(), PAUSE_IMAGE, architecture))
        _stamp(image, stamp)
    return image


def provide_kubectl(layout: Layout, report: Reporter, server_minor: int | None) -> None:
    """Put kubectl in the tool folder.

    Args:
        layout: where.
        report: told when something is built.
        server_minor: minor version of the API server, when known: kubectl supports one minor
            version of difference, so an older or newer one on PATH is passed over.
    """
    found = _on_path("kubectl", layout)
    if found and _kubectl_fits(found, server_minor):
        return _link(layout.bin / "kubectl", found)
    multi_call = layout.build / "programs" / "kubectl"
    if not multi_call.exists():
        multi_call = layout.build / "kubectl"
        _go_build(layout, report, "kubectl", multi_call, KUBECTL_PACKAGE, "about 2 min cold")
    return _link(layout.bin / "kubectl", multi_call)


def provide_helm(layout: Layout, report: Reporter) -> None:
    """Put helm 3 in the tool folder."""
    found = _on_path("helm", layout)
    if found and _output([str(found), "version", "--short"]).startswith("v3."):
        return _link(layout.bin / "helm", found)
    binary = layout.build / "helm"
    _go_build(layout, report, "helm", binary, HELM_PACKAGE, "about 1 min cold")
    return _link(layout.bin / "helm", binary)


def provide_kind(layout: Layout, report: Reporter) -> None:
    """Put kind in the tool folder."""
    found = _on_path("kind", layout)
    if found and succeeds([str(found), "version"]):
        return _link(layout.bin / "kind", found)
    binary = layout.build / "kind"
    if not _is_fresh(binary, KIND_MODULE):
        _require_go()
        with report.step(f"building {KIND_MODULE}", "about 1 min cold"):
            run(["go", "install", KIND_MODULE], env={**os.environ, "GOBIN": str(layout.build)})
            _stamp(binary, KIND_MODULE)
    return _link(layout.bin / "kind", binary)


def _go_build(
    layout: Layout, report: Reporter, what: str, binary: Path, package: str, may_take: str
) -> None:
    flags = _linker_flags()
    sources = (path for path in NODE_SOURCES.rglob("*") if path.suffix in (".go", ".mod", ".sum"))
    built_from = sorted(path for path in sources if not path.name.endswith("_test.go"))
    stamp = _digest(built_from, flags, package)
    if _is_fresh(binary, stamp):
        return
    _require_go()
    layout.build.mkdir(parents=True, exist_ok=True)
    new = binary.with_suffix(".new")
    with report.step(f"building {what} from source", may_take):
        run(["go", "build", "-trimpath", "-buildvcs=false", f"-ldflags={flags}",
             "-o", str(new), package], cwd=NODE_SOURCES)  # fmt: skip
        # A new file, not a changed one: running components keep theirs.
        new.rename(binary)
        _stamp(binary, stamp)


def _linker_flags() -> str:
    major, minor, _ = KUBERNETES_VERSION.split(".")
    helm = "helm.sh/helm/v3"
    values = {
        f"{helm}/internal/version.version": f"v{HELM_VERSION}",
        f"{helm}/pkg/chartutil.k8sVersionMajor": major,
        f"{helm}/pkg/chartutil.k8sVersionMinor": minor,
        f"{helm}/pkg/lint/rules.k8sVersionMajor": major,
        f"{helm}/pkg/lint/rules.k8sVersionMinor": minor,
    }
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        values[f"{package}.gitVersion"] = f"v{KUBERNETES_VERSION}"
        values[f"{package}.gitMajor"] = major
        values[f"{package}.gitMinor"] = minor
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in values.items())])


def _require_go() -> None:
    if not shutil.which("go"):
        raise ClusterError(
            "Go 1.25 or newer is needed to build the cluster's programs and is not on PATH: "
            "install it from your distribution or https://go.dev/dl"
        )


def _kubectl_fits(path: Path, server_minor: int | None) -> bool:
    try:
        minor = json.loads(_output([str(path), "version", "--client", "-o", "json"]))
        found = int("".join(filter(str.isdigit, minor["clientVersion"]["minor"])))
    except (ValueError, KeyError):
        return False
    return server_minor is None or abs(found - server_minor) <= 1


def _on_path(name: str, layout: Layout) -> Path | None:
    folders = [f for f in os.get_exec_path() if Path(f).resolve() != layout.bin.resolve()]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return Path(found) if found else None


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and link.readlink() == target:
        return
    new = link.with_name(f".{link.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.rename(link)


def _digest(files: Iterable[Path], *more: str) -> str:
    digest = hashlib.sha256("\0".join(more).encode())
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _stamp_path(built: Path) -> Path:
    return built.with_name(f"{built.name}.stamp")


def _is_fresh(built: Path, stamp: str) -> bool:
    path = _stamp_path(built)
    return built.exists() and path.exists() and path.read_text() == stamp


def _stamp(built: Path, stamp: str) -> None:
    _stamp_path(built).write_text(stamp)
