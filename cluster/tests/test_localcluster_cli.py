"""The command line before there is a cluster."""

import json
from pathlib import Path

import pytest
from localcluster.cli import main
from localcluster.layout import Layout, from_environment

KUBECTL = """
case "$*" in
  *--context=mine*) echo copied ;;
  *--context=*) exit 1 ;;
  version*) echo '{"clientVersion": {"minor": "35"}}' ;;
  *readyz*) echo ok ;;
esac
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORBITER_STATE", str(tmp_path))
    for name in ("CLUSTER", "CONTEXT", "EGRESS", "NODES"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_kubeconfig_prints_its_path_and_only_that(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / "kubeconfig").touch()
    assert main(["kubeconfig"]) == 0
    assert capsys.readouterr().out == f"{state}/kubeconfig\n"


def test_kubeconfig_without_a_cluster_prints_nothing_but_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["kubeconfig"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "make cluster-up" in printed.err


def test_status_for_programs_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"kind": None, "ready": False}


def test_down_without_a_cluster_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down"]) == 0
    assert "no cluster is up here" in capsys.readouterr().out


def test_another_kind_is_refused_while_one_is_in_use(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"kind": "kind", "link": 0, "nameservers": [], "context": ""}
    (state / "cluster.json").write_text(json.dumps(record))
    assert main(["up", "--cluster", "local"]) == 1
    assert "first `make cluster-down`" in capsys.readouterr().err


def test_a_misspelt_egress_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--egress", "yes"]) == 1
    assert "EGRESS=yes is unknown; write 0 or 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("many", "NODES=many is unknown; write a number from 1 to 4"),
        ("5", "NODES=5 is unknown"),
        ("2", "NODES=2 needs the local cluster; this one is kind"),
    ],
)
def test_nodes_that_cannot_be_are_refused(
    state: Path, capsys: pytest.CaptureFixture[str], nodes: str, said: str
) -> None:
    record = {"kind": "kind", "link": 0, "nameservers": [], "context": ""}
    (state / "cluster.json").write_text(json.dumps(record))
    assert main(["up", "--nodes", nodes]) == 1
    assert said in capsys.readouterr().err


def test_loading_a_missing_image_names_the_file(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"kind": "current", "link": 0, "nameservers": [], "context": "mine"}
    (state / "cluster.json").write_text(json.dumps(record))
    assert main(["load-image", "/nowhere/image.tar"]) == 1
    assert "/nowhere/image.tar is not a file" in capsys.readouterr().err


def test_two_checkouts_have_two_clusters() -> None:
    assert Layout(Path("/a/.orbiter")).id != Layout(Path("/b/.orbiter")).id


def test_state_lives_in_the_checkout_unless_told_otherwise(state: Path) -> None:
    assert from_environment({}).state.name == ".orbiter"
    assert from_environment({"ORBITER_STATE": str(state)}).state == state


def test_a_misspelt_context_can_be_corrected_by_the_next_up(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = state / "tools"
    tools.mkdir()
    for name, script in (("kubectl", KUBECTL), ("helm", "echo v3.20.2")):
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    assert main(["up", "--cluster", "current", "--context", "mien"]) == 1
    assert main(["up", "--cluster", "current", "--context", "mine"]) == 0
    assert "using the cluster of context mine" in capsys.readouterr().out
    assert (state / "kubeconfig").read_text() == "copied\n"
