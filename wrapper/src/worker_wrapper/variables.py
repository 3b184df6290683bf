"""Kinds of variables: how the text of one becomes a value, for settings.py. Pure.

A function here raises a bare ValueError: settings.py says which variable and what it must be. Only
what is wrong with a Redis URL is said by the contracts, the same in every program.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from orbiter_contracts.redis_url import read_redis_url
from worker_wrapper.agents import known_agents

_DEFAULT_WORKSPACE: Final = Path("/workspace")


def _words(value: object) -> object:
    """Words with commas or spaces between; a comma alone says that there are none."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


def _redis_url(url: str) -> str:
    read_redis_url(url)
    return url


def _agent_type(name: str) -> str:
    if name not in known_agents():
        raise ValueError
    return name


def default_workspace() -> Path:
    """The image's, else, by hand, where the wrapper was started."""
    return _DEFAULT_WORKSPACE if _DEFAULT_WORKSPACE.is_dir() else Path.cwd()


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
AtLeastOne = Annotated[int, Field(ge=1)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]
RedisUrl = Annotated[str, AfterValidator(_redis_url)]
AgentType = Annotated[str, AfterValidator(_agent_type)]
Scripts = Literal["Functions", "Eval"]
