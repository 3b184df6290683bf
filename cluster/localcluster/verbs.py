"""What each verb does, whatever the kind of cluster."""

import fcntl
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from localcluster import host, packages, toolchain
from localcluster import record as records
from localcluster.choice import Machine, choose
from localcluster.errors import ClusterError
from localcluster.existing import ExistingCluster
from localcluster.kindcluster import KindCluster
from localcluster.layout import REGISTRY, Layout
from localcluster.local import LocalCluster
from localcluster.node import KUBERNETES_MINOR, MAX_NODES
from localcluster.provider import Provider, Status
from localcluster.record import Record
from localcluster.report import Reporter
from localcluster.shell import succeeds

NO_CLUSTER = "no cluster is up here; start one with `make cluster-up`"


def up(layout: Layout, wanted: str, context: str, egress: str, nodes: str = "") -> int:
    """Bring the cluster up; empty arguments mean: as before, or what fits this machine."""
    report = Reporter()
    with _lock(layout, report):
        before = records.load(layout.record)
        record = _decide(layout, before, wanted, context, egress)
        record = _with_nodes(record, nodes)
        if record.kind == "local":
            _mention_others(layout, report)
        if record.kind != "current":  # a misspelt context should not be remembered
            records.save(layout.record, record)
        _provider(layout, record, report).up()
        records.save(layout.record, record)
    return 0


def down(layout: Layout, *, everything: bool) -> int:
    """Take the cluster down; with `everything` remove the built tools, too."""
    report = Reporter()
    with _lock(layout, report):
        record = records.load(layout.record)
        if record is None and (REGISTRY / layout.id).exists():
            record = Record("local")  # somebody removed the state directory while it ran
        if record is None:
            report.say("no cluster is up here")
        else:
            _provider(layout, record, report).down()
            layout.record.unlink(missing_ok=True)
    if everything:
        for directory in (layout.build, layout.bin):
            shutil.rmtree(directory, ignore_errors=True)
    return 0


def status(layout: Layout, *, as_json: bool) -> int:
    """Print how the cluster is; 0 when ready, 1 when not."""
    record = records.load(layout.record)
    if record is None:
        print(json.dumps({"kind": None, "ready": False}) if as_json else NO_CLUSTER)
        return 1
    found = _provider(layout, record, Reporter()).status()
    if as_json:
        print(json.dumps({**asdict(found), "kubeconfig": str(layout.kubeconfig)}))
    else:
        print(_in_words(found, layout))
    return 0 if found.ready else 1


def _in_words(status: Status, layout: Layout) -> str:
    verdict = "ready" if status.ready else "not ready"
    rows = [
        (name, f"pid {pids[0]}" if pids else "not running")
        for name, pids in status.components.items()
    ]
    rows.append(("kubeconfig", str(layout.kubeconfig)))
    lines = [f"  {name:20} {value}" for name, value in rows]
    return "\n".join([f"{status.kind} cluster: {verdict}: {status.detail}", *lines])


def kubeconfig(layout: Layout) -> int:
    """Print the path of the kubeconfig, and only that."""
    if not layout.kubeconfig.exists():
        raise ClusterError(NO_CLUSTER)
    print(layout.kubeconfig)
    return 0


def tools(layout: Layout) -> int:
    """Build what `up` would build."""
    report = Reporter()
    with _lock(layout, report):
        record = records.load(layout.record)
        kind = record.kind if record else choose(os.environ.get("CLUSTER", ""), "", _machine())
        if kind == "local":
            toolchain.build_node(layout, report)
            toolchain.build_cni(layout, report)
        if kind == "kind":
            toolchain.provide_kind(layout, report)
        minor = KUBERNETES_MINOR if kind == "local" else None
        toolchain.provide_kubectl(layout, report, minor)
        toolchain.provide_helm(layout, report)
    return 0


def install(wanted: Sequence[str]) -> int:
    """Install distribution packages that dpkg does not know as installed."""
    missing = [name for name in wanted if not packages.is_installed(name)]
    packages.ensure(missing, Reporter())
    return 0


