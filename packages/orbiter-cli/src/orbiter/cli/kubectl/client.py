"""The API server, reached by running kubectl.

So contexts, exec credentials, proxies and everything else of a kubeconfig just work. Objects go in
and out as dicts. Prompts, answers and Secrets travel through pipes only: what is in argv can be
read by every process of the machine.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from orbiter.cli.ui.outcome import CommandError, ExitCode

Object = dict[str, Any]
EVENT: Final = 2
LIST: Final = 3

_LOG_LINE: Final = re.compile(r"[IWEF]\d{4} \d\d:\d\d:")
"""What kubectl's libraries log on stderr beside its own message, again at every try."""
_INSTALL: Final = "Orbiter is not installed there; README.md, “On your own cluster”, says how"
_NO_KIND: Final = (
    "the server doesn't have a resource type",
    "no matches for kind",
    "the server could not find the requested resource",
)
_UNREACHABLE: Final = (
    "was refused", "connection refused", "Unable to connect", "no such host", "i/o timeout",
    "context deadline", "does not exist", "context was not found", "no configuration",
    "You must be logged in",
    "(Forbidden)", "(Unauthorized)", "invalid configuration", "TLS handshake", "no route to host",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look: kubectl's own flags, passed on to it as they are."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def flags(self, *, namespace: str | None = None) -> list[str]:
        """The flags as words; `namespace` replaces the one that was given."""
        place = namespace or self.namespace
        named = (
            ("--kubeconfig", self.kubeconfig),
            ("--context", self.context),
            ("--namespace", place),
        )
        return [f"{flag}={value}" for flag, value in named if value]


class Kubectl:
    """One cluster and namespace, as kubectl sees them.

    Args:
        scope: kubectl's flags.
        program: The program to run.
    """

    def __init__(self, scope: Scope, program: str = "kubectl") -> None:
        self.scope = scope
        self._program = program

    def command(self, *words: str, namespace: str | None = None) -> list[str]:
        """The words that run kubectl here, for callers that keep it running."""
        return [self._program, *self.scope.flags(namespace=namespace), *words]

    def run(self, *words: str, stdin: str | None = None, namespace: str | None = None) -> str:
        """Run kubectl and return what it printed.

        Raises:
            CommandError: It failed; the text is what it said, made readable.
        """
        argv = self.command(*words, namespace=namespace)
        try:
            done = subprocess.run(
                argv,
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise _no_kubectl(self._program, error) from None
        if done.returncode != 0:
            raise explain(done.stderr.strip() or f"kubectl {words[0]} failed without a word")
        return done.stdout

    def pass_through(self, *words: str) -> int:
        """Run kubectl with our own terminal; return its exit code."""
        try:
            return subprocess.call(self.command(*words))
        except OSError as error:
            raise _no_kubectl(self._program, error) from None

    @contextmanager
    def running(
        self, *words: str, namespace: str | None = None
    ) -> Iterator["subprocess.Popen[str]"]:
        """Keep kubectl running, away from the terminal's Ctrl-C, and end it afterwards."""
        try:
            child = subprocess.Popen(
                self.command(*words, namespace=namespace),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise _no_kubectl(self._program, error) from None
        with child:
            try:
                yield child
            finally:
                child.kill()

    def find(self, kinds: Sequence[str], name: str) -> list[Object]:
        """Read the objects of these kinds that have a name; none is no error."""
        printed = self.run("get", ",".join(kinds), name, "--ignore-not-found", "-o", "json")
        if not printed.strip():
            return []
        found = decode(printed, root=LIST)
        items: list[Object] = found["items"] if found.get("kind") == "List" else [found]
        return items

    def list_all(
        self, kind: str, *flags: str, namespace: str | None = None, everywhere: bool = False
    ) -> list[Object]:
        """Read all objects of a kind that the flags (`--selector=…`) choose."""
        where = ["--all-namespaces"] if everywhere else []
        printed = self.run("get", kind, "-o", "json", *where, *flags, namespace=namespace)
        items: list[Object] = decode(printed, root=LIST)["items"]
        return items

    def create(self, manifest: Object) -> Object:
        """Create an object; return it as the server keeps it."""
        return decode(self.run("create", "-f", "-", "-o", "json", stdin=json.dumps(manifest)))

    def patch(self, kind: str, name: str, patch: Any, *, how: str) -> None:
        """Change an object; `how` is kubectl's --type, `merge` or `json`."""
        self.run(
            *("patch", kind, name, f"--type={how}", "--patch-file=/dev/stdin"),
            stdin=json.dumps(patch),
        )

    def namespace(self) -> str:
        """The namespace that is meant, for messages."""
        if self.scope.namespace:
            return self.scope.namespace
        try:
            words = ("config", "view", "--minify", "-o", "jsonpath={..namespace}")
            return self.run(*words).strip() or "default"
        except CommandError:
            return "default"


def decode(printed: str, *, root: int = 1) -> Object:
    """Read what kubectl printed, whatever somebody has put into an object.

    Args:
        printed: JSON.
        root: On which level the objects are.
    """
    try:
        from orbiter_contracts import json_text
    except ModuleNotFoundError:
        # Without the extra `kubernetes` only ordinary objects can be read; others ask for it.
        with suppress(ValueError, RecursionError):
            plain: Object = json.loads(printed)
            return plain
        raise
    found: Object = json_text.decode(printed.encode(errors="replace"), root=root)
    return found


def explain(said: str) -> CommandError:
    """Turn what kubectl said on stderr into an error with a next step."""
    lines = said.splitlines()
    said = "\n".join([line for line in lines if not _LOG_LINE.match(line)] or lines)
    text = said.removeprefix("error: ").removeprefix("Error: ")
    if text.startswith("Error from server (") and "): " in text:
        text = text.partition("): ")[2]
    # what is created comes from us by stdin, and the flag is kubectl's, not ours
    text = text.removeprefix('error validating "STDIN": error validating data: ')
    text = text.partition("; if you choose to ignore these errors,")[0]
    if any(sign in said for sign in _NO_KIND):
        return CommandError(f"{text}: {_INSTALL}", ExitCode.UNREACHABLE)
    if "(NotFound)" in said:
        return CommandError(text, ExitCode.NOT_FOUND)
    if any(sign in said for sign in _UNREACHABLE):
        return CommandError(text, ExitCode.UNREACHABLE)
    return CommandError(text)


def _no_kubectl(program: str, error: OSError) -> CommandError:
    why = "is not on PATH" if isinstance(error, FileNotFoundError) else f"cannot run: {error}"
    return CommandError(
        f"{program} {why}; install it (https://kubernetes.io/docs/tasks/tools)",
        ExitCode.UNREACHABLE,
    )
