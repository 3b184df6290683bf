"""How long a checkpoint of a workspace takes, and its restoring, beside a bare tar of the same.

Two workspaces of 50 MB: a clone in which an agent has edited a megabyte, of which what differs is
kept, and a directory without git, of which everything is. The tar is GNU's, with gzip at the level
that ours has; it takes all of the directory in both. Ours and tar are measured in turn.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from orbiter_contracts import GitWorkspace, Workspace, WorkspaceReport
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace import contents
from worker_wrapper.workspace.git import Git
from worker_wrapper.workspace.keeping import Kept, keep, restore
from worker_wrapper.workspace.workspace import prepare

LIMIT = 256 * 1024 * 1024
GIT_SECONDS = 60.0
EDITED, EDITED_BYTES = 10, 100_000
_GZIP = "gzip -3"


async def parts(directory: Path, source: Path, times: int) -> dict[str, dict[str, Any]]:
    """Measure both workspaces.

    Args:
        directory: For everything of it.
        source: The repository.
        times: How often each is measured; the median counts.

    Returns:
        By workspace: milliseconds and bytes of ours and of tar, and their ratios.
    """
    directory.mkdir()
    whole = directory / "whole"
    shutil.copytree(source, whole, ignore=shutil.ignore_patterns(".git"))
    edited = directory / "edited"
    prepared = await _clone(source, edited)
    for number in range(EDITED):
        (edited / f"part-{number}").write_bytes(os.urandom(EDITED_BYTES))
    return {
        "edited": await _measured(directory, edited, prepared, source, times),
        "whole": await _measured(directory, whole, None, source, times),
    }


async def _measured(
    directory: Path, workspace: Path, prepared: WorkspaceReport | None, source: Path, times: int
) -> dict[str, Any]:
    git = Git(os.environ, directory, GIT_SECONDS, StopTurn(), beside=True)
    archive, there = directory / "bare.tar.gz", directory / "there"
    kept = Kept("Unchanged")
    took: dict[str, list[float]] = {name: [] for name in ("keep", "pack", "restore", "unpack")}

    async def made() -> None:
        nonlocal kept
        kept = await keep(git, workspace, prepared, limit=LIMIT)

    async def put_back(into: WorkspaceReport) -> None:
        found = await asyncio.to_thread(contents.check, kept.data)
        base = prepared.base_sha if prepared else None
        await restore(git, found, there, into, base)

    for _ in range(times):
        took["keep"].append(await _ms(made))
        took["pack"].append(await _ms(lambda: _tar("-cf", archive, workspace)))
        there.mkdir()
        into = await _clone(source, there) if prepared else WorkspaceReport()
        took["restore"].append(await _ms(lambda into=into: put_back(into)))
        assert _same(workspace, there), "what was restored is not what was kept"
        shutil.rmtree(there)
        there.mkdir()
        took["unpack"].append(await _ms(lambda: _tar("-xf", archive, there)))
        shutil.rmtree(there)
    ms = {name: round(statistics.median(each), 1) for name, each in took.items()}
    size = {"checkpoint": len(kept.data), "tar": archive.stat().st_size}
    return {
        "ms": ms,
        "bytes": size,
        "keep_ratio": round(ms["keep"] / ms["pack"], 3),
        "restore_ratio": round(ms["restore"] / ms["unpack"], 3),
        "size_ratio": round(size["checkpoint"] / size["tar"], 3),
    }


async def _clone(source: Path, directory: Path) -> WorkspaceReport:
    directory.mkdir(exist_ok=True)
    return await prepare(
        Workspace(git=GitWorkspace(url=str(source), branch="work")),
        *(directory, None),
        environ=os.environ,
        spill_dir=directory.parent,
        stop=StopTurn(),
    )


async def _tar(verb: str, archive: Path, directory: Path) -> None:
    what = ["."] if verb == "-cf" else []
    words = ["tar", "-I", _GZIP, verb, str(archive), "-C", str(directory), *what]
    await asyncio.to_thread(subprocess.run, words, check=True)


async def _ms(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


def _same(one: Path, other: Path) -> bool:
    names = [path.name for path in one.iterdir() if path.is_file()]
    return bool(names) and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in names
    )