def load_images(layout: Layout, archives: Sequence[Path]) -> int:
    """Load OCI archives into the cluster."""
    report = Reporter()
    provider = _running(layout, report)
    for archive in archives:
        if not archive.is_file():
            raise ClusterError(f"{archive} is not a file; an OCI archive was expected")
        with report.step(f"loading {archive.name}"):
            provider.load_image(archive)
    return 0


def has_image(layout: Layout, name: str) -> int:
    """0 when the cluster has the image, 1 when not."""
    return 0 if _running(layout, Reporter()).has_image(name) else 1


def crash(layout: Layout, verb: str, component: str) -> int:
    """Kill, start or restart a component."""
    report = Reporter()
    with _lock(layout, report):
        provider = _running(layout, report)
        if verb in ("kill", "restart"):
            with report.step(f"killing {component}"):
                provider.kill(component)
        if verb in ("start", "restart"):
            with report.step(f"starting {component}"):
                provider.start(component)
    return 0


def _decide(
    layout: Layout, before: Record | None, wanted: str, context: str, egress: str
) -> Record:
    if egress not in ("", "0", "1"):
        raise ClusterError(f"EGRESS={egress} is unknown; write 0 or 1")
    if before is None:
        kind = choose(wanted, context, _machine())
        link = host.free_link(int(layout.id[:2], 16)) if kind == "local" else 0
        return Record(kind, link, host.nameservers() if egress == "1" else (), context)
    if wanted not in ("", before.kind) or (context and context != before.context):
        name = before.context or before.kind
        raise ClusterError(f"another cluster is in use here: {name}; first `make cluster-down`")
    if egress == "":
        return before
    return replace(before, nameservers=host.nameservers() if egress == "1" else ())


def _with_nodes(record: Record, wanted: str) -> Record:
    """The record with so many nodes; those that stay keep their links."""
    if wanted == "":
        return record
    if wanted not in map(str, range(1, MAX_NODES + 1)):
        raise ClusterError(f"NODES={wanted} is unknown; write a number from 1 to {MAX_NODES}")
    if record.kind != "local" and wanted != "1":
        raise ClusterError(f"NODES={wanted} needs the local cluster; this one is {record.kind}")
    links = record.links[: int(wanted)]
    while len(links) < int(wanted):
        links = (*links, host.free_link(links[-1] + 1, beside=links))
    return replace(record, more_links=links[1:])


def _machine() -> Machine:
    return Machine(
        docker=succeeds(["docker", "info"]),
        linux=sys.platform == "linux",
        root=os.geteuid() == 0,
    )


def _provider(layout: Layout, record: Record, report: Reporter) -> Provider:
    if record.kind == "kind":
        return KindCluster(layout, report)
    if record.kind == "current":
        return ExistingCluster(layout, record.context, report)
    if os.geteuid() != 0:
        raise ClusterError("the local cluster belongs to root; run the same command with sudo")
    return LocalCluster(layout, record, report)


def _running(layout: Layout, report: Reporter) -> Provider:
    record = records.load(layout.record)
    if record is None:
        raise ClusterError(NO_CLUSTER)
    return _provider(layout, record, report)


def _mention_others(layout: Layout, report: Reporter) -> None:
    for state in host.others(layout):
        report.say(
            f"note: another local cluster (about 1.2 GB of memory) runs from {state}; stop it "
            f"with: ORBITER_STATE={shlex.quote(str(state))} make cluster-down"
        )


@contextmanager
def _lock(layout: Layout, report: Reporter) -> Iterator[None]:
    try:
        layout.state.mkdir(parents=True, exist_ok=True)
        layout.lock.touch()
    except PermissionError:
        raise ClusterError(
            f"{layout.state} is not writable: use the user it belongs to (root? then sudo), or "
            "set ORBITER_STATE to another directory"
        ) from None
    with layout.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with report.step("waiting for another command on this cluster to end"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
