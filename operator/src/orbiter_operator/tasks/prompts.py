"""Where a task's prompt is: in its spec, or in a ConfigMap that is read when the task starts."""

from orbiter_operator.kube.client import CONFIG_MAPS, ApiError, Kube
from orbiter_operator.tasks.models import TaskSpec

_REFUSED = (403, 404)


async def read_prompt(kube: Kube, namespace: str, spec: TaskSpec) -> tuple[str | None, str | None]:
    """The prompt of a task.

    Args:
        kube: The API client.
        namespace: The task's namespace.
        spec: What it says about its prompt.

    Returns:
        The prompt and None, or None and why there is none.

    Raises:
        ApiError: The API server could not answer.
    """
    if spec.prompt_from is None:
        return spec.prompt, None
    reference = spec.prompt_from.config_map_key_ref
    where = f"ConfigMap {reference.name}"
    try:
        found = await kube.get(CONFIG_MAPS, namespace, reference.name)
    except ApiError as error:
        if error.status not in _REFUSED:
            raise
        why = "does not exist" if error.status == 404 else "may not be read by the operator"
        return None, f"{where} with the prompt {why}"
    prompt = (found.get("data") or {}).get(reference.key, "")
    if not prompt.strip():
        return None, f"{where} has no prompt under key {reference.key!r}"
    return prompt, None
