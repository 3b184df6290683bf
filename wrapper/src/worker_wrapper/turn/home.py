"""What an agent is given as files of its user: instructions, and skills.

They are put into its HOME before each turn: what the mounted ConfigMaps say now, and nothing that
they said before. Files of these names in the workspace are the repository's and stay as they are.
An agent whose CLI has no such place is told of them in words.
"""

import os
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Final

from orbiter_contracts.agent_files import (
    INSTRUCTIONS_FILE,
    MAX_INSTRUCTIONS_BYTES,
    MAX_SKILL_BYTES,
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

Files = dict[str, bytes]


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
    """Its files. Names that begin with two dots are those of the volume itself."""
    files: Files = {}
    size = 0
    for path in sorted(directory.iterdir())[:MAX_SKILL_FILES]:
        if path.is_file() and not path.name.startswith(".."):
            with path.open("rb") as file:
                files[path.name] = file.read(MAX_SKILL_BYTES)
            size += len(files[path.name])
    if SKILL not in files:
        raise ValueError(f"agent.skills: {directory.name} has no {SKILL}; give it that key")
    if size > MAX_SKILL_BYTES:
        raise ValueError(f"agent.skills: {directory.name} has more than {MAX_SKILL_BYTES} bytes")
    return files


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
        for file, content in {**files, _MARK: b""}.items():
            below.write(root, (*parts, name, file), BytesIO(content), _READ_ONLY, 0)


def _known(root: Path, parts: tuple[str, ...]) -> list[str]:
    try:
        with below.directory(root, parts) as at:
            return os.listdir(at)  # noqa: PTH208 - of a directory that is open
    except OSError:
        return []


def _in_words(skills: Mapping[str, Files], directory: Path) -> str:
    lines = []
    for name, files in skills.items():
        found = _DESCRIPTION.search(files[SKILL].decode("utf-8", "replace"))
        about = f": {found[1].strip()}" if found else ""
        lines.append(f"- {directory / name / SKILL}{about}")
    return "Read one of these files when its task is at hand:\n" + "\n".join(lines)
