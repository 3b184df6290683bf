"""The images there are, and what each is made of."""

from dataclasses import dataclass

PREFIX = "localhost/orbiter"
TAG = "dev"
WORKER_PARTS = (
    "images/worker.Dockerfile",
    "images/worker.lock",
    "images/worker_start.py",
    "contracts/src",
    "wrapper/src",
)
ORBITER_PARTS = (
    "images/orbiter.Dockerfile",
    "images/orbiter.lock",
    *(f"packages/orbiter-{name}/src" for name in ("core", "models", "mcp", "cli")),
)
SERVER_PARTS = (
    "images/server.Dockerfile",
    "images/server.lock",
    *(
        f"packages/orbiter-{name}/src"
        for name in ("core", "models", "mcp", "tasks", "client", "server", "cli")
    ),
)


@dataclass(frozen=True)
class Image:
    """One image.

    Attributes:
        short: its name without prefix and tag.
        parts: the files and directories of the repository that go into it, its Dockerfile first.
        lock: the name of the lock file of its Python packages, or None.
        agent: the agent whose CLI it contains, or None.
        parent: the image of ours that it is built from, or None for the base.
        always: whether it is built when nothing was asked for by name.
    """

    short: str
    parts: tuple[str, ...]
    lock: str | None = None
    agent: str | None = None
    parent: str | None = None
    always: bool = True

    @property
    def name(self) -> str:
        """The full name, as in a pod's `image:`."""
        return f"{PREFIX}/{self.short}:{TAG}"

    @property
    def dockerfile(self) -> str:
        """Its Dockerfile, from the repository's root."""
        return self.parts[0]


def worker(agent: str, *, always: bool) -> Image:
    """Return the worker image with the CLI of an agent."""
    parts = (*WORKER_PARTS, "images/fetch-agent.sh")
    return Image(f"worker-{agent}", parts, lock="worker", agent=agent, always=always)


CATALOG = (
    Image(
        "operator",
        (
            *("images/operator.Dockerfile", "images/operator.lock"),
            *("contracts/src", "operator/src", "triggers/src"),
        ),
        lock="operator",
    ),
    Image("worker", WORKER_PARTS, lock="worker"),
    worker("claude", always=True),
    worker("codex", always=False),
    worker("factory", always=False),
    worker("gemini", always=False),
    worker("opencode", always=False),
    Image("worker-orbiter", ORBITER_PARTS, lock="orbiter", parent="worker"),
    Image("server", SERVER_PARTS, lock="server"),
    Image("redis", ("images/redis.Dockerfile",)),
    Image("model-server", ("tests/images/model-server.Dockerfile", "tests/model_server")),
    Image("git-server", ("tests/images/git-server.Dockerfile", "tests/images/git_server.py")),
    Image(
        "worker-echo",
        ("tests/images/echo-worker.Dockerfile", "tests/images/echo-claude"),
        parent="worker",
    ),
)
BY_NAME = {image.short: image for image in CATALOG}


def select(names: list[str], everything: bool) -> list[Image]:
    """Return the images asked for and, before them, the ones they are built from.

    Raises:
        KeyError: There is no image of that name.
    """
    wanted = names or [image.short for image in CATALOG if image.always or everything]
    chosen: dict[str, Image] = {}
    for name in wanted:
        image = BY_NAME[name]
        if image.parent:
            chosen[image.parent] = BY_NAME[image.parent]
        chosen[name] = image
    return list(chosen.values())
