"""Skills of an agent: what a spec says of them, and what the container that fetches some is told.

A skill is a directory of files, one of which is SKILL.md. That of a ConfigMap is mounted; that of
a repository is fetched by a container of its own, before the agent starts, and mounted likewise.
Pure.
"""

import re
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
    model_validator,
)

from orbiter_contracts.bounds import MAX_LINE_CHARACTERS, MAX_NAME_CHARACTERS, Line, Name
from orbiter_contracts.message_base import Message

SKILL: Final = "SKILL.md"
MAX_SKILLS: Final = 20
MAX_SKILL_BYTES: Final = 4 * 1024 * 1024
"""Of all files of a skill. A ConfigMap has at most a quarter of it."""
MAX_FETCHED_BYTES: Final = 16 * 1024 * 1024
"""Of all skills of an agent that repositories have: each turn puts them into its HOME."""
MAX_SKILL_FILES: Final = 500
MAX_SKILL_DEPTH: Final = 8
"""How many directories a file of a skill may be in, the skill's own among them."""
MAX_PATH_BYTES: Final = 1000
SKILL_NAME: Final = r"^[a-z0-9]([-a-z0-9]{0,49}[a-z0-9])?$"
"""Behind `agent-skill-` it is the name of a volume."""
NO_SKILL_NAME: Final = "is no name of a skill; write at most 51 lower-case letters, digits and -"
GIT_SKILLS: Final = "GIT_SKILLS"
"""Variable that tells the container which to fetch: a `GitSkills` as JSON."""
GIT_SKILLS_DIR: Final = "GIT_SKILLS_DIR"
"""Variable with the path of the directory where it puts them."""
MAX_REPORT_CHARACTERS: Final = 4096
"""What Kubernetes keeps of a container's last words, by which it tells the commits."""

_URL: Final = re.compile(
    r"(?i:https?|ssh|git)://[^-\s]\S*|[A-Za-z0-9_.][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:\S+"
)
_WITH_USER: Final = re.compile(r"(?i:https?)://[^/?#]*@.*|(?i:[a-z]+)://[^/?#@]*:[^/?#@]*@.*")
_REF: Final = re.compile(r"[^-\s~^:?*\[\\][^\s~^:?*\[\\]*")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Named(_Part):
    """A ConfigMap or a Secret in the worker's namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253)]


def _url(text: str) -> str:
    # Not repeated: somebody may have written a password into it.
    if _WITH_USER.fullmatch(text):
        raise ValueError(
            "the URL contains credentials; write it without them and put them into a Secret named "
            "by git.credentialsSecretRef"
        )
    if not _URL.fullmatch(text):
        raise ValueError("write an https://, http://, ssh:// or git:// URL, or user@host:path")
    return text


def _ref(text: str) -> str:
    if not _REF.fullmatch(text):
        raise ValueError("write the name of a branch or tag, or a commit id")
    return text


def _path(text: str) -> str:
    if not is_inside(text) or not text.isprintable():
        raise ValueError("write a directory of the repository, like skills/notes, without . and ..")
    return text


def is_inside(path: str) -> bool:
    """Whether a path with / between its names leads nowhere but into the directory it begins at."""
    names = path.split("/")
    return len(path.encode("utf-8", "replace")) <= MAX_PATH_BYTES and not any(
        name in ("", ".", "..") or "\0" in name for name in names
    )


class SkillRepository(_Part):
    """A repository, one of whose directories is a skill; without `path` it is the whole of it."""

    url: Annotated[str, Field(max_length=MAX_LINE_CHARACTERS), AfterValidator(_url)]
    ref: Annotated[str, Field(max_length=MAX_NAME_CHARACTERS), AfterValidator(_ref)] | None = None
    path: Annotated[str, AfterValidator(_path)] | None = None
    credentials_secret_ref: Named | None = Field(None, alias="credentialsSecretRef")


class Skill(_Part):
    """A directory of files, one of which is SKILL.md; and who has it."""

    name: Annotated[str, Field(pattern=SKILL_NAME)]
    config_map_ref: Named | None = Field(None, alias="configMapRef")
    git: SkillRepository | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.config_map_ref is None) == (self.git is None):
            raise ValueError("write configMapRef or git, one of them")
        return self


class GitSkill(Message):
    """One skill to fetch. `credentials` is the number of the Secret, as it is mounted."""

    name: Annotated[str, Field(pattern=SKILL_NAME)]
    url: Line
    ref: Name | None = None
    path: Annotated[str, AfterValidator(_path)] | None = None
    credentials: Annotated[int, Field(ge=0, lt=MAX_SKILLS)] | None = None


class GitSkills(RootModel[Annotated[list[GitSkill], Field(max_length=MAX_SKILLS)]]):
    """All that there are to fetch."""


class FetchedSkill(_Part):
    """A skill that was fetched, and of which commit it is."""

    name: Annotated[str, Field(pattern=SKILL_NAME)]
    commit: Annotated[str, Field(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]


FetchedSkills = Annotated[tuple[FetchedSkill, ...], Field(max_length=MAX_SKILLS)]


class _Fetched(RootModel[FetchedSkills]):
    pass


def fetched_report(commits: dict[str, str]) -> str:
    """The last words of the container that has fetched them: each skill's commit."""
    found = (FetchedSkill(name=name, commit=commit) for name, commit in commits.items())
    return _Fetched(tuple(found)).model_dump_json()


def read_fetched(text: object) -> tuple[FetchedSkill, ...]:
    """Read them, whoever has written them; nothing from what cannot be read."""
    if not isinstance(text, str) or len(text) > MAX_REPORT_CHARACTERS:
        return ()
    try:
        return _Fetched.model_validate_json(text).root
    except ValidationError:
        return ()
