"""`python -m orbiter_operator.smoke_test NAMESPACE`: one task from end to end, at no cost.

`helm test` runs it. The agent is Orbiter's own with the model `scripted:…`, which answers what its
name says and asks nobody, so that it needs no key: what is tried is everything between the API
server and the agent. The task is deleted when it has ended, and stays for whoever asks why if it
did not complete.
"""

import argparse
import asyncio
import sys
import uuid
from collections.abc import Sequence
from typing import Any

from kopf import LoginError

from orbiter_contracts.bounds import one_line
from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.connection import Credentials, load_connection
from orbiter_operator.kube.resources import AGENT_TASKS
from orbiter_operator.tasks.models import FINAL

Object = dict[str, Any]
ANSWER = '<result>{"status": "success", "summary": "it works"}</result>'
_OFTEN = 1.0
_LONGEST_LINE = 400


class TrialError(Exception):
    """The task has not completed; the sentence says how far it came and what to do."""


def manifest(name: str) -> Object:
    """The task that is tried."""
    # The key is nobody's: the worker wants one, and this model does not.
    env = [{"name": "OPENAI_API_KEY", "value": "none"}]
    agent = {"type": "orbiter", "model": f"scripted:{ANSWER}", "env": env}
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentTask",
        "metadata": {"name": name},
        "spec": {
            "prompt": "Say that it works.",
            "agent": agent,
            "timeoutSeconds": 300,
            "ttlSecondsAfterFinished": 3600,
        },
    }


async def try_task(kube: Kube, namespace: str, name: str, patience: float) -> str:
    """Make the task, wait for its end, and delete it.

    Args:
        kube: Who may create, get and delete AgentTasks there.
        namespace: One in which workers may run.
        name: The task's.
        patience: Seconds until it has to have ended.

    Returns:
        What the agent said.

    Raises:
        TrialError: It failed, or did not end in time.
        ApiError: The API server refuses.
    """
    await kube.create(AGENT_TASKS, namespace, manifest(name))
    try:
        async with asyncio.timeout(patience):
            status = await _end(kube, namespace, name)
    except TimeoutError:
        status = (await kube.get(AGENT_TASKS, namespace, name)).get("status") or {}
    phase, message = status.get("phase", "Pending"), status.get("message", "nobody has seen it yet")
    if phase != "Completed":
        raise TrialError(
            f"the AgentTask {namespace}/{name} is {phase} after {patience:.0f} s at most: "
            f"{one_line(str(message), _LONGEST_LINE)}; `kubectl orbiter doctor` and "
            f"`kubectl -n {namespace} describe agenttask {name}` say more"
        )
    await kube.delete(AGENT_TASKS, namespace, name)
    return one_line(str(message), _LONGEST_LINE)


async def _end(kube: Kube, namespace: str, name: str) -> Object:
    while True:
        status: Object = (await kube.get(AGENT_TASKS, namespace, name)).get("status") or {}
        if status.get("phase") in FINAL:
            return status
        await asyncio.sleep(_OFTEN)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try it; returns the exit code: 1 when the task has not completed."""
    parser = argparse.ArgumentParser(prog="orbiter_operator.smoke_test", description=__doc__)
    parser.add_argument("namespace", help="one in which workers may run")
    parser.add_argument("--seconds", type=float, default=300, help="how long it may take (300)")
    given = parser.parse_args(arguments)
    try:
        said = asyncio.run(_run(given.namespace, given.seconds))
    except (TrialError, LoginError, ApiError, *TRANSPORT_ERRORS) as error:
        print(f"smoke_test: {error or type(error).__name__}", file=sys.stderr)  # noqa: T201
        return 1
    print(f"smoke_test: a task in {given.namespace} completed: {said}", file=sys.stderr)  # noqa: T201
    return 0


async def _run(namespace: str, patience: float) -> str:
    name = f"smoke-test-{uuid.uuid4().hex[:8]}"
    async with Kube(Credentials(load_connection)) as kube:
        return await try_task(kube, namespace, name, patience)


if __name__ == "__main__":
    sys.exit(main())
