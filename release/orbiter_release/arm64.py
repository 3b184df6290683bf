"""What the images have beside their base, put together for arm64 on a machine that is none.

Python packages and the agents' programs are fetched for arm64 and unpacked; none of it is run here.
Whether all of it is for arm64 is seen in its first bytes.
"""

import os
import shutil
import subprocess
from pathlib import Path

from orbiter_images import catalog, fetch
from orbiter_images.places import ROOT, versions
from orbiter_images.runner import StepError, run

from orbiter_release import elf

ARCHITECTURE = "arm64"
MACHINE = "aarch64"


def libraries(lock: str, into: Path) -> int:
    """Unpack the Python packages of a lock file; return how many programs and libraries they have.

    Raises:
        StepError: One of them is not for arm64.
    """
    kept = fetch.wheels_directory(lock, MACHINE)
    if not kept.exists():
        fetch.wheels(lock, MACHINE)
    target = into / lock
    shutil.rmtree(target, ignore_errors=True)
    command = [*fetch.pip(), "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-index", f"--find-links={kept}", "--target", str(target), "--no-compile"]
    command += [*fetch.platform_options(MACHINE), "--root-user-action=ignore"]
    run([*command, "--require-hashes", "-r", str(kept / "requirements.txt")])
    return elf.check(target, ARCHITECTURE)


def agents() -> list[str]:
    """The agents whose programs are published for arm64: versions.env has their sums."""
    known = versions()
    names = [image.agent for image in catalog.CATALOG if image.agent]
    return [name for name in names if f"{name.upper()}_{ARCHITECTURE.upper()}_SHA512" in known]


def program(agent: str, into: Path) -> int:
    """Unpack an agent's program; return how many programs and libraries it has.

    Raises:
        StepError: One of them is not for arm64.
    """
    target = into / agent
    shutil.rmtree(target, ignore_errors=True)
    done = subprocess.run(
        ["sh", str(ROOT / "images/fetch-agent.sh"), agent, str(target)],
        env={**os.environ, "MACHINE": MACHINE},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StepError(done.stderr[-2000:])
    return elf.check(target, ARCHITECTURE)
