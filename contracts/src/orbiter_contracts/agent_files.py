"""Instructions and skills of an agent: what a spec says, and what a worker calls them. Pure.

A ConfigMap of a spec is mounted; the worker puts what is in it into the place in its HOME where the
agent's CLI looks for such things, so that the workspace's own files stay as they are.
"""

from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orbiter_contracts.spec_errors import spec_problem

INSTRUCTIONS: Final = "AGENT_INSTRUCTIONS"
"""Variable with the text, or instead of it:"""
INSTRUCTIONS_FILE: Final = "AGENT_INSTRUCTIONS_FILE"
"""Variable with the path of a file that has it."""
SKILLS_DIR: Final = "AGENT_SKILLS_DIR"
"""Variable with the path of a directory: each of its directories is a skill."""
SKILL: Final = "SKILL.md"
MAX_INSTRUCTIONS_BYTES: Final = 64 * 1024
MAX_SKILLS: Final = 20
MAX_SKILL_BYTES: Final = 1024 * 1024
"""The most that a ConfigMap has."""
MAX_SKILL_FILES: Final = 200
SKILL_NAME: Final = r"^[a-z0-9]([-a-z0-9]{0,49}[a-z0-9])?$"
"""Behind `agent-skill-` it is the name of a volume."""
_NO_NAME: Final = "is no name of a skill; write at most 51 lower-case letters, digits and -"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Named(_Part):
    """A ConfigMap in the worker's namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253)]


class NamedKey(Named):
    """A key of one."""

    key: Annotated[str, Field(min_length=1, max_length=253)]


class Instructions(_Part):
    """A text, or where it is."""

    text: Annotated[str, Field(min_length=1)] | None = None
    config_map_key_ref: NamedKey | None = Field(None, alias="configMapKeyRef")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.text is None) == (self.config_map_key_ref is None):
            raise ValueError("write text or configMapKeyRef, one of them")
        if self.text is not None and len(self.text.encode()) > MAX_INSTRUCTIONS_BYTES:
            raise ValueError(f"more than {MAX_INSTRUCTIONS_BYTES} bytes; write less")
        return self


class Skill(_Part):
    """A directory of files, one of which is SKILL.md."""

    name: Annotated[str, Field(pattern=SKILL_NAME)]
    config_map_ref: Named = Field(alias="configMapRef")


class AgentFiles(_Part):
    """Both of an agent."""

    instructions: Instructions | None = None
    skills: Annotated[tuple[Skill, ...], Field(max_length=MAX_SKILLS)] = ()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [skill.name for skill in self.skills]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"skills: {name} is there twice; leave one out")
        return self


def read_agent_files(instructions: Any, skills: Any) -> AgentFiles:
    """Read `agent.instructions` and `agent.skills`.

    Args:
        instructions: Of any value; None for none.
        skills: Of any value.

    Raises:
        ValueError: They cannot be read; the text says where, and shows no value.
    """
    try:
        return AgentFiles.model_validate({"instructions": instructions, "skills": skills})
    except ValidationError as error:
        raise ValueError(spec_problem(error, {SKILL_NAME: _NO_NAME})) from None


def agent_files_problem(instructions: Any, skills: Any) -> str | None:
    """Why an agent can be given none of this; None when it can."""
    try:
        read_agent_files(instructions, skills)
    except ValueError as error:
        return str(error)
    return None
