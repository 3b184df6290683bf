"""A repository becomes the agent's workspace, and what the agent committed leaves it again."""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from support.git_repositories import (
    bare_copy,
    commit,
    git,
    give_password,
    make_template,
    serving,
)

from orbiter_contracts import GitWorkspace, Workspace, WorkspaceReport
from worker_wrapper.process.kernel import become_subreaper
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace.askpass import answer
from worker_wrapper.workspace.git import Git, reason
from worker_wrapper.workspace.repository import (
    Remote,
    Start,
    WorkspaceError,
    check,
    choose_start,
    read_remote,
)
from worker_wrapper.workspace.workspace import Finished, finish, prepare

URL = "https://example.org/team/app.git"
T = TypeVar("T")


@pytest.fixture(autouse=True, scope="module")
def _subreaper() -> None:
    become_subreaper()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def origin(tmp_path: Path, template: Path) -> Path:
    """A bare repository of our own, cloned from the template."""
    return bare_copy(template, tmp_path / "origin.git")


class Task:
    """A task with a workspace, before and after its turn."""

    def __init__(self, tmp_path: Path, environ: dict[str, str]) -> None:
        self.directory = tmp_path / "workspace"
        self.environ = environ
        self.spill_dir = tmp_path / "spill"
        self.spill_dir.mkdir()
        self.credentials: Path | None = None
        self.workspace = Workspace()
        self.prepared = WorkspaceReport()

    async def begin(self, url: object, **wanted: str) -> WorkspaceReport:
        self.workspace = Workspace(git=GitWorkspace(url=str(url), **wanted))  # type: ignore[arg-type]
        self.prepared = await self._call(prepare)
        return self.prepared

    async def end(self) -> Finished:
        return await self._call(finish, prepared=self.prepared)

    async def _call(self, step: Callable[..., Awaitable[T]], **more: object) -> T:
        return await step(
            *(self.workspace, self.directory, self.credentials),
            environ=self.environ,
            spill_dir=self.spill_dir,
            stop=StopTurn(),
            timeout_seconds=20,
            **more,
        )


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})


async def test_without_a_repository_there_is_an_empty_directory(task: Task) -> None:
    report = await prepare(
        None, task.directory, None, environ={}, spill_dir=task.spill_dir, stop=StopTurn()
    )

    assert task.directory.is_dir()
    assert report == WorkspaceReport()


async def test_the_default_branch_is_cloned_with_one_commit(task: Task, origin: Path) -> None:
    report = await task.begin(origin.as_uri())

    assert (report.base_sha, report.branch) == (git(origin, "rev-parse", "main"), "main")
    assert git(task.directory, "rev-list", "--count", "HEAD") == "1"
    assert git(task.directory, "branch", "--show-current") == "main"
    assert (task.directory / "second").exists()
    assert git(task.directory, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("ref", "commit_of", "branch"),
    [
        ("topic", "topic", "topic"),
        ("v1", "v1^{commit}", None),
        ("refs/heads/topic", "topic", "topic"),
    ],
)
async def test_a_branch_or_tag_is_where_the_work_begins(
    task: Task, origin: Path, ref: str, commit_of: str, branch: str | None
) -> None:
    report = await task.begin(origin.as_uri(), ref=ref)

    assert report.base_sha == git(origin, "rev-parse", commit_of)
    assert report.branch == branch
    assert git(task.directory, "branch", "--show-current") == (branch or "")


async def test_a_commit_is_where_the_work_begins(task: Task, origin: Path) -> None:
    first = git(origin, "rev-parse", "main~1")

    assert (await task.begin(origin.as_uri(), ref=first)).base_sha == first


async def test_a_new_branch_is_created_from_the_ref(task: Task, origin: Path) -> None:
    report = await task.begin(origin.as_uri(), ref="topic", branch="fix/login")

    assert git(task.directory, "branch", "--show-current") == "fix/login"
    assert report.base_sha == git(origin, "rev-parse", "topic")


async def test_a_branch_that_exists_already_is_continued(task: Task, origin: Path) -> None:
    report = await task.begin(origin.as_uri(), ref="main", branch="topic")

    assert report.base_sha == git(origin, "rev-parse", "topic")


