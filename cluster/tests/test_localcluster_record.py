"""What is remembered about a cluster."""

from pathlib import Path

import pytest
from localcluster.errors import ClusterError
from localcluster.record import Record, load, save


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = Record("local", link=3, nameservers=("192.0.2.53",), more_links=(5,))
    save(tmp_path / "cluster.json", record)
    assert load(tmp_path / "cluster.json") == record


def test_without_a_file_no_cluster_was_brought_up(tmp_path: Path) -> None:
    assert load(tmp_path / "cluster.json") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "local", "moons": 2}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(text)
    with pytest.raises(ClusterError, match=r"cluster\.json is not readable"):
        load(path)


def test_pods_reach_out_only_when_there_are_nameservers_for_them() -> None:
    assert Record("local", nameservers=("192.0.2.53",)).egress
    assert not Record("local").egress


def test_a_record_from_before_there_were_further_nodes_is_one_of_one_node(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text('{"kind": "local", "link": 3, "nameservers": [], "context": ""}')
    found = load(path)
    assert found is not None
    assert found.links == (3,)
