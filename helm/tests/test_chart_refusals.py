"""What the chart refuses of triggers and their courier says what is to be added, and that helps."""

import re
from pathlib import Path

import pytest
from support.cluster import Cluster, CommandError

pytestmark = pytest.mark.e2e

CHART = Path(__file__).resolve().parents[1] / "orbiter"
COURIER = ("triggers.enabled=true", "triggers.courier.enabled=true")
HOOKS, TOLD = "triggers.webhooks.enabled=true", "triggers.courier.notify.enabled=true"
POLLS = "triggers.courier.repositories.team-a={octo-org/shop}"
NAMED = "triggers.courier.github.existingSecret=github-app"


def rendered(cluster: Cluster, *settings: str) -> str:
    flags = [word for setting in settings for word in ("--set", setting)]
    return cluster.helm("template", "orbiter", str(CHART), "-n", "agents", *flags)


def refusal(cluster: Cluster, *settings: str) -> str:
    with pytest.raises(CommandError) as refused:
        rendered(cluster, *settings)
    return str(refused.value)


@pytest.mark.parametrize(
    ("given", "names", "why", "adds"),
    [
        ((), "triggers.courier.enabled is true", "nothing to do", [HOOKS, TOLD]),
        (
            (POLLS, NAMED),
            'triggers.courier.repositories is {"team-a":["octo-org/shop"]}',
            "the controller takes no events",
            [HOOKS],
        ),
        (
            (POLLS, TOLD),
            'triggers.courier.repositories is {"team-a":["octo-org/shop"]}',
            "the controller takes no events",
            [HOOKS],
        ),
        (
            (HOOKS,),
            'triggers.courier.github.existingSecret is ""',
            "no credential for https://api.github.com",
            [NAMED, TOLD],
        ),
        (
            (HOOKS, POLLS, TOLD),
            'triggers.courier.github.existingSecret is ""',
            "no credential for https://api.github.com",
            [NAMED],
        ),
    ],
)
def test_a_courier_that_could_do_nothing_is_refused_with_what_to_add(
    cluster: Cluster, given: tuple[str, ...], names: str, why: str, adds: list[str]
) -> None:
    said = refusal(cluster, *COURIER, *given)
    assert names in said
    assert why in said
    assert re.findall(r"--set (\S+?)[,;]?(?=\s|$)", said) == adds


def test_who_adds_what_the_refusals_say_comes_to_a_courier(cluster: Cluster) -> None:
    """One after the other, as somebody does who reads and types."""
    settings = [*COURIER, POLLS]
    for _ in range(2):
        said = refusal(cluster, *settings)
        settings.append(re.findall(r"--set (\S+?)[,;]?(?=\s|$)", said)[0])
    assert "name: orbiter-courier" in rendered(cluster, *settings)
    assert "name: orbiter-courier" in rendered(cluster, *COURIER, TOLD)


def test_the_secret_is_made_in_the_releases_namespace_and_its_token_is_no_argument(
    cluster: Cluster,
) -> None:
    said = refusal(cluster, *COURIER, HOOKS)
    assert "kubectl -n agents create secret generic github-app --from-file=token=FILE," in said
