"""Instructions and skills of an agent: what a spec says, and what a worker calls them. Pure.

What a spec names is mounted; the worker puts what is in it into the place in its HOME where the
agent's CLI looks for such things, so that the workspace's own files stay as they are.
"""

from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orbiter_contracts.skills import MAX_SKILLS, NO_SKILL_NAME, SKILL_NAME, Named, Skill
from orbiter_contracts.spec_errors import spec_problem

INSTRUCTIONS: Final = "AGENT_INSTRUCTIONS"
"""Variable with the text, or instead of it:"""
INSTRUCTIONS_FILE: Final = "AGENT_INSTRUCTIONS_FILE"
"""Variable with the path of a file that has it."""
SKILLS_DIR: Final = "AGENT_SKILLS_DIR"
"""Variable with the path of a directory: each of its directories is a skill."""
MAX_INSTRUCTIONS_BYTES: Final = 64 * 1024


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class NamedKey(Named):
    """A key of a ConfigMap in the worker's namespace."""

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
        raise ValueError(spec_problem(error, {SKILL_NAME: NO_SKILL_NAME})) from None


def agent_files_problem(instructions: Any, skills: Any) -> str | None:
    """Why an agent can be given none of this; None when it can."""
    try:
        read_agent_files(instructions, skills)
    except ValueError as error:
        return str(error)
    return None