async def test_a_missing_ref_is_named(task: Task, origin: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"origin\.git has no branch or tag 'nope'"):
        await task.begin(origin.as_uri(), ref="nope")


async def test_a_missing_repository_is_named(task: Task, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"^git ls-remote: '.*nowhere\.git' does not"):
        await task.begin((tmp_path / "nowhere.git").as_uri())


async def test_an_empty_repository_is_explained(task: Task, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "empty.git")

    with pytest.raises(WorkspaceError, match="has no commits"):
        await task.begin((tmp_path / "empty.git").as_uri())


async def test_files_that_are_not_ours_are_never_replaced(task: Task, origin: Path) -> None:
    task.directory.mkdir()
    (task.directory / "precious").touch()

    with pytest.raises(WorkspaceError, match="is not empty \\(precious"):
        await task.begin(origin.as_uri())
    assert (task.directory / "precious").exists()


async def test_the_clone_of_a_worker_before_us_is_replaced(task: Task, origin: Path) -> None:
    await task.begin(origin.as_uri(), ref="topic")
    (task.directory / "leftover").touch()

    await task.begin(origin.as_uri())

    assert not (task.directory / "leftover").exists()
    assert not (task.directory / "third").exists()


async def test_a_stop_ends_the_clone(task: Task, origin: Path) -> None:
    stop = StopTurn()
    stop.set("cancelled")

    with pytest.raises(WorkspaceError, match="stopped"):
        await prepare(
            Workspace(git=GitWorkspace(url=origin.as_uri())),
            *(task.directory, None),
            environ=task.environ,
            spill_dir=task.spill_dir,
            stop=stop,
        )


async def test_a_new_commit_is_reported(task: Task, origin: Path) -> None:
    await task.begin(origin.as_uri())
    head = commit(task.directory)

    finished = await task.end()

    assert finished.report.head_sha == head != finished.report.base_sha
    assert (finished.report.pushed, finished.report.error, finished.warnings) == (False, None, [])


async def test_without_a_new_commit_head_is_the_base(task: Task, origin: Path) -> None:
    await task.begin(origin.as_uri(), push="Always")

    report = (await task.end()).report

    assert report.head_sha == report.base_sha
    assert (report.pushed, report.error) == (False, None)


async def test_uncommitted_changes_are_a_warning_that_names_them(task: Task, origin: Path) -> None:
    await task.begin(origin.as_uri())
    (task.directory / "first").write_text("changed")
    (task.directory / "new").write_text("new")

    warnings = (await task.end()).warnings

    assert warnings == ["the agent left 2 uncommitted changes: first, new"]


async def test_push_always_pushes_the_branch(task: Task, origin: Path) -> None:
    await task.begin(origin.as_uri(), branch="fix", push="Always")
    head = commit(task.directory)

    finished = await task.end()

    assert (finished.report.pushed, finished.report.error) == (True, None)
    assert git(origin, "rev-parse", "fix") == head
    assert git(origin, "log", "--format=%s", "fix") == "file\nsecond\nfirst"


async def test_a_push_that_is_refused_is_an_error(task: Task, origin: Path, tmp_path: Path) -> None:
    await task.begin(origin.as_uri(), push="Always")
    commit(task.directory)
    git(tmp_path, "clone", "-q", str(origin), "colleague")
    commit(tmp_path / "colleague", "meanwhile")
    git(tmp_path / "colleague", "push", "-q", str(origin), "main")

    report = (await task.end()).report

    assert not report.pushed
    why, _, details = (report.error or "").partition("\n")
    assert (
        why == f"the work was not pushed: git push: failed to push some refs to '{origin.as_uri()}'"
    )
    assert "[rejected]" in details
    assert "hint" not in details


async def test_pushing_needs_a_branch_to_push_to(task: Task, origin: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"v1 is no branch: say in workspace\.git\.branch"):
        await task.begin(origin.as_uri(), ref="v1", push="Always")


async def test_a_repository_that_the_agent_broke_is_a_warning(task: Task, origin: Path) -> None:
    await task.begin(origin.as_uri())
    (task.directory / ".git" / "HEAD").write_text("nonsense")

    finished = await task.end()

    assert finished.report.error is None
    assert "the workspace could not be read" in finished.warnings[0]


