"""Which steps a run needs, and in which order: the only place that knows both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import base, fetch, load
from .catalog import BY_NAME, Image
from .engine import Engine
from .runner import Step
from .stamp import Stamps

# Where a build sees what was fetched before: directories that every base has.
WHEELS_MOUNT = "/mnt"
AGENT_MOUNT = "/media"
BUILD_SECONDS = {
    "worker-claude": 40,
    "worker-codex": 40,
    "worker-factory": 40,
    "worker-gemini": 40,
    "worker-opencode": 40,
    "worker-orbiter": 40,
    "server": 30,
    "operator": 30,
}
LOAD_SECONDS = {
    f"worker-{agent}": 20 for agent in ("claude", "codex", "factory", "gemini", "opencode")
}


@dataclass(frozen=True)
class Work:
    """What a run has found out before it begins.

    Attributes:
        engine: Builds and exports.
        versions: versions.env.
        marks: The stamp of every image.
        stale: The images to build.
        unloaded: The images to load.
        cluster: What identifies the cluster; None without one.
        has_base: Whether the base is there (or is a public one).
        base: The base to build from; None leaves it to the Dockerfiles.
    """

    engine: Engine
    versions: Mapping[str, str]
    marks: Mapping[str, str]
    stale: Sequence[Image]
    unloaded: Sequence[Image]
    cluster: str | None
    has_base: bool
    base: str | None


def steps(work: Work, stamps: Stamps) -> list[Step]:
    """Return what is to be done."""
    found: list[Step] = []
    if work.stale and not work.has_base:
        make = partial(base.make, work.engine, work.versions["DEBIAN_SUITE"], stamps)
        found.append(Step("base", "about 60 s", make))
    if work.engine.makes_base:
        found += fetches(work)
    found += [build_step(work, image, stamps) for image in work.stale]
    found += [load_step(work, image, stamps) for image in work.unloaded]
    return found


def wheels_step(lock: str) -> str:
    """Name the step that fetches the wheels of a lock file."""
    return f"wheels of {lock}.lock"


def agent_step(agent: str) -> str:
    """Name the step that fetches the CLI of an agent."""
    return f"CLI of {agent}"


def agent_version(work: Work, agent: str) -> str:
    """Return the pinned version of an agent's CLI."""
    return work.versions[f"{agent.upper()}_VERSION"]


def fetches(work: Work) -> list[Step]:
    """Return the downloads that the stale images need."""
    found = [
        Step(wheels_step(lock), "about 10 s", partial(fetch.wheels, lock))
        for lock in sorted({image.lock for image in work.stale if image.lock})
        if not fetch.wheels_directory(lock).exists()
    ]
    for agent in sorted({image.agent for image in work.stale if image.agent}):
        version = agent_version(work, agent)
        if not (fetch.agent_directory(agent, version) / "bin").exists():
            act = partial(fetch.agent, agent, version)
            found.append(Step(agent_step(agent), "about 15 s", act))
    return found


def build_step(work: Work, image: Image, stamps: Stamps) -> Step:
    """Return the step that builds one image."""
    needs = ["base"]
    needs += [wheels_step(image.lock)] if image.lock else []
    needs += [agent_step(image.agent)] if image.agent else []
    needs += [f"build {image.parent}"] if image.parent else []

    def act() -> None:
        arguments, mounts = inputs(work, image)
        work.engine.build(image.dockerfile, image.name, arguments, mounts)
        stamps.store(f"built {image.short}", work.marks[image.short])

    expectation = f"up to {BUILD_SECONDS.get(image.short, 15)} s"
    return Step(f"build {image.short}", expectation, act, tuple(needs))


def inputs(work: Work, image: Image) -> tuple[dict[str, str], list[tuple[Path, str]]]:
    """Return the build arguments and the mounts of one image."""
    arguments: dict[str, str] = {}
    mounts: list[tuple[Path, str]] = []
    if image.parent:
        arguments["WORKER"] = BY_NAME[image.parent].name
    elif work.base:
        arguments["BASE"] = work.base
    if image.agent:
        arguments["AGENT"] = image.agent
    if not work.engine.makes_base:
        return arguments, mounts
    mounts.append((Path("/etc/apt/apt.conf.d"), "/etc/apt/apt.conf.d"))
    if image.lock:
        arguments["PIP_OPTIONS"] = f"--no-index --find-links={WHEELS_MOUNT}"
        mounts.append((fetch.wheels_directory(image.lock), WHEELS_MOUNT))
    if image.dockerfile.endswith("worker.Dockerfile"):
        arguments["NODE"] = base.NAME
    if image.agent:
        directory = fetch.agent_directory(image.agent, agent_version(work, image.agent))
        mounts.append((directory, AGENT_MOUNT))
    return arguments, mounts


def load_step(work: Work, image: Image, stamps: Stamps) -> Step:
    """Return the step that gives one image to the cluster."""
    mark = work.marks[image.short]
    act = partial(load.load, work.engine, image, work.cluster or "", mark, stamps)
    expectation = f"up to {LOAD_SECONDS.get(image.short, 10)} s"
    return Step(f"load {image.short}", expectation, act, (f"build {image.short}",))
