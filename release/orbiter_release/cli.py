"""The command line of release/release.py: the steps of a release in their order."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from orbiter_images.places import ROOT, STATE
from orbiter_images.runner import Report, Step, StepError, perform

from orbiter_release import (
    arm64,
    chart,
    demo,
    images,
    installation,
    packages,
    sbom,
    versions,
)

DESCRIPTION = """Build what a tag releases into dist/, as far as this machine can, and check it.

Two runs give the same bytes: the time that files say is the last commit's (SOURCE_DATE_EPOCH)."""
CHART = ROOT / "helm" / "orbiter"
LOCK = ROOT / "requirements.lock"
SBOM = "orbiter.cdx.json"
SUMS = "SHA256SUMS"


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="release/release.py",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tag", help="of the release, like v0.2.0; then CHANGELOG.md is ready too")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the files go")
    parser.add_argument("--registry", help="where the images are, for the chart; with --digests")
    parser.add_argument("--digests", type=Path, help="a directory: a file with a digest each")
    parser.add_argument("--no-install", action="store_true", help="leave the wheels uninstalled")
    parser.add_argument("--arm64", action="store_true", help="check what images need there")
    parser.add_argument("--demo", action="store_true", help="the demo, on the cluster that is up")
    alone = parser.add_argument_group("instead of all that")
    alone.add_argument("--list-images", action="store_true", help="the images, as a JSON list")
    alone.add_argument("--push-image", metavar="NAME", help="build one, check it and push it")
    alone.add_argument("--notes", action="store_true", help="what CHANGELOG.md says of the tag")
    arguments = parser.parse_args(words)
    if bool(arguments.registry) != bool(arguments.digests):
        parser.error("--registry and --digests belong together")
    if arguments.push_image and not (arguments.registry and arguments.tag):
        parser.error("--push-image needs --registry, --digests and --tag")
    if arguments.notes and not arguments.tag:
        parser.error("--notes needs --tag")
    return arguments


