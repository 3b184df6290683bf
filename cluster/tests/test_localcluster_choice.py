"""Which kind of cluster a machine gets."""

import pytest
from localcluster.choice import Machine, choose
from localcluster.errors import ClusterError

BARE = Machine(docker=False, linux=True, root=True)
DOCKER = Machine(docker=True, linux=True, root=True)
LAPTOP = Machine(docker=False, linux=False, root=False)


def test_a_docker_engine_means_kind() -> None:
    assert choose("", "", DOCKER) == "kind"


def test_root_on_linux_without_docker_means_local() -> None:
    assert choose("", "", BARE) == "local"


def test_local_can_be_asked_for_where_docker_answers() -> None:
    assert choose("local", "", DOCKER) == "local"


def test_a_context_alone_does_not_make_a_foreign_cluster_ours() -> None:
    assert choose("", "production", BARE) == "local"


def test_current_uses_the_named_context() -> None:
    assert choose("current", "mine", LAPTOP) == "current"


def test_current_without_a_context_is_refused() -> None:
    with pytest.raises(ClusterError, match="CONTEXT=<name>"):
        choose("current", "", LAPTOP)


@pytest.mark.parametrize("wanted", ["", "kind", "local"])
def test_a_machine_that_can_run_none_is_told_all_choices(wanted: str) -> None:
    with pytest.raises(ClusterError) as refused:
        choose(wanted, "", LAPTOP)
    for choice in ("CLUSTER=kind", "CLUSTER=local", "CLUSTER=current CONTEXT="):
        assert choice in str(refused.value)


def test_an_unknown_kind_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ClusterError, match="minikube is unknown; write one of: local, kind"):
        choose("minikube", "", DOCKER)
