"""Shells in pods: those of agents, which run what an agent itself would, and one without guards."""

from support.cluster import Object
from support.world import World

from attacks.table import Refused

# The agent reads scripts from a directory that whoever drives it writes to. What runs them is a
# child of the agent and has its variables; one of `kubectl exec` would have the worker's.
_LOOP = (
    "mkdir -p {place}; (while :; do for f in {place}/*.sh; do "
    'if [ -e "$f" ]; then mv "$f" "$f.run"; sh "$f.run" > "$f.out" 2>&1 < /dev/null; '
    'echo $? > "$f.code.new"; mv "$f.code.new" "$f.code"; fi; '
    "done; sleep 0.1; done) > /dev/null 2>&1 &"
)
_PLACE = "/tmp/shell"
PROMPT = f"[[bash: {_LOOP.format(place=_PLACE)}]]\n[[hang]]"
"""Has an agent with the scripted model behind it become a shell, until it is ended."""
# Hands a script over and waits for what came of it: its output, and its exit code on the last line.
_ASK = (
    "mkdir -p {place}; f={place}/{number}; cat > $f.new; mv $f.new $f.sh; n=0; "
    "until [ -e $f.sh.code ]; do n=$((n + 1)); [ $n -lt 900 ] || exit 9; sleep 0.1; done; "
    "cat $f.sh.out; echo; cat $f.sh.code"
)
_PLAIN = "sh 2>&1; code=$?; echo; echo $code"


class Shell:
    """A shell in one pod.

    Args:
        world: The cluster.
        namespace: Where the pod is.
        pod: Its name.
        agent: Whether an agent runs it; else `kubectl exec` does.
    """

    def __init__(self, world: World, namespace: str, pod: str, *, agent: bool) -> None:
        self._world = world
        self._pod = (pod, namespace)
        self._exec = ("-n", namespace, "exec", "-i", pod, "--", "sh", "-c")
        self._agent = agent
        self._number = 0

    def run(self, script: str) -> str:
        """Run a script; returns what it printed.

        Raises:
            Refused: Its exit code was not 0; the text is what it printed.
        """
        self._number += 1
        ask = _ASK.format(place=_PLACE, number=self._number) if self._agent else _PLAIN
        said = self._world.kubectl(*self._exec, ask, stdin=script)
        text, _, code = said.rstrip("\n").rpartition("\n")
        if code != "0":
            raise Refused(f"{text.strip()} (exit code {code})")
        return text.strip()

    def beside(self, script: str) -> str:
        """Run a script in the pod whether or not its agent lives; returns what it printed."""
        return self._world.kubectl(*self._exec, script).strip()

    def seen(self) -> Object:
        """The pod as the API server has it."""
        return self._world.cluster.get("pod", *self._pod)
