import tarfile
import threading
from io import BytesIO
from json import dumps, loads
from pathlib import Path

import pytest
from orbiter_images import archive, plan
from orbiter_images.catalog import BY_NAME, Image, select
from orbiter_images.engine import Engine
from orbiter_images.fetch import without_markers
from orbiter_images.runner import Report, Step, StepError, run, run_steps
from orbiter_images.stamp import Stamps

VERSIONS = {"DEBIAN_SUITE": "bookworm", "CLAUDE_VERSION": "0.0"}


def work(engine: Engine, *stale: str, loads: tuple[str, ...] = (), base: bool = True) -> plan.Work:
    images = [BY_NAME[name] for name in stale]
    return plan.Work(
        engine=engine,
        versions=VERSIONS,
        marks={image.short: "mark" for image in BY_NAME.values()},
        stale=images,
        unloaded=[BY_NAME[name] for name in loads],
        cluster="local-1",
        has_base=base,
        base="localhost/base" if engine.makes_base else None,
    )


def names(found: list[Step]) -> list[str]:
    return [step.name for step in found]


@pytest.fixture
def stamps(tmp_path: Path) -> Stamps:
    return Stamps(tmp_path / "stamps.json")


def test_nothing_stale_is_nothing_to_do(stamps: Stamps) -> None:
    assert plan.steps(work(Engine("buildah", makes_base=True)), stamps) == []


def test_without_a_registry_everything_is_fetched_before_it_is_built(stamps: Stamps) -> None:
    todo = work(Engine("buildah", makes_base=True), "worker-claude", base=False)
    found = plan.steps(todo, stamps)
    assert names(found)[:1] == ["base"]
    assert "CLI of claude" in names(found)
    assert {"base", "wheels of worker.lock", "CLI of claude"} <= set(found[-1].needs)


def test_with_a_registry_the_dockerfile_does_it_alone(stamps: Stamps) -> None:
    todo = work(Engine("docker"), "worker-claude")
    assert names(plan.steps(todo, stamps)) == ["build worker-claude"]
    assert plan.inputs(todo, BY_NAME["worker-claude"]) == ({"AGENT": "claude"}, [])


def test_an_image_is_loaded_after_it_is_built(stamps: Stamps) -> None:
    (_, load) = plan.steps(work(Engine("docker"), "redis", loads=("redis",)), stamps)
    assert load.needs == ("build redis",)


def test_an_image_brings_the_one_it_is_built_from() -> None:
    assert [image.short for image in select(["worker-echo"], False)] == ["worker", "worker-echo"]


def test_agents_that_no_test_needs_are_built_on_request() -> None:
    assert BY_NAME["worker-codex"] not in select([], False)
    assert BY_NAME["worker-codex"] in select([], True)


def test_environment_markers_are_dropped_and_hashes_stay() -> None:
    text = 'a==1 \\\n    --hash=sha256:0\nb==2 ; python_version < "3.12" \\\n    --hash=sha256:1\n'
    assert without_markers(text) == text.replace(' ; python_version < "3.12"', "")


def test_steps_run_after_what_they_need() -> None:
    order: list[str] = []
    needs = {"load": ("build",), "build": ("base", "never listed"), "base": ()}
    run_steps([Step(n, "", lambda n=n: order.append(n), needs[n]) for n in needs], Report())  # type: ignore[misc]
    assert order == ["base", "build", "load"]


def test_two_steps_run_at_once() -> None:
    barrier = threading.Barrier(2, timeout=10)
    run_steps([Step(name, "", lambda: void(barrier.wait())) for name in "ab"], Report())


def void(_: object) -> None:
    return None


def test_after_a_failure_nothing_that_needs_it_runs() -> None:
    order: list[str] = []

    def fail() -> None:
        raise StepError("no space left")

    todo = [Step("a", "", fail), Step("b", "", lambda: order.append("b"), ("a",))]
    with pytest.raises(StepError, match="no space left"):
        run_steps(todo, Report())
    assert order == []


def test_a_failed_program_is_reported_with_its_last_lines_and_a_hint() -> None:
    with pytest.raises(StepError, match=r"sh .* failed: try again\nwhy not"):
        run(["sh", "-c", "echo why not >&2; exit 3"], hint="try again")


def test_a_missing_program_is_named() -> None:
    with pytest.raises(StepError, match=r"no-such-program is not installed\. Get it\."):
        run(["no-such-program"], hint="Get it.")


def docker_archive(path: Path, layers: dict[str, bytes]) -> None:
    manifest = [{"Config": "c.json", "RepoTags": ["x"], "Layers": list(layers)}]
    files = {"c.json": b"{}", **layers, "manifest.json": dumps(manifest).encode()}
    with tarfile.open(path, "w") as out:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            out.addfile(entry, BytesIO(content))


def test_known_layers_are_named_in_the_archive_but_not_contained(tmp_path: Path) -> None:
    docker_archive(tmp_path / "a.tar", {"aa.tar": b"known", "bb.tar": b"new"})
    assert archive.layers(tmp_path / "a.tar") == ["aa.tar", "bb.tar"]
    archive.without(tmp_path / "a.tar", tmp_path / "b.tar", "example/x:dev", {"aa.tar"})
    with tarfile.open(tmp_path / "b.tar") as small:

        def content(name: str) -> bytes:
            found = small.extractfile(name)
            assert found is not None
            return found.read()

        (top,) = loads(content("index.json"))["manifests"]
        manifest = loads(content(f"blobs/{top['digest'].replace(':', '/')}"))
        assert "blobs/sha256/aa" not in small.getnames()
        assert content("blobs/sha256/bb") == b"new"
    assert top["annotations"] == {"io.containerd.image.name": "example/x:dev"}
    assert [layer["digest"] for layer in manifest["layers"]] == ["sha256:aa", "sha256:bb"]
    assert [layer["size"] for layer in manifest["layers"]] == [5, 3]


def test_every_image_has_a_name_in_the_cluster() -> None:
    assert Image("x", ("x.Dockerfile",)).name == "localhost/orbiter/x:dev"