async def test_nothing_that_the_agent_configured_is_run_or_followed(
    task: Task, origin: Path, tmp_path: Path
) -> None:
    await task.begin(origin.as_uri(), push="Always")
    head = commit(task.directory)
    evil, elsewhere = tmp_path / "evil", tmp_path / "elsewhere.git"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    evil.chmod(0o755)
    git(tmp_path, "init", "-q", "--bare", str(elsewhere))
    hooks = task.directory / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("pre-push", "reference-transaction", "post-index-change", "post-checkout"):
        (hooks / hook).symlink_to(evil)
    for key, value in {
        "core.fsmonitor": str(evil),
        "core.sshCommand": str(evil),
        "core.askPass": str(evil),
        "core.hooksPath": str(hooks),
        "core.pager": str(evil),
        "credential.helper": f"!{evil}",
        "diff.external": str(evil),
        "filter.evil.clean": str(evil),
        "filter.evil.process": str(evil),
        "gpg.program": str(evil),
        "push.gpgSign": "true",
        "remote.origin.url": elsewhere.as_uri(),
        "remote.origin.receivepack": str(evil),
        "uploadpack.packObjectsHook": str(evil),
        f"url.{elsewhere.as_uri()}.insteadOf": origin.as_uri(),
        f"url.{elsewhere.as_uri()}.pushInsteadOf": origin.as_uri(),
    }.items():
        git(task.directory, "config", key, value)
    (task.directory / ".gitattributes").write_text("* filter=evil\n")
    (task.directory / "first").write_text("changed")

    finished = await task.end()

    assert not (tmp_path / "ran").exists()
    assert git(origin, "rev-parse", "main") == head
    assert git(elsewhere, "for-each-ref") == ""
    assert "uncommitted changes" in finished.warnings[0]


async def test_nothing_of_ours_is_left_behind(task: Task, origin: Path) -> None:
    await task.begin(origin.as_uri(), push="Always")
    commit(task.directory)
    await task.end()

    assert list(task.spill_dir.iterdir()) == []


@pytest.fixture
def server(origin: Path) -> Iterator[tuple[str, list[str]]]:
    with serving(origin.parent) as (url, asked):
        yield f"{url}/origin.git", asked


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return give_password(tmp_path / "secret")


async def test_a_private_repository_is_cloned_and_pushed_with_the_mounted_credentials(
    task: Task, origin: Path, server: tuple[str, list[str]], secret: Path
) -> None:
    task.credentials = secret
    await task.begin(server[0], branch="fix", push="Always")
    head = commit(task.directory)

    finished = await task.end()

    assert (finished.report.pushed, finished.report.error) == (True, None)
    assert git(origin, "rev-parse", "fix") == head
    config = (task.directory / ".git" / "config").read_text()
    assert "pa ss" not in config
    assert "askpass" not in config
    assert list(task.spill_dir.iterdir()) == []


@pytest.mark.parametrize("place", ["workspace", "user site", "PYTHONPATH"])
async def test_git_is_told_the_password_by_no_code_that_the_agent_left(
    task: Task, server: tuple[str, list[str]], secret: Path, tmp_path: Path, place: str
) -> None:
    task.credentials = secret
    home, mark = tmp_path / "home", tmp_path / "mark"
    site = home / f".local/lib/python{sys.version_info.major}.{sys.version_info.minor}"
    planted = {"workspace": tmp_path, "PYTHONPATH": home}.get(place, site / "site-packages")
    planted.mkdir(parents=True, exist_ok=True)
    for name in ("re", "pathlib", "sitecustomize", "usercustomize"):
        (planted / f"{name}.py").write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    # A virtual environment has no user site unless it is told to.
    task.environ |= {"HOME": str(home), "PYTHONUSERBASE": str(home / ".local")}
    if place == "PYTHONPATH":
        task.environ["PYTHONPATH"] = str(planted)

    credentials = Git(task.environ, task.spill_dir, 20, StopTurn()).credentials
    with credentials(server[0], secret) as env:
        told = subprocess.run(
            [env["GIT_ASKPASS"], f"Password for '{server[0]}': "],
            **{"cwd": tmp_path, "env": task.environ | env, "capture_output": True, "text": True},
        )

    assert (told.stdout, told.stderr) == ("pa ss'word\n", "")
    assert not mark.exists()


