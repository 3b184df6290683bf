"""The types of agents a worker can run: the one table that all others are held against."""

from typing import Final, Literal, NamedTuple

Streaming = Literal["word by word", "message by message"]
_ANTHROPIC: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_ANTHROPIC_URL: Final = "ANTHROPIC_BASE_URL"
_OPENAI: Final = ("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL")
USE_BEDROCK: Final = "CLAUDE_CODE_USE_BEDROCK"
"""Has Claude Code ask Amazon Bedrock."""


class AgentType(NamedTuple):
    """What there is to know about an agent, whoever runs it.

    Attributes:
        command: What is started, as PATH finds it.
        variables: Keys of `agent.credentialsSecretRef` that become variables of the worker.
        resumes: Its CLI goes on from a copy of the conversation that was made while it worked.
        streams: How its answer can be heard while it is given.
        usage: What it tells of a turn's cost.
        limits: The limits of `agent` that its CLI keeps; of others an output says so.
        keyless: Variables with one of which it needs none of its credentials.
    """

    command: str
    variables: tuple[str, ...]
    resumes: bool
    streams: Streaming
    usage: str
    limits: tuple[str, ...]
    keyless: tuple[str, ...] = ()


AGENTS: Final = {
    "claude": AgentType(
        "claude",
        (*_ANTHROPIC, _ANTHROPIC_URL),
        resumes=True,
        streams="word by word",
        usage="tokens, cost",
        limits=("maxTurns", "maxCostUSD"),
        keyless=(USE_BEDROCK,),
    ),
    "codex": AgentType(
        "codex", _OPENAI, resumes=True, streams="message by message", usage="tokens", limits=()
    ),
    "factory": AgentType(
        "droid",
        (
            *("FACTORY_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "FACTORY_MODEL"),
            *("OPENAI_BASE_URL", _ANTHROPIC_URL),
        ),
        resumes=False,
        streams="message by message",
        usage="tokens",
        limits=(),
    ),
    "gemini": AgentType(
        "gemini",
        ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
        resumes=True,
        streams="word by word",
        usage="tokens",
        limits=("maxTurns",),
    ),
    "opencode": AgentType(
        "opencode",
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", _ANTHROPIC_URL, "OPENAI_BASE_URL"),
        resumes=True,
        streams="message by message",
        usage="tokens, cost",
        limits=(),
    ),
    "orbiter": AgentType(
        "orbiter",
        (*_ANTHROPIC, _ANTHROPIC_URL, *_OPENAI),
        resumes=True,
        streams="word by word",
        usage="tokens, cost",
        limits=("maxTurns", "maxCostUSD"),
    ),
}
"""Each has an adapter in the wrapper and an image. CRDs, chart, pages and the command line name the
same; contracts/tests/test_contract_agent_types.py compares them."""
AGENT_TYPES: Final = tuple(AGENTS)
"""Their names."""


def keeps_cost(kind: str) -> bool:
    """Whether an agent of this type ends at its `maxCostUSD`; one that nobody knows does not."""
    return kind in AGENTS and "maxCostUSD" in AGENTS[kind].limits
