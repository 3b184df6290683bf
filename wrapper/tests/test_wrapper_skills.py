"""Skills of repositories: what is fetched, what is refused, and what a hostile one cannot do."""

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from support.git_repositories import bare_copy, git, give_password, serving

from orbiter_contracts.skills import GitSkill, read_fetched
from worker_wrapper.agents import load_agent
from worker_wrapper.agents.base import AgentOptions
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.turn.home import put_into_home
from worker_wrapper.workspace.git import Git
from worker_wrapper.workspace.skills import SkillsError, fetch

pytestmark = pytest.mark.integration

TEXT = "---\nname: notes\ndescription: writes notes\n---\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A repository of two skills, the second one in the branch `next` and at no tag."""
    source = tmp_path / "source"
    notes = source / "skills" / "notes"
    (notes / "scripts").mkdir(parents=True)
    git(source, "init", "-qb", "main")
    (notes / "SKILL.md").write_text(TEXT)
    (notes / "scripts" / "sign.sh").write_text("#!/bin/sh\n")
    (notes / "scripts" / "sign.sh").chmod(0o755)
    committed(source)
    git(source, "tag", "-am", "one", "v1")
    git(source, "checkout", "-qb", "next")
    (source / "skills" / "letters").mkdir()
    (source / "skills" / "letters" / "SKILL.md").write_text("letters")
    committed(source)
    git(source, "checkout", "-q", "main")
    return source


def committed(source: Path) -> str:
    git(source, "add", "-A")
    git(source, "commit", "-qm", "more")
    return git(source, "rev-parse", "HEAD")


