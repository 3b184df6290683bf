"""What is remembered of the results that prompts name."""

import json

import pytest
from support.observed import observed, spec

from orbiter_contracts.references import Reference
from orbiter_operator.tasks.prompt import Prompts

ANSWER = json.dumps(
    {"status": {"phase": "Completed", "result": {"data": {"text": "x" * 1000, "other": "é" * 500}}}}
)
NAMED = "${{deps.build.result.data.text}} ${{deps.build.result.data.other}}"


class Kube:
    """An API server whose every answer is decoded anew."""

    async def get(self, resource, namespace, name):
        return json.loads(ANSWER)


@pytest.mark.parametrize("key", ["text", "other"])
async def test_a_thousand_tasks_that_name_a_large_result_keep_one_of_it(key):
    """They may wait for days, for a place in line or for a concurrencyKey."""
    prompts = Prompts(Kube())
    for name in ("a", "b"):
        seen = observed(spec=spec(prompt=NAMED, dependsOn=["build"]), name=name, uid=name)
        assert "x" * 1000 in (await prompts.read(seen))["prompt"]
    kept = [values[Reference("build", key)] for _, values in prompts._known.values()]
    assert len(kept) == 2
    assert kept[0] is kept[1]