def epoch() -> int:
    """The time that all files say: the last commit's, unless the environment has one."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if not told:
        command = ["git", "log", "-1", "--format=%ct"]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    os.environ["SOURCE_DATE_EPOCH"] = told.strip()
    return int(told)


class Release:
    """One run: what it makes, and what its steps have found."""

    def __init__(self, arguments: argparse.Namespace, report: Report) -> None:
        self.arguments = arguments
        self.report = report
        self.dist = arguments.dist.resolve()
        self.epoch = epoch()
        self.version = ""
        self.rows: list[tuple[str, str]] = []

    @property
    def released(self) -> chart.Images | None:
        """Where the images are; None in a dry run."""
        if not self.arguments.digests:
            return None
        digests = chart.read_digests(self.arguments.digests)
        return chart.Images(self.arguments.registry, self.version, digests)

    def make(self, into: Path) -> list[Path]:
        """Make all files of a release."""
        built = packages.build(versions.packages(ROOT), into)
        wheels = [file for file in built if file.suffix == ".whl"]
        packed = chart.package(helm(), CHART, into, epoch=self.epoch, images=self.released)
        bill = into / SBOM
        text = sbom.document(self.version, wheels, LOCK.read_text(), epoch=self.epoch)
        bill.write_text(text)
        files = sorted([*built, packed, bill])
        sums = into / SUMS
        sums.write_text("".join(f"{digest(file)}  {file.name}\n" for file in files))
        return [*files, sums]

    def steps(self) -> list[Step]:
        """What is done, in this order."""
        chosen = self.arguments
        found = [
            self._step("versions", "a second", self.agree),
            self._step("build", "about 15 s", self.build),
            self._step("sdists make the same wheels", "about 10 s", self.check_sdists),
            self._step("the chart renders as its source", "about 5 s", self.check_chart),
            self._step("built again, the same bytes", "about 15 s", self.again),
        ]
        if not chosen.no_install:
            found.append(self._step("installed from wheels", "about 30 s", self.install))
        if chosen.arm64:
            locks = ("operator", "worker", "orbiter", "server")
            found += [self._arm64(f"{lock}.lock", arm64.libraries, lock) for lock in locks]
            found += [self._arm64(f"CLI of {name}", arm64.program, name) for name in arm64.agents()]
        if chosen.demo:
            found.append(self._step("the demo of the packages", "about a minute", self.demo))
        return found

    def _step(self, name: str, expectation: str, act: Callable[[], str]) -> Step:
        def do() -> None:
            self.rows.append((name, act()))

        return Step(name, expectation, do)

    def _arm64(self, what: str, act: Callable[[str, Path], int], name: str) -> Step:
        def count() -> str:
            return f"{act(name, STATE / 'release' / 'arm64')} ELF files, all arm64, none run"

        return self._step(f"arm64: {what}", "up to a minute", count)

    def agree(self) -> str:
        """All places say one version, and the changelog has it."""
        self.version = versions.agreed(ROOT, self.arguments.tag)
        if self.arguments.tag:
            versions.notes(ROOT, self.version)
        return f"{self.version} in {len(list(versions.said(ROOT)))} places"

    def build(self) -> str:
        """Make everything; what an earlier run left goes."""
        for old in self.dist.glob("*"):
            if old.name in (SBOM, SUMS) or old.name.endswith((".whl", ".tar.gz", ".tgz")):
                old.unlink()
        return f"{len(self.make(self.dist))} files in {self.dist}"

    def check_sdists(self) -> str:
        """Sdists make the wheels that lie beside them."""
        return f"{packages.check(sorted(self.dist.iterdir()))} sdists"

    def check_chart(self) -> str:
        """The package of the chart is lint-free and renders what the source does."""
        [packed] = self.dist.glob("*.tgz")
        return f"{chart.check(helm(), packed, CHART, self.released)} sets of values"

    def again(self) -> str:
        """Everything once more, and compare."""
        with tempfile.TemporaryDirectory() as directory:
            files = self.make(Path(directory))
            other = [f.name for f in files if f.read_bytes() != (self.dist / f.name).read_bytes()]
        if other:
            raise StepError(f"built again, these are other bytes: {', '.join(other)}")
        return f"{len(files)} files"

    def install(self) -> str:
        """Install the wheels where nothing else is, and start the programs."""
        programs = installation.install(sorted(self.dist.glob("*.whl")), LOCK, self.home)
        return f"{installation.check(programs, self.version)} programs start"

    @property
    def home(self) -> Path:
        """The environment that the wheels are installed into."""
        return STATE / "release" / "venv"

    def demo(self) -> str:
        """The demo from the chart's package, and the plugin of the wheels beside it."""
        [packed] = self.dist.glob("*.tgz")
        return demo.run(packed, self.home / "bin", self.report)

    def table(self) -> str:
        """What was made, and what the steps have found."""
        files = sorted(self.dist.glob("*"))
        width = max(len(file.name) for file in files)
        made = [f"{f.name:{width}}  {f.stat().st_size:>9,}  {digest(f)[:16]}" for f in files]
        wide = max(len(name) for name, _ in self.rows)
        return "\n".join([*made, "", *(f"{name:{wide}}  {found}" for name, found in self.rows)])


def instead(arguments: argparse.Namespace) -> str | None:
    """Do the one thing that was asked for instead of a whole run; None when none was."""
    if arguments.list_images:
        return json.dumps(images.names())
    if arguments.notes:
        return versions.notes(ROOT, versions.agreed(ROOT, arguments.tag))
    if arguments.push_image:
        tag = versions.agreed(ROOT, arguments.tag)
        epoch()  # docker reads it too
        return images.push(arguments.push_image, arguments.registry, tag, arguments.digests)
    return None


def helm() -> Path:
    """The helm of the cluster's tools, which is built when it is not there."""
    from localcluster import toolchain
    from localcluster.errors import ClusterError
    from localcluster.layout import from_environment
    from localcluster.report import Reporter

    layout = from_environment()
    try:
        toolchain.provide_helm(layout, Reporter())
    except ClusterError as error:
        raise StepError(str(error)) from None
    return layout.bin / "helm"


def digest(file: Path) -> str:
    """SHA-256 of a file."""
    return sha256(file.read_bytes()).hexdigest()


def main(words: Sequence[str] | None = None) -> int:
    """Make and check a release; return the exit code."""
    arguments, report = parse(words), Report()
    try:
        if alone := instead(arguments):
            print(alone)
            return 0
        release = Release(arguments, report)
        for step in release.steps():
            perform(step, report)
    except (StepError, OSError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("release: interrupted", file=sys.stderr)
        return 130
    report.say("made:")
    print(release.table())
    return 0
