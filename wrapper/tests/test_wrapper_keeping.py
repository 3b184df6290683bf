"""A repository in the middle of an agent's work, as the next pod finds it."""

import asyncio
import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually
from support.git_repositories import bare_copy, commit, git, give_password, make_template, serving

from orbiter_contracts import GitWorkspace, Workspace, WorkspaceReport
from worker_wrapper.process.beside import OUTPUT_BYTES, run_beside
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace import contents, history, packing
from worker_wrapper.workspace import git as git_module
from worker_wrapper.workspace.contents import Repository
from worker_wrapper.workspace.fetching import fetch_with
from worker_wrapper.workspace.git import Git, GitError
from worker_wrapper.workspace.keeping import BaseGoneError, Kept, keep, restore
from worker_wrapper.workspace.packing import TooLargeError
from worker_wrapper.workspace.workspace import mirrored, prepare

pytestmark = pytest.mark.integration
LIMIT = 1024 * 1024


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.mkdir()
    return make_template(path)


@pytest.fixture
def beside(tmp_path: Path) -> Git:
    return Git(os.environ, tmp_path, 60, StopTurn(), beside=True)


@pytest.fixture
def before(tmp_path: Path) -> Git:
    return Git(os.environ, tmp_path, 60, StopTurn())


async def test_a_command_beside_the_agent_is_named_when_it_fails(
    tmp_path: Path, beside: Git
) -> None:
    with pytest.raises(GitError, match=r"^git status: not a git repository"):
        await beside("status", "--porcelain", "-uall", workdir=tmp_path)
    much = b"x" * (OUTPUT_BYTES + 1)
    with pytest.raises(GitError, match=r"^git stripspace: took too long, or printed more"):
        await beside("stripspace", "--strip-comments", workdir=tmp_path, stdin=much)


async def clone(source: Path, directory: Path, ref: str | None = None) -> WorkspaceReport:
    wanted = Workspace(git=GitWorkspace(url=str(source), ref=ref, branch="work"))
    return await prepare(
        *(wanted, directory, None),
        environ=os.environ,
        spill_dir=directory.parent,
        stop=StopTurn(),
    )


def edited_in_the_same_second(directory: Path) -> int:
    """Edit a file to as many other bytes, in the second in which git has last looked at it."""
    file, index = directory / "first", directory / ".git" / "index"
    before = file.read_bytes()
    while True:
        file.write_bytes(before)
        git(directory, "add", file.name)
        file.write_bytes(b"x" * len(before))
        edited, second = file.stat(), int(index.stat().st_mtime)
        if int(edited.st_mtime) == int(edited.st_ctime) == second:
            return second


async def test_what_was_edited_in_the_second_in_which_git_has_looked_is_kept(
    source: Path, tmp_path: Path, beside: Git, before: Git
) -> None:
    """git tells such files by the time of its index, which a copy has to have, too."""
    here = tmp_path / "here"
    prepared = await clone(source, here)
    second = edited_in_the_same_second(here)
    await eventually(lambda: time.time() >= second + 1)
    kept = await keep(beside, here, prepared, limit=LIMIT)
    there, _ = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert (there / "first").read_bytes() == (here / "first").read_bytes()


