"""Arguments and options that several commands share."""

from typing import Annotated

import typer

SessionName = Annotated[str, typer.Argument(metavar="NAME", help="A session: NAME or pos/NAME.")]
TaskName = Annotated[str, typer.Argument(metavar="NAME", help="A task: NAME or at/NAME.")]
AnyName = Annotated[
    str, typer.Argument(metavar="NAME", help="at/NAME, pos/NAME, or the name alone.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
NewName = Annotated[
    str | None, typer.Option("--name", help="The new task's name; made of the old one if absent.")
]
MaxCost = Annotated[float | None, typer.Option("--max-cost", help="US dollars at most.")]
MaxTurns = Annotated[int | None, typer.Option("--max-turns", help="Model calls at most.")]
PromptFile = Annotated[
    str | None,
    typer.Option("-f", "--file", help="Read the prompt from this file.", show_default=False),
]
Ttl = Annotated[str | None, typer.Option("--ttl", help="Delete the ended task after this time.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the AgentTask instead of creating it.")
]
Credentials = Annotated[
    str | None,
    typer.Option(
        "--credentials",
        help="Secret with the agent's key; AGENT-credentials when absent, '' for none.",
    ),
]
SystemPrompt = Annotated[
    str | None, typer.Option("--system-prompt", help="Text for the agent's system prompt.")
]
GitBranch = Annotated[str | None, typer.Option("--git-branch", help="Branch for the commits.")]
GitSecret = Annotated[
    str | None, typer.Option("--git-credentials", help="Secret for the repository.")
]
GitRef = Annotated[
    str | None, typer.Option("--git-ref", help="Branch, tag or commit to start from.")
]
TaskTimeout = Annotated[
    str | None,
    typer.Option("--task-timeout", help="Time for one attempt, e.g. 30m; 30 min by default."),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help="AgentProfile that says what is not said here; cap/NAME is a ClusterAgentProfile.",
    ),
]
ConcurrencyKey = Annotated[
    str | None,
    typer.Option("--concurrency-key", help="Tasks with the same key run one at a time."),
]
DependsOn = Annotated[
    list[str] | None,
    typer.Option("--depends-on", help="A task to be Completed first; may be repeated."),
]
Plain = Annotated[
    bool,
    typer.Option("--plain", help="As in a pipe: no colours, and | before what is the agent's."),
]
Everywhere = Annotated[
    bool, typer.Option("-A", "--all-namespaces", help="Of all namespaces that you may see.")
]
Endpoint = Annotated[
    str | None, typer.Option("--endpoint", help="The store, as it is reached from here.")
]
StoreSecret = Annotated[
    str | None,
    typer.Option("--store-secret", help="Its credentials; Secret orbiter-artifacts if absent."),
]
RedisUrl = Annotated[
    str | None,
    typer.Option(
        "--redis-url",
        envvar="ORBITER_REDIS_URL",
        help="Redis to talk to, instead of the cluster's through a port-forward.",
        show_default=False,
    ),
]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Follow the task until it ends.")]
Timeout = Annotated[
    str | None,
    typer.Option("--timeout", help="Give up after this time, e.g. 90s, 30m.", show_default=False),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on with its conversation and its workspace, from its last checkpoint. For tasks "
        "that failed or were cancelled; one that is Completed can only be done once more.",
    ),
]
