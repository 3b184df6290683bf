"""The chart's alerts and dashboard: what they ask for is there, each fires when it should."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from orbiter_operator.metrics import GAUGES, OperatorMetrics

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "helm" / "orbiter" / "files"
TESTS = Path(__file__).with_name("alerts_test.yaml")
ALERTS = (FILES / "alerts.yaml").read_text().replace("COST_PER_HOUR_USD", "50")
DASHBOARD: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
RULES = [rule for group in yaml.safe_load(ALERTS)["groups"] for rule in group["rules"]]
NAMES = [rule["alert"] for rule in RULES]
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


def promtool(directory: Path, *words: str) -> None:
    done = subprocess.run(["promtool", *words], cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def exposed() -> set[str]:
    """The names of all that an operator's registry has."""
    metrics = OperatorMetrics()
    metrics.gauges(GAUGES, lambda: dict.fromkeys(GAUGES, 0.0))
    return {
        f"{family.name}{suffix}"
        for family in metrics.registry.collect()
        for suffix in SUFFIXES.get(family.type, ())
    }


def test_promtool_has_nothing_against_the_alerts_and_each_fires_as_its_test_says(
    tmp_path: Path,
) -> None:
    (tmp_path / "alerts.yaml").write_text(ALERTS)
    (tmp_path / TESTS.name).write_text(TESTS.read_text())
    promtool(tmp_path, "check", "rules", "alerts.yaml")
    promtool(tmp_path, "test", "rules", TESTS.name)


def test_every_alert_has_a_test_that_it_fires_and_one_that_it_does_not() -> None:
    tried = [
        (case["alertname"], bool(case["exp_alerts"]))
        for test in yaml.safe_load(TESTS.read_text())["tests"]
        for case in test["alert_rule_test"]
    ]
    assert set(tried) == {(name, fires) for name in NAMES for fires in (True, False)}


def test_promtool_can_read_every_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$namespace", ".*")}
        for number, query in enumerate(QUERIES)
    ]
    (tmp_path / "panels.yaml").write_text(
        json.dumps({"groups": [{"name": "panels", "rules": rules}]})
    )
    promtool(tmp_path, "check", "rules", "panels.yaml")


def test_every_metric_that_is_asked_for_is_one_that_the_operator_has() -> None:
    variables = [each.get("definition", "") for each in DASHBOARD["templating"]["list"]]
    asked = {
        name
        for query in [*QUERIES, *variables, *(rule["expr"] for rule in RULES)]
        for name in re.findall(r"\borbiter_\w+", query)
    }
    assert len(asked) > 20
    assert asked - exposed() == set()


def test_every_alert_has_its_paragraph_in_the_page_on_operations() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    told = re.findall(r"^### (Orbiter\w+)$", page, re.MULTILINE)
    assert told == NAMES


def test_panels_do_not_lie_on_each_other() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