async def test_what_the_agent_left_in_its_home_neither_hides_its_changes_nor_answers_for_us(
    task: Task, origin: Path, server: tuple[str, list[str]], secret: Path, tmp_path: Path
) -> None:
    task.credentials = secret
    await task.begin(server[0], branch="fix", push="Always")
    commit(task.directory)
    (task.directory / "forgotten").touch()
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login agent password its-own\n")
    ignored = tmp_path / ".config/git/ignore"
    ignored.parent.mkdir(parents=True)
    ignored.write_text("*\n")

    finished = await task.end()

    assert (finished.report.pushed, finished.report.error) == (True, None)
    assert finished.warnings == ["the agent left 1 uncommitted changes: forgotten"]


async def test_without_credentials_a_private_repository_is_an_error_not_a_question(
    task: Task, server: tuple[str, list[str]]
) -> None:
    with pytest.raises(WorkspaceError, match=r"could not read Username|Authentication failed"):
        await task.begin(server[0])


def test_what_git_says_first_is_why_it_failed() -> None:
    complaint = (
        "ssh: connect to host example.org port 22: Connection refused\n"
        "fatal: Could not read from remote repository.\n\n"
        "Please make sure you have the correct access rights\nand the repository exists.\n"
    )

    assert reason(complaint) == "ssh: connect to host example.org port 22: Connection refused"
    assert reason("remote: No.\nerror: nothing pushed\nhint: Ask.") == "nothing pushed\nremote: No."


async def test_a_workspace_that_cannot_be_made_is_named(task: Task) -> None:
    task.directory.touch()

    with pytest.raises(WorkspaceError, match=f"^{task.directory}: File exists$"):
        await task.begin("https://example.org/repo.git")


async def test_wrong_credentials_are_an_error_that_does_not_repeat_them(
    task: Task, server: tuple[str, list[str]], secret: Path
) -> None:
    (secret / "password").write_text("wrong-secret")
    task.credentials = secret

    why = f"^git ls-remote: Authentication failed for '{server[0]}/?'$"
    with pytest.raises(WorkspaceError, match=why) as raised:
        await task.begin(server[0])
    assert "wrong-secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "host"),
    [("git@example.org:team/app.git", "example.org"), ("ssh://git@h.org:22/app.git", "h.org")],
)
@pytest.mark.parametrize("missing", ["known_hosts", "ssh-privatekey"])
async def test_ssh_without_a_key_or_known_hosts_is_refused_with_what_to_add(
    task: Task, tmp_path: Path, url: str, host: str, missing: str
) -> None:
    task.credentials = tmp_path / "secret"
    task.credentials.mkdir()
    for name in {"known_hosts", "ssh-privatekey"} - {missing}:
        (task.credentials / name).touch()

    with pytest.raises(WorkspaceError, match=f"has no {missing}: .*{host}"):
        await task.begin(url)


async def test_an_ssh_key_is_used_and_only_that(task: Task, origin: Path, tmp_path: Path) -> None:
    task.credentials = tmp_path / "secret"
    task.credentials.mkdir()
    for name in ("ssh-privatekey", "known_hosts"):
        (task.credentials / name).touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/ssh-args\neval "sh -c \\"\\${{$#}}\\""\n')
    ssh.chmod(0o755)
    task.environ["PATH"] = f"{programs}:{task.environ['PATH']}"

    await task.begin(f"git@example.org:{origin}")

    used = (tmp_path / "ssh-args").read_text()
    assert f"-i{task.credentials}/ssh-privatekey" in used
    assert "-oIdentitiesOnly=yes" in used
    assert f"-oUserKnownHostsFile={task.credentials}/known_hosts" in used
    assert "-oStrictHostKeyChecking=yes" in used
    assert "git@example.org" in used
    assert (task.directory / "second").exists()


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Username for 'https://example.org': ", "robot"),
        ("Password for 'https://robot@example.org': ", "pa ss'word"),
        ("Password for 'https://example.org/team/app.git': ", "pa ss'word"),
        ("Password for 'https://robot@evil.org': ", None),
        ("Password for 'https://example.org:8443': ", None),
        ("Password for 'https://robot@Example.ORG:443': ", "pa ss'word"),
        ("Password for 'http://robot@example.org': ", None),
        ("Password for 'https://robot@example.org@evil.org': ", None),
        ("Password for 'https://evil.org#@example.org': ", None),
        ("Password for 'https://example.org:x': ", None),
        ("Enter passphrase for key '/key': ", None),
        ("", None),
    ],
)
def test_only_questions_about_our_host_are_answered(
    secret: Path, question: str, expected: str | None
) -> None:
    assert answer(question, secret, "https://example.org/team/app.git") == expected


