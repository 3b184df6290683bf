"""AgentTrigger as the API server keeps it: defaults, what is refused in which words, columns."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import Cluster, CommandError, Object
from support.manifests import API_VERSION

pytestmark = pytest.mark.e2e
CRON = {"cron": {"schedule": "0 6 * * MON"}}
GITHUB = {"github": {"repository": "octo-org/shop"}}
TEMPLATE = {"spec": {"prompt": "Look at the dependencies."}}


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("chart-crd-agenttrigger") as name:
        yield name


def agent_trigger(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "AgentTrigger",
        "metadata": {"name": name},
        "spec": {"source": CRON, "taskTemplate": TEMPLATE} | spec,
    }


def test_a_trigger_has_its_defaults_and_keeps_the_spec_of_its_tasks(
    cluster: Cluster, namespace: str
) -> None:
    spec = {
        "prompt": "${{event.scheduledTime}}",
        "workspace": {"git": {"url": "https://a.example/b"}},
    }
    cluster.apply(agent_trigger("plain", taskTemplate={"spec": spec}), namespace=namespace)
    assert cluster.get("atr", "plain", namespace)["spec"] == {
        "source": {
            "cron": {"schedule": "0 6 * * MON", "timeZone": "UTC", "concurrencyPolicy": "Allow"}
        },
        "taskTemplate": {"spec": spec},
        "maxPerHour": 20,
        "whenFull": "Queue",
        "suspend": False,
        "historyLimits": {"successful": 10, "failed": 10},
    }


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"source": {}}, "write exactly one of github, webhook and cron"),
        ({"source": CRON | GITHUB}, "write exactly one of github, webhook and cron"),
        ({"source": {"cron": {"schedule": "@daily"}}}, "write the five fields of cron"),
        ({"source": {"cron": {"schedule": "0 0 6 * * *"}}}, "write the five fields of cron"),
        ({"source": {"cron": CRON["cron"] | {"timeZone": "../x"}}}, "not the name of a time zone"),
        ({"source": {"cron": CRON["cron"] | {"concurrencyPolicy": "Kill"}}}, "Unsupported value"),
        ({"source": {"github": {"repository": "shop"}}}, "write OWNER/NAME"),
        ({"source": {"webhook": {"scheme": "none"}}}, "Unsupported value"),
        ({"filters": {"labels": ["agent"]}}, "a schedule has none; remove filters"),
        ({"key": "number"}, "names a task of cron; remove key"),
        (
            {
                "source": {"webhook": {"scheme": "hmac"}},
                "filters": {"authors": "Writers"},
            },
            "remove filters.authors",
        ),
        ({"source": GITHUB, "filters": {"comment": " /agent"}}, "blanks around the comment"),
        ({"taskTemplate": {"spec": {}}}, "write exactly one of prompt and promptFrom"),
        (
            {
                "taskTemplate": TEMPLATE
                | {"metadata": {"labels": {"orbiter.dev/agenttrigger": "x"}}}
            },
            "are the trigger's own; choose another name",
        ),
        ({"maxPerHour": 0}, "should be greater than or equal to 1"),
        ({"historyLimits": {"failed": 5000}}, "should be less than or equal to 1000"),
    ],
)
def test_what_cannot_work_is_refused(
    cluster: Cluster, namespace: str, spec: Object, sentence: str
) -> None:
    with pytest.raises(CommandError) as refused:
        cluster.apply(agent_trigger("refused", **spec), namespace=namespace)
    assert sentence in str(refused.value)


def test_kubectl_get_shows_what_one_wants_to_know(cluster: Cluster, namespace: str) -> None:
    cluster.apply(agent_trigger("columns"), namespace=namespace)
    lines = cluster.kubectl("-n", namespace, "get", "agenttriggers", "columns").splitlines()
    assert lines[0].split() == [
        *("NAME", "SCHEDULE", "REPOSITORY", "SUSPEND", "READY", "ACTIVE", "LAST-TASK"),
        *("LAST-SCHEDULE", "AGE"),
    ]
    assert lines[1].startswith("columns   0 6 * * MON")