@pytest.mark.parametrize("at", [-(2**33), 0, 2**33, 2**62 // 10**9])
async def test_whatever_time_the_agent_gives_its_index_what_it_did_is_kept(
    source: Path, tmp_path: Path, beside: Git, before: Git, at: int
) -> None:
    here = tmp_path / "here"
    prepared = await clone(source, here)
    (here / "first").write_text("another length\n")
    os.utime(here / ".git" / "index", (at, at))
    kept = await keep(beside, here, prepared, limit=LIMIT)
    there, _ = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert (there / "first").read_text() == "another length\n"


async def moved(
    source: Path, tmp_path: Path, before: Git, kept: Kept, base: str | None
) -> tuple[Path, WorkspaceReport]:
    """The workspace in the next pod."""
    there = tmp_path / "next"
    prepared = await clone(source, there)
    checked = contents.check(kept.data) if kept.data else None
    return there, await restore(before, checked, there, prepared, base)


async def test_commits_and_files_are_as_they_were_and_ignored_ones_are_not_kept(
    source: Path, tmp_path: Path, beside: Git, before: Git
) -> None:
    work = tmp_path / "work"
    prepared = await clone(source, work)
    head = commit(work, "mine")
    (work / "first").write_text("changed\n")
    (work / "second").unlink()
    (work / "new").mkdir()
    (work / "new" / "tool").write_text("#!/bin/sh\n")
    (work / "new" / "tool").chmod(0o755)
    (work / "link").symlink_to("new/tool")
    (work / ".gitignore").write_text("build/\n")
    (work / "build").mkdir()
    (work / "build" / "huge").write_bytes(os.urandom(LIMIT * 2))
    (work / "staged").write_text("staged\n")
    git(work, "add", "staged")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    assert kept.state == "Stored"
    there, report = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert report.base_sha == prepared.base_sha
    assert git(there, "rev-parse", "HEAD") == head
    assert git(there, "branch", "--show-current") == "work"
    assert git(there, "fsck", "--no-dangling") == ""
    assert (there / "first").read_text() == "changed\n"
    assert not (there / "second").exists()
    assert (there / "new" / "tool").stat().st_mode & 0o111
    assert (there / "link").readlink() == Path("new/tool")
    assert (there / "staged").read_text() == "staged\n"
    assert not (there / "build").exists()
    listed = git(there, "status", "--porcelain", "-uall").splitlines()
    names = {line.split(maxsplit=1)[1] for line in listed}
    assert names == {"first", "second", "new/tool", "link", ".gitignore", "staged"}


async def test_a_workspace_that_nothing_was_done_in_is_as_the_clone_has_it(
    source: Path, tmp_path: Path, beside: Git, before: Git
) -> None:
    work = tmp_path / "work"
    prepared = await clone(source, work)
    kept = await keep(beside, work, prepared, limit=LIMIT)
    assert kept == Kept("Unchanged")
    there, _ = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert git(there, "status", "--porcelain") == ""


async def test_a_branch_that_has_moved_on_meanwhile_does_not_move_the_work(
    source: Path, tmp_path: Path, beside: Git, before: Git
) -> None:
    work = tmp_path / "work"
    prepared = await clone(source, work)
    (work / "mine").write_text("mine\n")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    commit(source, "fourth")
    there = tmp_path / "next"
    later = await clone(source, there)
    assert later.base_sha != prepared.base_sha
    checked = contents.check(kept.data)
    with pytest.raises(BaseGoneError, match="not in the clone"):
        await restore(before, checked, there, later, prepared.base_sha)
    assert git(there, "rev-parse", "HEAD") == later.base_sha
    report = await restore(
        *(before, checked, there, later, prepared.base_sha),
        fetch=fetch_with(GitWorkspace(url=str(source)), None),
    )
    assert report.base_sha == prepared.base_sha == git(there, "rev-parse", "HEAD")
    assert (there / "mine").read_text() == "mine\n"
    assert not (there / "fourth").exists()


async def test_history_that_the_agent_has_fetched_in_part_ends_where_it_did(
    source: Path, tmp_path: Path, beside: Git, before: Git
) -> None:
    """Commits whose parents nobody has would end every later checkpoint, and the push."""
    git(source, "checkout", "-q", "topic")
    for name in ("fourth", "fifth", "sixth"):
        commit(source, name)
    git(source, "checkout", "-q", "main")
    work = tmp_path / "work"
    prepared = await clone(source, work)
    commit(work, "mine")
    git(work, "fetch", "-q", "--depth=2", "origin", "topic")
    git(work, "merge", "-q", "--allow-unrelated-histories", "-m", "merged", "FETCH_HEAD")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    there, report = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert git(there, "log", "--format=%H") == git(work, "log", "--format=%H")
    assert git(there, "fsck", "--no-dangling") == ""
    head = commit(there, "more")
    again = contents.check((await keep(beside, there, report, limit=LIMIT)).data)
    assert again.repository is not None
    assert again.repository.head == head


@pytest.mark.parametrize("makes", [False, True])
async def test_a_commit_before_the_one_the_work_began_with_can_be_gone_on_from(
    source: Path, tmp_path: Path, beside: Git, before: Git, makes: bool
) -> None:
    """As who bisects or ports a change back does; the next pod's clone has no such commit."""
    (source / "second").write_text("of another content by now\n")
    commit(source, "fourth")
    work = tmp_path / "work"
    prepared = await clone(source, work)
    git(work, "fetch", "-q", "--unshallow")
    git(work, "checkout", "-q", "HEAD~2")
    head = commit(work, "mine") if makes else git(work, "rev-parse", "HEAD")
    assert (await keep(beside, work, prepared, limit=LIMIT)).state == "Stored"
    (work / "second").write_text("mine\n")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    there, report = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert git(there, "rev-parse", "HEAD") == head
    assert git(there, "fsck", "--no-dangling") == ""
    assert (there / "second").read_text() == "mine\n"
    assert (await keep(beside, there, report, limit=LIMIT)).state == "Stored"


async def test_what_the_agent_has_put_aside_on_other_branches_or_stashed_is_kept(
    source: Path, tmp_path: Path, beside: Git, before: Git
) -> None:
    """It remembers that, and looks for it."""
    work = tmp_path / "work"
    prepared = await clone(source, work)
    git(work, "checkout", "-qb", "aside")
    aside = commit(work, "aside")
    git(work, "checkout", "-q", "work")
    (work / "first").write_text("stashed\n")
    git(work, "stash", "-q")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    assert kept.state == "Stored"
    (work / ".git" / "refs" / "heads" / "broken").write_text(f"{'d' * 40}\n")
    assert await keep(beside, work, prepared, limit=LIMIT) == kept
    (work / ".git" / "refs" / "heads" / "broken").unlink()
    there, report = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert git(there, "rev-parse", "aside") == aside
    assert git(there, "branch", "--show-current") == "work"
    assert git(there, "status", "--porcelain") == ""
    assert git(there, "fsck", "--no-dangling") == ""
    again = contents.check((await keep(beside, there, report, limit=LIMIT)).data)
    assert again.repository == contents.check(kept.data).repository
    git(there, "stash", "pop", "-q")
    assert (there / "first").read_text() == "stashed\n"


async def test_a_branch_that_the_agent_has_put_below_the_name_of_the_first_is_kept(
    source: Path, tmp_path: Path, beside: Git, before: Git
) -> None:
    work = tmp_path / "work"
    prepared = await clone(source, work)
    git(work, "branch", "-qm", "work", "elsewhere")
    git(work, "checkout", "-qb", "work/again")
    head = commit(work, "mine")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    there, _ = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert git(there, "branch", "--show-current") == "work/again"
    assert git(there, "rev-parse", "HEAD", "elsewhere").split() == [head, prepared.base_sha]


async def test_a_server_that_gives_only_the_heads_of_branches_is_asked_for_what_is_behind_them(
    source: Path, tmp_path: Path, before: Git
) -> None:
    bare = bare_copy(source, tmp_path / "served" / "origin.git")
    secret = give_password(tmp_path / "secret")
    with serving(bare.parent, gives_any_commit=False) as (root, _):
        wanted = GitWorkspace(url=f"{root}/origin.git", ref="topic")
        there = tmp_path / "next"
        place = (Workspace(git=wanted), there, secret)
        prepared = await prepare(*place, environ=os.environ, spill_dir=tmp_path, stop=StopTurn())
        first, other = git(bare, "rev-list", "--reverse", "topic").splitlines()[0], "d" * 40
        fetch = fetch_with(wanted, secret)
        with pytest.raises(BaseGoneError, match=other):
            await restore(before, None, there, prepared, other, fetch=fetch)
        report = await restore(before, None, there, prepared, first, fetch=fetch)
    assert report.base_sha == first == git(there, "rev-parse", "HEAD")


async def test_what_is_too_large_is_said_and_not_kept(
    source: Path, tmp_path: Path, beside: Git
) -> None:
    work = tmp_path / "work"
    prepared = await clone(source, work)
    (work / "noise").write_bytes(os.urandom(50_000))
    kept = await keep(beside, work, prepared, limit=40_000)
    assert (kept.state, kept.data) == ("TooLarge", b"")
    git(work, "add", "noise")
    git(work, "commit", "-qm", "noise")
    kept = await keep(beside, work, prepared, limit=40_000)
    assert (kept.state, kept.data) == ("TooLarge", b"")


async def test_commits_beyond_any_checkpoint_are_not_even_packed(
    source: Path, tmp_path: Path, beside: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack of gigabytes would fill the node's disk, and memory, anew with each checkpoint."""
    monkeypatch.setattr(history, "COMMITTED_BYTES", 40_000)
    work = tmp_path / "work"
    prepared = await clone(source, work)
    commit(work, "mine")
    assert (await keep(beside, work, prepared, limit=LIMIT)).state == "Stored"
    (work / "noise").write_bytes(os.urandom(50_000))
    git(work, "add", "noise")
    git(work, "commit", "-qm", "noise")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    assert (kept.state, kept.why) == ("TooLarge", "commits of more than 40000 bytes")
    git(work, "checkout", "-q", "--orphan", "anew")
    git(work, "commit", "-qm", "anew")
    for thrown_away in ("work", "main"):
        git(work, "update-ref", "-d", f"refs/heads/{thrown_away}")
    assert (await keep(beside, work, prepared, limit=LIMIT)).state == "TooLarge"


async def test_nothing_that_the_agents_repository_names_is_run_on_either_way(
    source: Path, tmp_path: Path, beside: Git, before: Git
) -> None:
    work = tmp_path / "work"
    prepared = await clone(source, work)
    ran = tmp_path / "ran"
    evil = work / "evil"
    evil.write_text(f"#!/bin/sh\necho $0 >>{ran}\ncat\n")
    evil.chmod(0o755)
    (work / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        hook = work / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >>{ran}\n")
        hook.chmod(0o755)
    git(work, "config", "user.name", "x")
    commit(work, "mine")
    for name, value in {
        "filter.evil.clean": str(evil),
        "filter.evil.smudge": str(evil),
        "filter.evil.process": str(evil),
        "core.fsmonitor": str(evil),
        "core.pager": str(evil),
        "diff.external": str(evil),
        "core.sshCommand": str(evil),
    }.items():
        git(work, "config", name, value)
    ran.unlink(missing_ok=True)
    (work / "first").write_text("changed\n")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    there, _ = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert not ran.exists()
    assert (there / "first").read_text() == "changed\n"
    assert (there / ".gitattributes").exists()
    assert not (there / ".git" / "hooks" / "post-checkout").exists()
    assert "evil" not in (there / ".git" / "config").read_text()


async def test_no_object_that_is_missing_is_fetched_as_the_agent_says(
    source: Path, tmp_path: Path, beside: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a remote that promises it, by a program that the agent's configuration names."""
    monkeypatch.delitem(git_module._SAFE_ENV, "GIT_NO_LAZY_FETCH")  # which older ones do not know
    work = tmp_path / "work"
    prepared = await clone(source, work)
    ran, evil = tmp_path / "ran", tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\necho $0 >>{ran}\n")
    evil.chmod(0o755)
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": str(evil),
        "core.sshCommand": str(evil),
    }.items():
        git(work, "config", name, value)
    (work / "draft").write_text("draft\n")
    (work / ".git" / "refs" / "heads" / "missing").write_text(f"{'d' * 40}\n")
    (work / ".git" / "refs" / "stash").write_text(f"{'e' * 40}\n")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    assert kept.state == "Stored"
    assert not ran.exists()


async def test_a_repository_of_the_agents_own_within_is_kept_as_files(
    source: Path, tmp_path: Path, beside: Git, before: Git
) -> None:
    work = tmp_path / "work"
    prepared = await clone(source, work)
    inner = work / "vendor"
    inner.mkdir()
    git(inner, "init", "-qb", "main")
    head = commit(inner, "theirs")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    there, _ = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert git(there / "vendor", "rev-parse", "HEAD") == head


async def test_names_that_are_no_text_are_kept(
    source: Path, tmp_path: Path, beside: Git, before: Git
) -> None:
    work = tmp_path / "work"
    odd = os.fsdecode(b"\xff name\n\"'")
    (source / odd).write_text("odd\n")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "odd")
    prepared = await clone(source, work)
    (work / odd).unlink()
    (work / f"new {odd}").write_text("new\n")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    there, _ = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert not (there / odd).exists()
    assert (there / f"new {odd}").read_text() == "new\n"


async def test_on_a_branch_whose_name_is_no_text_the_work_is_kept(
    source: Path, tmp_path: Path, beside: Git, before: Git
) -> None:
    work = tmp_path / "work"
    prepared = await clone(source, work)
    git(work, "checkout", "-qb", os.fsdecode(b"gr\xfcn"))
    head = commit(work, "mine")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    there, _ = await moved(source, tmp_path, before, kept, prepared.base_sha)
    assert git(there, "rev-parse", "HEAD") == head


async def test_a_directory_without_git_is_kept_whole(
    tmp_path: Path, beside: Git, before: Git
) -> None:
    work, there = tmp_path / "work", tmp_path / "next"
    work.mkdir(), there.mkdir()
    assert await keep(beside, work, None, limit=LIMIT) == Kept("Unchanged")
    (work / "a").mkdir()
    (work / "a" / "b").write_text("c\n")
    kept = await keep(beside, work, None, limit=LIMIT)
    await restore(before, contents.check(kept.data), there, WorkspaceReport(), None)
    assert (there / "a" / "b").read_text() == "c\n"


async def test_a_command_beside_the_agent_is_not_taken_for_one_of_its_processes(
    tmp_path: Path, before: Git
) -> None:
    """What ends an agent ends all it has started, and leaves a checkpoint's git alone."""
    done = asyncio.create_task(
        run_beside(
            ("sh", "-c", "sleep 1; echo done"),
            stdin=b"",
            env=dict(os.environ),
            workdir=tmp_path,
            timeout_seconds=30,
        )
    )
    await asyncio.sleep(0)
    assert await before("version", workdir=tmp_path)
    assert await done == (0, b"done\n", b"")


async def test_a_command_that_takes_too_long_or_says_too_much_is_ended(tmp_path: Path) -> None:
    async def run(script: str, seconds: float) -> int | None:
        done = await run_beside(
            ("sh", "-c", script),
            stdin=b"",
            env=dict(os.environ),
            workdir=tmp_path,
            timeout_seconds=seconds,
        )
        return done.exit_code

    assert await run("exec sleep 1000", 0.2) is None
    assert await run("exec yes", 30) is None
    assert await run("exit 3", 30) == 3


async def test_nobody_who_holds_its_output_open_or_outstays_it_keeps_us_waiting(
    tmp_path: Path,
) -> None:
    """The agent is of our user and may open the pipe of any command of ours."""
    held = tmp_path / "held"

    async def run(script: str) -> int | None:
        done = await run_beside(
            ("sh", "-c", script, "sh", str(held)),
            stdin=b"",
            env=dict(os.environ),
            workdir=tmp_path,
            timeout_seconds=2,
        )
        return done.exit_code

    running = asyncio.create_task(run('echo $$ >"$1.new"; mv "$1.new" "$1"; exec sleep 1'))
    await eventually(held.exists)
    pipe = os.open(f"/proc/{held.read_text().strip()}/fd/1", os.O_WRONLY)
    try:
        async with asyncio.timeout(20):
            assert await running is None
    finally:
        os.close(pipe)
    async with asyncio.timeout(20):
        assert await run("exec >&- 2>&-; exec sleep 1000") == -signal.SIGKILL


@pytest.mark.parametrize("name", ["index", "shallow"])
async def test_of_the_agents_repository_no_file_is_read_that_it_only_points_to(
    name: str, source: Path, tmp_path: Path, before: Git
) -> None:
    """We may read what the agent must not; it could read our copy."""
    work, mirror = tmp_path / "work", tmp_path / "mirror"
    await clone(source, work)
    (tmp_path / "secret").write_text("secret\n")
    (work / ".git" / name).unlink(missing_ok=True)
    (work / ".git" / name).symlink_to(tmp_path / "secret")
    mirror.mkdir()
    await mirrored(before, work, mirror)
    assert not (mirror / name).exists()


async def test_an_index_that_is_a_hole_of_a_terabyte_is_refused_and_holds_nobody_up(
    source: Path, tmp_path: Path, before: Git
) -> None:
    work, mirror = tmp_path / "work", tmp_path / "mirror"
    await clone(source, work)
    os.truncate(work / ".git" / "index", 2**40)
    mirror.mkdir()
    with pytest.raises(GitError, match="index is larger than"):
        await mirrored(before, work, mirror)


class Planted(Git):
    """An agent that watches where our repository is made, and puts pipes into it."""

    async def __call__(self, verb: str, *args: str, **how: Any) -> str:
        said = await super().__call__(verb, *args, **how)
        where = Path(how["workdir"])
        if verb == "init":
            for name in ("objects/info/alternates", "index", "shallow"):
                (where / name).parent.mkdir(exist_ok=True)
                os.mkfifo(where / name)
        if verb == "pack-objects":
            (pack,) = where.parent.glob("*.pack")
            pack.unlink()
            os.mkfifo(pack)
        return said


async def test_pipes_that_the_agent_plants_in_our_repository_hold_nobody_up(
    source: Path, tmp_path: Path
) -> None:
    """The lease and the limit of time would wait for whoever opens the other end."""
    work = tmp_path / "work"
    prepared = await clone(source, work)
    planted = Planted(os.environ, tmp_path, 60, StopTurn(), beside=True)
    (work / "draft").write_text("draft\n")
    assert (await keep(planted, work, prepared, limit=LIMIT)).state == "Stored"
    commit(work, "mine")
    with pytest.raises(OSError, match="is no regular file"):
        await keep(planted, work, prepared, limit=LIMIT)


async def test_what_an_index_names_outside_of_the_workspace_is_not_kept(
    source: Path, tmp_path: Path, beside: Git
) -> None:
    work = tmp_path / "work"
    prepared = await clone(source, work)
    (tmp_path / "secret").write_text("secret\n")
    index = work / ".git" / "index"
    data = bytearray(index.read_bytes().replace(b"second", b"../sec", 1)[:-20])
    index.write_bytes(data + hashlib.sha1(data, usedforsecurity=False).digest())
    (tmp_path / "sec").write_text("secret\n")
    (work / "mine").write_text("mine\n")
    kept = await keep(beside, work, prepared, limit=LIMIT)
    checked = contents.check(kept.data)
    assert checked.repository is not None
    assert all(".." not in parts for parts in checked.repository.gone)


async def test_what_could_not_be_read_back_is_too_large(
    source: Path, tmp_path: Path, beside: Git
) -> None:
    """A checkpoint that says it is good has to be."""
    work = tmp_path / "work"
    prepared = await clone(source, work)
    deep = work
    for _ in range(contents.DEPTH + 5):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    kept = await keep(beside, work, prepared, limit=LIMIT)
    assert kept.state == "TooLarge"
    assert "nested" in kept.why
    with pytest.raises(TooLargeError, match="deleted"):
        packing.pack(
            work,
            [],
            limit=LIMIT,
            about=Repository(base="4f" * 20, head="4f" * 20, deleted=["\1" * 4000] * 300),
            commits=None,
        )
