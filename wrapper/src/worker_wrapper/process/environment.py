"""What of the environment the agent, and the wrapper's own git, may see: an allowlist.

The agent runs whatever a model tells it to. It gets its own credentials and what the user listed in
AGENT_ENV; not Redis, not the git credentials, nothing about this worker or its task but what its
adapter needs.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from orbiter_contracts.object_store import VARIABLES
from orbiter_contracts.tracing import TRACEPARENT

_CERTIFICATES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
    *("CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO"),
)
"""Where programs find the CAs they trust: a company's own sign for models, git and packages."""
_COMMON = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ", "USER"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *_CERTIFICATES,
)
_ALWAYS = (TRACEPARENT,)
"""What an agent gets unasked: where its own spans belong, which is no secret."""
_NEVER = frozenset({"REDIS_URL", "GIT_CREDENTIALS_DIR", *VARIABLES})
_NEVER_PREFIXES = ("WORKER_", "TASK_")


def common_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What any program needs."""
    return {name: environ[name] for name in _COMMON if name in environ}


def agent_environment(
    needed: Iterable[str], environ: Mapping[str, str], workdir: Path
) -> dict[str, str]:
    """What the agent may see of our environment, and what its git needs to work.

    Args:
        needed: The variables its adapter asks for.
        environ: Our environment.
        workdir: Where it works.
    """
    listed = [name.strip() for name in environ.get("AGENT_ENV", "").split(",")]
    asked = [name for name in listed if not name.startswith(_NEVER_PREFIXES)]
    names = [name for name in (*needed, *asked, *_ALWAYS) if name in environ and name not in _NEVER]
    return (
        common_environment(environ)
        | _git_for_agents(workdir)
        | {name: environ[name] for name in names}
    )


def _git_for_agents(workdir: Path) -> dict[str, str]:
    """An identity for commits, no waiting for a password, and trust in a mount owned by root."""
    return {
        "GIT_AUTHOR_NAME": "Orbiter agent",
        "GIT_AUTHOR_EMAIL": "agent@orbiter.dev",
        "GIT_COMMITTER_NAME": "Orbiter agent",
        "GIT_COMMITTER_EMAIL": "agent@orbiter.dev",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": str(workdir),
    }