class Fetching:
    """The directories of the container."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.target, self.spill, self.secrets = (
            directory / name for name in ("target", "spill", "secrets")
        )
        for path in (self.target, self.spill, self.secrets):
            path.mkdir()

    async def __call__(self, *skills: GitSkill, seconds: float = 90) -> dict[str, str]:
        ours = Git(dict(os.environ), self.spill, 90, StopTurn())
        return await fetch(skills, self.target, self.secrets, ours, seconds=seconds)

    @property
    def found(self) -> list[str]:
        """What has come of it: files, and nothing but files."""
        paths = [path for path in self.target.rglob("*") if not path.is_dir()]
        assert not any(path.is_symlink() for path in paths)
        return sorted(path.relative_to(self.target).as_posix() for path in paths)


@pytest.fixture
def fetching(tmp_path: Path) -> Fetching:
    return Fetching(tmp_path)


def notes(source: Path, **changes: object) -> GitSkill:
    said = {"name": "notes", "url": str(source), "path": "skills/notes"} | changes
    return GitSkill.model_validate(said)


async def test_its_files_are_there_and_its_commit_is_told(source: Path, fetching: Fetching) -> None:
    commits = await fetching(notes(source))
    assert commits == {"notes": git(source, "rev-parse", "main")}
    assert fetching.found == ["notes/SKILL.md", "notes/scripts/sign.sh"]
    assert (fetching.target / "notes/SKILL.md").read_text() == TEXT
    modes = [(fetching.target / path).stat().st_mode & 0o777 for path in fetching.found]
    assert modes == [0o444, 0o555]
    assert list(fetching.spill.iterdir()) == []


@pytest.mark.parametrize("kind", ["claude", "codex", "factory", "gemini", "opencode", "orbiter"])
async def test_each_agent_has_it_where_one_of_a_config_map_would_be(
    kind: str, source: Path, fetching: Fetching, tmp_path: Path
) -> None:
    await fetching(notes(source))
    agent, home = load_agent(kind), tmp_path / "home"
    home.mkdir()
    options = AgentOptions(skills_dir=fetching.target)
    said = put_into_home(agent, options, {"HOME": str(home)})
    if agent.skills_path is None:
        assert f"{fetching.target}/notes/SKILL.md: writes notes" in said
        return
    there = home / agent.skills_path / "notes"
    assert (there / "SKILL.md").read_text() == TEXT
    assert (there / "scripts" / "sign.sh").stat().st_mode & 0o777 == 0o555


@pytest.mark.parametrize("ref", ["v1", "next", "refs/heads/next", "commit"])
async def test_a_ref_is_a_tag_a_branch_or_a_commit(
    source: Path, fetching: Fetching, ref: str
) -> None:
    commit = git(source, "rev-parse", "v1^{commit}" if ref in ("v1", "commit") else "next")
    asked = notes(source, ref=commit if ref == "commit" else ref)
    assert await fetching(asked) == {"notes": commit}


async def test_several_are_of_one_repository_and_one_that_was_there_is_replaced(
    source: Path, fetching: Fetching
) -> None:
    (fetching.target / "old").mkdir()
    (fetching.target / "notes").symlink_to("/etc")
    letters = notes(source, name="letters", path="skills/letters", ref="next")
    await fetching(notes(source, ref="next"), letters)
    assert fetching.found == ["letters/SKILL.md", "notes/SKILL.md", "notes/scripts/sign.sh"]


async def test_a_whole_repository_may_be_one(source: Path, fetching: Fetching) -> None:
    (source / "SKILL.md").write_text("all of it")
    committed(source)
    await fetching(notes(source, path=None))
    assert "notes/skills/notes/scripts/sign.sh" in fetching.found


@pytest.fixture
def served(source: Path, tmp_path: Path) -> Iterator[str]:
    bare_copy(source, tmp_path / "served" / "skills.git")
    with serving(tmp_path / "served") as (root, _):
        yield f"{root}/skills.git"


async def test_a_secret_opens_a_repository_and_each_has_its_own(
    served: str, fetching: Fetching
) -> None:
    give_password(fetching.secrets / "0")
    (fetching.secrets / "1").mkdir()
    assert "notes" in await fetching(notes(Path("x"), url=served, credentials=0))
    for without in (1, None):
        with pytest.raises(SkillsError, match=r"agent.skills\[notes\]: .*\n?could not read"):
            await fetching(notes(Path("x"), url=served, credentials=without))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path": "skills/none"}, "has no directory 'skills/none' at HEAD"),
        ({"path": "skills/notes/SKILL.md"}, "has no directory 'skills/notes/SKILL.md'"),
        ({"path": "skills"}, r"directory 'skills' has no SKILL\.md"),
        ({"path": None}, r"its repository has no SKILL\.md"),
        ({"ref": "v9"}, "has no branch or tag 'v9'"),
        ({"ref": "0" * 40}, "."),
        ({"ref": "--upload-pack=touch /tmp/x"}, "is not a name git allows"),
        ({"ref": "-v"}, "git.ref '-v' is not a name git allows"),
        ({"url": "--upload-pack=x"}, "must begin with one of"),
        ({"url": "ext::sh -c id"}, "must begin with one of"),
        ({"url": "/nowhere/at/all"}, "does not"),
        ({"url": "https://u:p@example.com/x"}, "has credentials in it"),
        ({"url": "http://127.0.0.1:9/x"}, "unable to access"),
    ],
)
async def test_what_cannot_be_had_is_said_with_the_skills_name(
    source: Path, fetching: Fetching, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(SkillsError, match=rf"^agent.skills\[notes\]: .*{words}") as refused:
        await fetching(notes(source, **changes))
    assert "u:p" not in str(refused.value)
    assert fetching.found == []


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".git", "A"])
def test_a_name_is_no_path(source: Path, name: str) -> None:
    with pytest.raises(ValidationError):
        notes(source, name=name)


@pytest.mark.parametrize("path", ["../x", "/etc", "a//b", "a/./b", "a/..", "", "a\nb", "a\0b"])
def test_a_path_leads_nowhere_else(source: Path, path: str) -> None:
    with pytest.raises(ValidationError):
        notes(source, path=path)


async def test_a_link_is_refused_in_a_skill_in_its_place_and_on_the_way_to_it(
    source: Path, fetching: Fetching
) -> None:
    (source / "skills" / "etc").symlink_to("/etc")
    (source / "skills" / "notes" / "passwd").symlink_to("/etc/passwd")
    committed(source)
    with pytest.raises(SkillsError, match="'passwd' is a symbolic link; a skill has files only"):
        await fetching(notes(source))
    for path in ("skills/etc", "skills/etc/ssh"):
        with pytest.raises(SkillsError, match=f"no directory '{path}'"):
            await fetching(notes(source, path=path))
    assert fetching.found == []


async def test_a_submodule_is_refused_and_asked_for_nothing(
    source: Path, fetching: Fetching
) -> None:
    commit = git(source, "rev-parse", "HEAD")
    cacheinfo = f"160000,{commit},skills/notes/sub"
    git(source, "update-index", "--add", "--cacheinfo", cacheinfo)
    git(source, "commit", "-qm", "sub")
    with pytest.raises(SkillsError, match="'sub' is a submodule"):
        await fetching(notes(source))


async def test_no_filter_hook_or_attribute_of_the_repository_counts(
    source: Path, fetching: Fetching, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    inner = source / "skills" / "notes"
    (inner / ".gitattributes").write_text("* filter=evil text eol=crlf ident export-ignore\n")
    (inner / "id.txt").write_text("$Id$\n")
    (inner / ".gitconfig").write_text(f'[filter "evil"]\n\tsmudge = touch {ran}\n')
    for kind in ("smudge", "clean"):
        git(source, "config", f"filter.evil.{kind}", f"touch {ran}; cat")
    for hook in ("post-checkout", "post-merge", "reference-transaction"):
        (source / ".git" / "hooks").mkdir(exist_ok=True)
        (source / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (source / ".git" / "hooks" / hook).chmod(0o755)
    git(source, "-c", "core.hooksPath=/dev/null", "add", "-A")
    git(source, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "evil")
    ran.unlink(missing_ok=True)
    await fetching(notes(source))
    assert not ran.exists()
    assert (fetching.target / "notes/id.txt").read_bytes() == b"$Id$\n"


async def test_what_git_lfs_keeps_is_refused(source: Path, fetching: Fetching) -> None:
    pointer = "version https://git-lfs.example.com/spec/v1\noid sha256:00\nsize 9\n"
    (source / "skills/notes/model.bin").write_text(pointer)
    committed(source)
    with pytest.raises(SkillsError, match=r"'model.bin' is in Git LFS, which is not asked"):
        await fetching(notes(source))


def tree_of(source: Path, entries: list[tuple[str, str, str]]) -> str:
    """Make a tree that `git add` would not; return its id."""
    text = "".join(f"{mode} {kind}\t{name}\0" for mode, kind, name in entries)
    listing = source / "listing"
    listing.write_text(text)
    with listing.open() as given:
        return git(source, "mktree", "-z", stdin=given)


async def test_a_hundred_thousand_files_are_refused_and_not_written(
    source: Path, fetching: Fetching
) -> None:
    blob = git(source, "rev-parse", "HEAD:skills/notes/SKILL.md")
    many = [("100644", f"blob {blob}", f"f{number:06}") for number in range(100_000)]
    hostile(source, tree_of(source, many))
    with pytest.raises(SkillsError, match="more than 500 files and directories"):
        await fetching(notes(source, path=None, ref="hostile"))
    assert fetching.found == []


def hostile(source: Path, tree: str) -> None:
    commit = git(source, "commit-tree", "-m", "hostile", tree)
    git(source, "branch", "-f", "hostile", commit)


async def test_a_tree_that_is_in_itself_a_billion_times_is_refused(
    source: Path, fetching: Fetching
) -> None:
    blob = git(source, "rev-parse", "HEAD:skills/notes/SKILL.md")
    tree = tree_of(source, [("100644", f"blob {blob}", f"f{number}") for number in range(10)])
    for _ in range(7):
        tree = tree_of(source, [("040000", f"tree {tree}", f"d{number}") for number in range(20)])
    hostile(source, tree)
    with pytest.raises(SkillsError, match="more than 500 files and directories"):
        await fetching(notes(source, path=None, ref="hostile"))


async def test_a_deep_tree_is_refused(source: Path, fetching: Fetching) -> None:
    (source / "skills/notes" / "/".join("abcdefgh")).mkdir(parents=True)
    (source / "skills/notes" / "/".join("abcdefgh") / "x").touch()
    committed(source)
    with pytest.raises(SkillsError, match="deeper than 8 directories"):
        await fetching(notes(source))


@pytest.mark.parametrize("name", ["..", ".", ".git"])
async def test_a_tree_with_names_that_lead_out_writes_nothing_outside(
    source: Path, fetching: Fetching, name: str
) -> None:
    blob = git(source, "rev-parse", "HEAD:skills/notes/SKILL.md")
    inner = tree_of(source, [("100644", f"blob {blob}", "evil")])
    skill, evil = ("100644", f"blob {blob}", "SKILL.md"), ("040000", f"tree {inner}", name)
    hostile(source, tree_of(source, [skill, evil]))
    if name == ".git":
        await fetching(notes(source, path=None, ref="hostile"))
        assert fetching.found == ["notes/.git/evil", "notes/SKILL.md"]
        return
    with pytest.raises(SkillsError):
        await fetching(notes(source, path=None, ref="hostile"))
    assert fetching.found == []
    assert not (fetching.target / "evil").exists()


async def test_a_skill_md_of_fifty_megabytes_is_refused(source: Path, fetching: Fetching) -> None:
    (source / "skills/notes/SKILL.md").write_bytes(bytes(50 * 1024 * 1024))
    committed(source)
    with pytest.raises(SkillsError, match="its files have more than 4194304 bytes together"):
        await fetching(notes(source))
    assert fetching.found == []


async def test_all_skills_together_have_a_bound(source: Path, fetching: Fetching) -> None:
    (source / "skills/notes/large").write_bytes(bytes(3 * 1024 * 1024))
    committed(source)
    several = [notes(source, name=f"n{number}") for number in range(6)]
    with pytest.raises(SkillsError, match=r"skills\[n5\]: .*more than 16777216 bytes in all"):
        await fetching(*several)


async def test_a_server_that_says_nothing_is_given_up(fetching: Fetching) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x.git"
        with pytest.raises(SkillsError, match="took too long: more than 1 s"):
            await fetching(notes(Path("x"), url=url), seconds=1)
    assert list(fetching.spill.iterdir()) == []


def container(
    fetching: Fetching, *skills: GitSkill, largest_file: int = -1, **environ: str
) -> tuple[int, str, str]:
    """Run the container as a whole process: its exit code, its last words, and what it printed."""
    words = fetching.directory / "termination-log"
    words.touch()
    given = {
        "PATH": os.environ["PATH"],
        "GIT_SKILLS": json.dumps([skill.model_dump() for skill in skills]),
        "GIT_SKILLS_DIR": str(fetching.target),
        "GIT_CREDENTIALS_DIR": str(fetching.secrets),
        "TMPDIR": str(fetching.spill),
        "TERMINATION_LOG": str(words),
        **environ,
    }
    limit = (largest_file, resource.RLIM_INFINITY)
    done = subprocess.run(
        [sys.executable, "-m", "worker_wrapper", "skills"],
        env=given,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    return done.returncode, words.read_text(), done.stdout + done.stderr


def test_the_containers_last_words_are_the_commits(source: Path, fetching: Fetching) -> None:
    code, words, _ = container(fetching, notes(source))
    assert code == 0
    [fetched] = read_fetched(words)
    assert (fetched.name, fetched.commit) == ("notes", git(source, "rev-parse", "HEAD"))
    assert fetching.found == ["notes/SKILL.md", "notes/scripts/sign.sh"]


def test_they_are_why_it_could_not_and_no_secret_is_in_them(
    served: str, fetching: Fetching
) -> None:
    give_password(fetching.secrets / "0")
    asked = notes(Path("x"), url=served, credentials=0, ref="v9")
    code, words, printed = container(fetching, asked)
    assert (code, words) == (
        1,
        f"agent.skills[notes]: {served} has no branch or tag 'v9' (a commit needs its full id)",
    )
    assert words in printed
    assert "pa ss'word" not in printed


def test_a_repository_that_is_too_large_fills_no_disk(source: Path, fetching: Fetching) -> None:
    (source / "noise").write_bytes(os.urandom(3 * 1024 * 1024))
    committed(source)
    code, words, _ = container(fetching, notes(source), largest_file=1024 * 1024)
    assert code == 1
    assert words.startswith("agent.skills[notes]: the commit is larger than")
    assert fetching.found == []


def test_without_what_it_is_told_it_says_so(fetching: Fetching) -> None:
    code, words, printed = container(fetching, GIT_SKILLS='[{"name": "../x", "url": "y"}]')
    assert (code, words) == (2, "")
    assert printed.startswith("worker-wrapper skills: GIT_SKILLS")
