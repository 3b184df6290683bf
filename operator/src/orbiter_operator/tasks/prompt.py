"""What the agent of a task is told: its prompt, with the results of other tasks that it names.

Results are read from the API server when the tasks that they are of have ended: the cache keeps no
data of these. What was read stays known until the task ends, so that neither a place in line costs
requests nor a later attempt is told something else.
"""

from typing import Any
from weakref import WeakValueDictionary

from orbiter_contracts.references import (
    Reference,
    filled,
    reference_problem,
    references,
    value_of,
)
from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.names import Key
from orbiter_operator.kube.resources import AGENT_TASKS, CONFIG_MAPS
from orbiter_operator.tasks.models import TaskSpec
from orbiter_operator.tasks.observed import Observed

_REFUSED = (403, 404)


class _Text(str):
    """A value that is kept once, however many tasks name it: they may wait for days."""


class Prompts:
    """Reads prompts.

    Args:
        kube: The API client.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._known: dict[Key, tuple[str, dict[Reference, str]]] = {}
        self._kept = WeakValueDictionary[tuple[str, Reference], _Text]()

    def forget(self, key: Key) -> None:
        """The task is gone or at its end."""
        self._known.pop(key, None)

    async def read(self, observed: Observed) -> dict[str, Any]:
        """The fields of `Observed` about the prompt of a task that waits for no other.

        Raises:
            ApiError: The API server could not answer.
        """
        prompt, error = await self._text(observed.namespace, observed.spec)
        if prompt is None:
            return {"prompt": None, "prompt_error": error}
        error = reference_problem(prompt, observed.spec.depends_on)
        if error is None:
            values, error = await self._values(observed, references(prompt))
            if error is None:
                prompt, error = filled(prompt, values, observed.uid)
        return {"prompt": None if error else prompt, "data_error": error}

    async def _text(self, namespace: str, spec: TaskSpec) -> tuple[str | None, str | None]:
        """The prompt as it was written and None, or None and why there is none."""
        if spec.prompt_from is None:
            return spec.prompt, None
        reference = spec.prompt_from.config_map_key_ref
        where = f"ConfigMap {reference.name}"
        try:
            found = await self._kube.get(CONFIG_MAPS, namespace, reference.name)
        except ApiError as error:
            if error.status not in _REFUSED:
                raise
            why = "does not exist" if error.status == 404 else "may not be read by the operator"
            return None, f"{where} with the prompt {why}"
        prompt = (found.get("data") or {}).get(reference.key, "")
        if not prompt.strip():
            return None, f"{where} has no prompt under key {reference.key!r}"
        return prompt, None

    async def _values(
        self, observed: Observed, wanted: tuple[Reference, ...]
    ) -> tuple[dict[Reference, str], str | None]:
        """The texts of all these; or why one has none."""
        if not wanted:
            return {}, None
        key = Key(observed.namespace, observed.name)
        uid, known = self._known.get(key, ("", {}))
        if uid == observed.uid and all(reference in known for reference in wanted):
            return known, None
        values: dict[Reference, str] = {}
        for task in dict.fromkeys(reference.task for reference in wanted):
            data, error = await self._data(observed.namespace, task)
            for reference in (one for one in wanted if one.task == task):
                if error is None:
                    text, error = value_of(reference, data)
                    kept = self._kept.setdefault((observed.namespace, reference), _Text(text))
                    values[reference] = kept if kept == text else text
                if error is not None:
                    return {}, error
        self._known[key] = (observed.uid, values)
        return values, None

    async def _data(self, namespace: str, task: str) -> tuple[Any, str | None]:
        """What a task that was completed has reported; or why it is not known."""
        try:
            found = await self._kube.get(AGENT_TASKS, namespace, task)
        except ApiError as error:
            if error.status != 404:
                raise
            return None, f"prompt: the result of AgentTask {task} is gone with the task"
        status = found.get("status") or {}
        if status.get("phase") != "Completed":
            return None, f"prompt: AgentTask {task} is not Completed, so it has no result to name"
        return (status.get("result") or {}).get("data"), None
