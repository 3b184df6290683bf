"""What an agent is given as files of its user: instructions, and skills.

They are put into its HOME before each turn: what the mounted volumes have now, and nothing that
they had before. Files of these names in the workspace are the repository's and stay as they are.
An agent whose CLI has no such place is told of them in words.
"""

import os
import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

from orbiter_contracts.agent_files import INSTRUCTIONS_FILE, MAX_INSTRUCTIONS_BYTES
from orbiter_contracts.skills import (
    MAX_SKILL_BYTES,
    MAX_SKILL_DEPTH,
    MAX_SKILL_FILES,
    MAX_SKILLS,
    SKILL,
)
from worker_wrapper.agents.base import Agent, AgentOptions
from worker_wrapper.process import below

_FIRST_LINE: Final = "<!-- agent.instructions, put here by Orbiter -->\n"
"""Tells our file from one that somebody else has put there."""
_MARK: Final = ".orbiter-skill"
"""Is in each directory that is ours."""
_DESCRIPTION: Final = re.compile(r"^description:[ \t]*(.{1,300})", re.MULTILINE)
_READ_ONLY: Final = 0o444
_RUNS: Final = 0o555


class File(NamedTuple):
    """A file of a skill."""

    content: bytes
    mode: int = _READ_ONLY


Files = dict[str, File]
"""By their paths below the skill's directory."""


def put_into_home(agent: Agent, options: AgentOptions, environ: Mapping[str, str]) -> str:
    """Have the agent find what it is given.

    Args:
        agent: The adapter.
        options: Where instructions and skills are.
        environ: What of the environment the agent sees.

    Returns:
        What it has to be told in words, "" when that is nothing.

    Raises:
        ValueError: What it is to be given cannot be; the text says why.
        OSError: Nothing can be written there.
    """
    text, skills = _instructions(options), _skills(options.skills_dir)
    said = []
    if (place := _place(agent, agent.instructions_path, environ)) is None or not _file(place, text):
        said.append(text)
    if (place := _place(agent, agent.skills_path, environ)) is not None:
        _directories(place, skills)
    elif skills and options.skills_dir is not None:
        said.append(_in_words(skills, options.skills_dir))
    return "\n\n".join(filter(None, said))


def _instructions(options: AgentOptions) -> str:
    if options.instructions_file is None:
        return options.instructions or ""
    try:
        with options.instructions_file.open("rb") as file:
            content = file.read(MAX_INSTRUCTIONS_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{INSTRUCTIONS_FILE} cannot be read: {error.strerror}") from None
    if len(content) > MAX_INSTRUCTIONS_BYTES:
        raise ValueError(f"agent.instructions: more than {MAX_INSTRUCTIONS_BYTES} bytes")
    return content.decode("utf-8", "replace")


def _skills(directory: Path | None) -> dict[str, Files]:
    if directory is None:
        return {}
    try:
        found = sorted(path for path in directory.iterdir() if path.is_dir())
        return {path.name: _skill(path) for path in found[:MAX_SKILLS]}
    except OSError as error:
        raise ValueError(f"agent.skills cannot be read: {error}") from None


def _skill(directory: Path) -> Files:
    """Its files."""
    files: Files = {}
    size = 0
    for path in _files(directory):
        with path.open("rb") as file:
            runs = os.fstat(file.fileno()).st_mode & 0o100
            content = file.read(MAX_SKILL_BYTES - size + 1)
        name = path.relative_to(directory).as_posix()
        files[name] = File(content, _RUNS if runs else _READ_ONLY)
        size += len(content)
        if size > MAX_SKILL_BYTES or len(files) > MAX_SKILL_FILES:
            what = (
                f"{MAX_SKILL_BYTES} bytes" if size > MAX_SKILL_BYTES else f"{len(files) - 1} files"
            )
            raise ValueError(f"agent.skills: {directory.name} has more than {what}")
    if SKILL not in files:
        raise ValueError(f"agent.skills: {directory.name} has no {SKILL}; give it that key")
    return files


def _files(directory: Path, depth: int = 0) -> Iterator[Path]:
    """The files below it. Names that begin with two dots are those of the volume itself.

    A ConfigMap's files are links into such a directory; no link to a directory is followed.
    """
    for path in sorted(directory.iterdir()):
        if path.name.startswith(".."):
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and not path.is_symlink() and depth < MAX_SKILL_DEPTH:
            yield from _files(path, depth + 1)


def _place(
    agent: Agent, path: str | None, environ: Mapping[str, str]
) -> tuple[Path, tuple[str, ...]] | None:
    """A root and the names below it; a variable may have moved the first directory."""
    if path is None or not (home := environ.get("HOME")):
        return None
    first, *rest = path.split("/")
    if moved := environ.get(agent.home_variable or ""):
        Path(moved).mkdir(parents=True, exist_ok=True)
        return Path(moved), tuple(rest)
    return Path(home), (first, *rest)


def _file(place: tuple[Path, tuple[str, ...]], text: str) -> bool:
    """Put the text there; False when somebody else's is."""
    try:
        with below.opened(*place) as file:
            ours = file.read(len(_FIRST_LINE)) == _FIRST_LINE.encode()
    except FileNotFoundError:
        ours = True
    except OSError:
        ours = False
    if ours and text:
        content = BytesIO((_FIRST_LINE + text).encode("utf-8", "replace"))
        below.write(*place, content, _READ_ONLY, 0)
    elif ours:
        below.remove(*place)
    return ours


def _directories(place: tuple[Path, tuple[str, ...]], skills: Mapping[str, Files]) -> None:
    """Put the skills there, each whole and as it is now, and take away what is ours and old."""
    root, parts = place
    for name in _known(root, parts):
        if name not in skills and below.status(root, (*parts, name, _MARK)) is not None:
            below.remove(root, (*parts, name))
    for name, files in skills.items():
        below.remove(root, (*parts, name))
        for path, file in {**files, _MARK: File(b"")}.items():
            where = (*parts, name, *path.split("/"))
            below.write(root, where, BytesIO(file.content), file.mode, 0)


def _known(root: Path, parts: tuple[str, ...]) -> list[str]:
    try:
        with below.directory(root, parts) as at:
            return os.listdir(at)  # noqa: PTH208 - of a directory that is open
    except OSError:
        return []


def _in_words(skills: Mapping[str, Files], directory: Path) -> str:
    lines = []
    for name, files in skills.items():
        found = _DESCRIPTION.search(files[SKILL].content.decode("utf-8", "replace"))
        about = f": {found[1].strip()}" if found else ""
        lines.append(f"- {directory / name / SKILL}{about}")
    return "Read one of these files when its task is at hand:\n" + "\n".join(lines)
