"""What kind and docker are asked to do; both are stand-ins here, for machines without an engine."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from localcluster.errors import ClusterError
from localcluster.kindcluster import KindCluster
from localcluster.layout import Layout
from localcluster.report import Reporter

Calls = Callable[[], list[str]]
# A cluster exists while the file does; its node is ready as soon as it exists.
KIND = """
case "$1 $2" in
  "create cluster") touch {exists} ;;
  "delete cluster") rm {exists} ;;
  "get clusters") [ ! -e {exists} ] || echo {name} ;;
esac
"""
KUBECTL = """
case "$1" in
  version) echo '{{"clientVersion": {{"minor": "35"}}}}' ;;
  *) [ -e {exists} ] && echo True ;;
esac
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


@pytest.fixture
def calls(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    log, tools = tmp_path / "calls", tmp_path / "tools"
    tools.mkdir()
    scripts = {"kind": KIND, "kubectl": KUBECTL, "docker": "", "helm": "echo v3.20.2"}
    for name, script in scripts.items():
        body = script.format(exists=tmp_path / "exists", name=f"orbiter-{layout.id}")
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\n{body}\n')
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return lambda: log.read_text().splitlines()


@pytest.fixture
def cluster(layout: Layout) -> KindCluster:
    return KindCluster(layout, Reporter(io.StringIO()))


def test_up_creates_a_cluster_with_a_kubeconfig_of_its_own(
    cluster: KindCluster, layout: Layout, calls: Calls
) -> None:
    cluster.up()
    created = next(call for call in calls() if call.startswith("kind create"))
    assert f"--name orbiter-{layout.id}" in created
    assert f"--kubeconfig {layout.kubeconfig}" in created


def test_a_second_up_creates_nothing(cluster: KindCluster, calls: Calls) -> None:
    cluster.up()
    cluster.up()
    assert sum(call.startswith("kind create") for call in calls()) == 1


def test_down_deletes_only_the_cluster_of_this_checkout(
    cluster: KindCluster, layout: Layout, calls: Calls
) -> None:
    cluster.up()
    cluster.down()
    deleted = [call for call in calls() if call.startswith("kind delete")]
    assert deleted == [
        f"kind delete cluster --name orbiter-{layout.id} --kubeconfig {layout.kubeconfig}"
    ]


def test_images_are_loaded_from_archives(
    cluster: KindCluster, layout: Layout, calls: Calls
) -> None:
    cluster.up()
    cluster.load_image(Path("worker.tar"))
    assert f"kind load image-archive worker.tar --name orbiter-{layout.id}" in calls()


@pytest.mark.usefixtures("calls")
def test_a_component_that_kind_cannot_restart_is_refused(cluster: KindCluster) -> None:
    with pytest.raises(ClusterError, match="kind lets only these be killed: etcd, apiserver"):
        cluster.kill("kubelet")
