"""The resource definitions come with the chart, and outlive it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cluster import Cluster
from support.manifests import read_manifests

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "orbiter"
FILES = sorted((ROOT / "crds").glob("*.yaml"))
KIND = "CustomResourceDefinition"


def rendered(cluster: Cluster, *settings: str) -> list[dict[str, Any]]:
    """The definitions that the chart has with these settings."""
    words = (word for setting in settings for word in ("--set", setting))
    text = cluster.helm("template", "orbiter", str(CHART), "-n", "orbiter-system", *words)
    return [item for item in read_manifests(text) if item["kind"] == KIND]


def test_the_chart_has_every_definition_as_it_is_and_helm_keeps_it(cluster: Cluster) -> None:
    found = {item["metadata"]["name"]: item for item in rendered(cluster)}
    expected = {item["metadata"]["name"]: item for item in map(_load, FILES)}
    assert found.keys() == expected.keys()
    for name, item in found.items():
        metadata = item.pop("metadata")
        assert item == {key: it for key, it in expected[name].items() if key != "metadata"}
        assert metadata["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "Helm"


def test_they_go_with_the_chart_only_when_somebody_says_so(cluster: Cluster) -> None:
    assert [
        item["metadata"].get("annotations") for item in rendered(cluster, "crds.keep=false")
    ] == [None for _ in FILES]


def test_who_brings_them_otherwise_has_none_of_the_charts(cluster: Cluster) -> None:
    assert rendered(cluster, "crds.install=false") == []


def test_the_installed_ones_are_the_charts(cluster: Cluster) -> None:
    names = [_load(file)["metadata"]["name"] for file in FILES]
    for name in names:
        annotations = cluster.get("crd", name)["metadata"]["annotations"]
        assert annotations["meta.helm.sh/release-name"] == "orbiter"


def _load(file: Path) -> dict[str, Any]:
    item: dict[str, Any] = yaml.safe_load(file.read_text())
    return item
