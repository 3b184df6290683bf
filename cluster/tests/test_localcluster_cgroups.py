"""Telling the cluster's processes from all others."""

from pathlib import Path

import pytest
from localcluster.cgroups import is_member, parse_mounts, weigh
from localcluster.errors import ClusterError

V2 = "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
MEMBER = "12:pids:/orbiter-0123abcd/system/etcd\n1:name=systemd:/\n0::/\n"


def test_cgroup_v2_is_one_hierarchy() -> None:
    found = parse_mounts(V2)
    assert found.unified
    assert found.all == (found.tracking,) == (Path("/sys/fs/cgroup"),)


def test_cgroup_v1_processes_are_tracked_by_the_pids_controller() -> None:
    found = parse_mounts(HYBRID)
    assert not found.unified
    assert found.tracking == Path("/sys/fs/cgroup/pids")


def test_a_hybrid_v2_hierarchy_is_cleaned_up_too() -> None:
    assert Path("/sys/fs/cgroup/unified") in parse_mounts(HYBRID).all


def test_a_machine_without_cgroups_is_told_so() -> None:
    with pytest.raises(ClusterError, match="no cgroups are mounted"):
        parse_mounts("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")


def test_a_process_below_the_clusters_cgroup_is_a_member() -> None:
    assert is_member(MEMBER, "orbiter-0123abcd")


def test_a_process_of_another_cluster_is_not() -> None:
    assert not is_member(MEMBER, "orbiter-0123")


def test_a_process_of_a_further_node_is_the_clusters_too_and_no_other_nodes() -> None:
    below = MEMBER.replace("orbiter-0123abcd", "orbiter-0123abcd/node2")
    assert is_member(below, "orbiter-0123abcd")
    assert is_member(below, "orbiter-0123abcd/node2")
    assert not is_member(MEMBER, "orbiter-0123abcd/node2")


def test_a_pid_that_was_reused_outside_is_not_a_member() -> None:
    assert not is_member("12:pids:/user.slice\n0::/init.scope\n", "orbiter-0123abcd")


@pytest.mark.parametrize(("name", "weight"), [("cpu.shares", "4096"), ("cpu.weight", "400")])
def test_a_cluster_has_the_weight_of_several_processes(
    tmp_path: Path, name: str, weight: str
) -> None:
    (tmp_path / name).write_text("")
    weigh(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == weight