@pytest.mark.parametrize(
    ("url", "question", "told"),
    [
        ("http://h:8080/r.git", "Password for 'http://git@h:8080': ", True),
        ("http://h/r.git", "Password for 'http://git@h:80': ", True),
        ("http://[fd00::1]:80/r.git", "Password for 'http://git@[fd00::1]': ", True),
        ("http://h/r.git", "Password for 'https://git@h': ", False),
        ("http://h:443/r.git", "Password for 'https://git@h': ", False),
        ("no url", "Password for 'no url': ", False),
    ],
)
def test_our_host_is_a_scheme_a_name_and_a_port(
    tmp_path: Path, url: str, question: str, told: bool
) -> None:
    (tmp_path / "token").write_text("t0ken")

    assert answer(question, tmp_path, url) == ("t0ken" if told else None)


def test_a_token_needs_no_username(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken\n")

    assert answer("Username for 'https://h': ", tmp_path, "https://h/r.git") == "git"
    assert answer("Password for 'https://git@h': ", tmp_path, "https://h/r.git") == "t0ken"


@pytest.mark.parametrize(
    "url",
    [
        "https://user:pass-word@example.org/app.git",
        "https://t0ken-pass-word@example.org/app.git",
        "http://:pass-word@example.org/app.git",
        "ssh://git:pass-word@example.org/app.git",
    ],
)
def test_credentials_in_a_url_are_refused_without_repeating_them(url: str) -> None:
    with pytest.raises(WorkspaceError, match="credentialsSecretRef") as raised:
        check(GitWorkspace(url=url))
    assert "pass-word" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c whoami",
        "--upload-pack=evil",
        "ftp://h/x",
        "x",
        "https://h/a b",
        "a@b::sh",
        "http://[",
    ],
)
def test_urls_that_are_none_are_refused(url: str) -> None:
    with pytest.raises(WorkspaceError, match=r"workspace\.git\.url"):
        check(GitWorkspace(url=url))


@pytest.mark.parametrize(
    "url", [URL, "ssh://git@h:22/x", "git@h.org:team/x.git", "git://h/x", "file:///x", "/srv/x.git"]
)
def test_urls_of_every_usual_kind_are_accepted(url: str) -> None:
    check(GitWorkspace(url=url, ref="feature/a-1", branch="fix#2"))


@pytest.mark.parametrize(
    "name", ["-x", "a b", "a..b", "a:b", "a^", "@{1}", "x.lock", "/a", "a/", "", "a\n", "a*"]
)
def test_names_that_git_does_not_allow_are_refused(name: str) -> None:
    with pytest.raises(WorkspaceError, match="is not a name git allows"):
        check(GitWorkspace(url=URL, ref=name))
    with pytest.raises(WorkspaceError, match="is not a name git allows"):
        check(GitWorkspace(url=URL, branch=name))


def test_a_listing_of_refs_is_understood() -> None:
    remote = read_remote("ref: refs/heads/main\tHEAD\naa\tHEAD\naa\trefs/heads/main\n")

    assert remote == Remote({"HEAD": "aa", "refs/heads/main": "aa"}, "refs/heads/main")


@pytest.mark.parametrize(
    "ref",
    ["refs/heads/main:refs/heads/-x", "refs/heads/-x", "refs/heads/a..b", "refs/tags/v1", "+main"],
)
def test_a_default_branch_that_git_does_not_allow_is_none(ref: str) -> None:
    remote = read_remote(f"ref: {ref}\tHEAD\naa\tHEAD\n")

    assert choose_start(GitWorkspace(url=URL), remote) == Start("HEAD", None)


def test_a_remote_head_that_is_on_no_branch_is_a_commit() -> None:
    assert choose_start(GitWorkspace(url=URL), Remote({"HEAD": "aa"}, None)) == Start("HEAD", None)
