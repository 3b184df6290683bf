"""Tools: taken from PATH where they fit, else built, once."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from localcluster import toolchain
from localcluster.errors import ClusterError
from localcluster.layout import Layout
from localcluster.report import Reporter

Put = Callable[[str, str], Path]
FAKE_GO = """#!/bin/sh
echo "$@" >> {calls}
while [ "$1" != "-o" ]; do shift; done
echo built > "$2"
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "state")


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Put a program on an otherwise nearly empty PATH."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def write(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(script)
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def go_calls(tmp_path: Path, put: Put) -> Callable[[], list[str]]:
    calls = tmp_path / "calls"
    put("go", FAKE_GO.format(calls=calls))
    return lambda: calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("go.mod", "go.sum", "main.go", "provisioner.go"):
        (folder / name).write_text(name)
    monkeypatch.setattr(toolchain, "NODE_SOURCES", folder)
    return folder


def kubectl(minor: int) -> str:
    version = f'{{"clientVersion": {{"major": "1", "minor": "{minor}+"}}}}'
    return f"#!/bin/sh\necho '{version}'\n"


def report() -> Reporter:
    return Reporter(io.StringIO())


@pytest.mark.usefixtures("sources")
def test_what_was_built_from_the_same_sources_is_not_built_again(
    layout: Layout, go_calls: Callable[[], list[str]]
) -> None:
    toolchain.build_node(layout, report())
    toolchain.build_node(layout, report())
    assert len(go_calls()) == 1


def test_a_changed_source_is_built_again(
    layout: Layout, sources: Path, go_calls: Callable[[], list[str]]
) -> None:
    toolchain.build_node(layout, report())
    (sources / "go.sum").write_text("another dependency")
    toolchain.build_node(layout, report())
    assert len(go_calls()) == 2


@pytest.mark.usefixtures("sources", "go_calls")
def test_the_multi_call_binary_goes_by_every_components_name(layout: Layout) -> None:
    programs = toolchain.build_node(layout, report())
    assert {path.name for path in programs.iterdir()} == set(toolchain.PROGRAMS)
    assert (programs / "kubelet").read_text() == "built\n"


@pytest.mark.usefixtures("sources", "go_calls")
def test_our_cni_plugin_and_the_distributions_are_in_one_directory(
    layout: Layout, tmp_path: Path
) -> None:
    plugins = toolchain.build_cni(layout, report())
    toolchain.add_plugins(layout, tmp_path, ("ptp", "loopback"))
    assert {path.name for path in plugins.iterdir()} == {"pod-address", "ptp", "loopback"}
    assert (plugins / "pod-address").read_text() == "built\n"
    assert (plugins / "ptp").readlink() == tmp_path / "ptp"


def test_a_test_in_go_is_no_reason_to_build_again(
    layout: Layout, sources: Path, go_calls: Callable[[], list[str]]
) -> None:
    (sources / "part").mkdir()
    for name, calls in (("part/it_test.go", 1), ("part/it.go", 2)):
        toolchain.build_node(layout, report())
        (sources / name).write_text("package part")
        toolchain.build_node(layout, report())
        assert len(go_calls()) == calls


def test_a_kubectl_of_a_near_version_is_taken_from_path(layout: Layout, put: Put) -> None:
    mine = put("kubectl", kubectl(34))
    toolchain.provide_kubectl(layout, report(), server_minor=35)
    assert (layout.bin / "kubectl").readlink() == mine


@pytest.mark.usefixtures("sources", "go_calls")
@pytest.mark.parametrize("script", [kubectl(32), "#!/bin/sh\nexit 1\n"])
def test_a_kubectl_that_is_too_old_or_broken_is_passed_over(
    layout: Layout, put: Put, script: str
) -> None:
    put("kubectl", script)
    toolchain.build_node(layout, report())
    toolchain.provide_kubectl(layout, report(), server_minor=35)
    assert (layout.bin / "kubectl").readlink() == layout.build / "programs" / "kubectl"


@pytest.mark.usefixtures("sources")
def test_the_tool_folder_itself_on_path_is_not_mistaken_for_a_find(
    layout: Layout, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = put("helm", "#!/bin/sh\necho v3.19.0\n")
    toolchain.provide_helm(layout, report())
    monkeypatch.setenv("PATH", f"{layout.bin}:{mine.parent}:/usr/bin:/bin")
    toolchain.provide_helm(layout, report())
    assert (layout.bin / "helm").readlink() == mine


def test_without_go_the_message_says_where_to_get_it(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ClusterError, match=r"Go 1\.25 or newer is needed"):
        toolchain.build_node(layout, report())
