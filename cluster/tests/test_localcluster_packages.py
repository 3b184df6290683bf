"""Installing from the distribution without starting services."""

import io
import os
import subprocess
from pathlib import Path

import pytest
from localcluster import packages
from localcluster.errors import ClusterError
from localcluster.report import Reporter


def ask_policy(tmp_path: Path, pid: int) -> tuple[int, bool]:
    policy = tmp_path / "policy-rc.d"
    policy.write_text(packages.REFUSE_SERVICES.format(pid=pid))
    done = subprocess.run(["/bin/sh", policy, "containerd", "start"], check=False)
    return done.returncode, policy.exists()


def test_services_are_refused_while_we_install(tmp_path: Path) -> None:
    assert ask_policy(tmp_path, os.getpid()) == (101, True)


def test_a_refusal_left_by_a_killed_install_removes_itself(tmp_path: Path) -> None:
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    assert ask_policy(tmp_path, gone.pid) == (0, False)


def test_nothing_is_installed_when_nothing_is_missing() -> None:
    out = io.StringIO()
    packages.ensure([], Reporter(out))
    assert out.getvalue() == ""


def test_without_apt_the_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ClusterError, match="missing: nftables, runc"):
        packages.ensure(["runc", "nftables"], Reporter(io.StringIO()))
