"""The command line of images/build.py."""

import argparse
import fcntl
import sys
from collections.abc import Sequence

from . import base, engine, load
from .catalog import BY_NAME, CATALOG, Image, select
from .places import IMAGES, versions
from .plan import Work, steps
from .runner import Report, StepError, run_steps
from .stamp import Stamps, stamps_of

DESCRIPTION = """Build the container images that changed and load them into the cluster.

Without arguments: everything the demo and the tests need. Nothing changed: done in a second or
two. Without a running cluster the images are built, and loaded by the next run. The program that
builds them is docker, podman or buildah, in this order; buildah on a Debian machine needs no
registry of base images."""


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="images/build.py",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="print the images and how they are")
    parser.add_argument(
        "--only", action="append", default=[], choices=list(BY_NAME), help="this image; repeatable"
    )
    parser.add_argument("--all", action="store_true", help="the agents that no test needs, too")
    parser.add_argument("--base", metavar="IMAGE", help="build from this base image instead")
    parser.add_argument("--no-load", action="store_true", help="build only")
    return parser.parse_args(words)


def survey(arguments: argparse.Namespace, images: list[Image], stamps: Stamps) -> Work:
    """Find out what there is to do."""
    chosen = engine.choose()
    if chosen.makes_base:
        base.install_tools()
    pinned = versions()
    made = chosen.makes_base and not arguments.base
    origin = base.stamp(pinned["DEBIAN_SUITE"]) if made else arguments.base or "public"
    marks = stamps_of(images, pinned, f"{chosen.kind} {origin}")
    known = chosen.known()
    stale = [
        image
        for image in images
        if image.name not in known or not stamps.holds(f"built {image.short}", marks[image.short])
    ]
    cluster = None if arguments.no_load else load.cluster()
    lacking = load.missing(images, marks, stamps, cluster) if cluster else set()
    return Work(
        engine=chosen,
        versions=pinned,
        marks=marks,
        stale=stale,
        unloaded=[image for image in images if image.short in lacking],
        cluster=cluster,
        has_base=not made or base.is_known(known, pinned["DEBIAN_SUITE"], stamps),
        base=base.NAME if made else arguments.base,
    )


def table(work: Work) -> str:
    """Return the list of images and how they are."""
    lines = []
    stale = {image.short for image in work.stale}
    unloaded = {image.short for image in work.unloaded}
    for image in CATALOG:
        built = "to build" if image.short in stale else "built"
        loaded = "no cluster" if not work.cluster else "loaded"
        if image.short in unloaded:
            loaded = "to load"
        asked = "" if image.always else "(built on request: --only or --all)"
        lines.append(f"{image.name:40} {built:9} {loaded:11} {asked}".rstrip())
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Build and load; return the exit code."""
    arguments = parse(words)
    IMAGES.mkdir(parents=True, exist_ok=True)
    report = Report()
    with (IMAGES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamps = Stamps()
        try:
            images = list(CATALOG) if arguments.list else select(arguments.only, arguments.all)
            work = survey(arguments, images, stamps)
            if arguments.list:
                print(table(work))
                return 0
            todo = steps(work, stamps)
            run_steps(todo, report)
        except (StepError, FileNotFoundError) as error:
            print(f"images: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("images: interrupted; run it again, it goes on where it was", file=sys.stderr)
            return 130
    report.say(summary(work, len(todo), load=not arguments.no_load))
    return 0


def summary(work: Work, done: int, *, load: bool) -> str:
    """Say how things are in one line."""
    text = "images are up to date" if done == 0 else f"images: {len(work.stale)} built"
    if work.cluster:
        return f"{text}, {len(work.unloaded)} loaded" if done else f"{text} and loaded"
    return f"{text}; no cluster is running that takes them" if load else text
