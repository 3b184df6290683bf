"""The lines of `kubectl get agenttasks`: short, whatever an agent says."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.observed import decide, observed, output, record, running

from orbiter_contracts import AgentVerdict
from orbiter_operator.tasks.observed import Slots
from orbiter_operator.tasks.plan.events import COLUMNS, headline

CRD = Path(__file__).resolve().parents[2] / "crds" / "agenttask.yaml"
BETWEEN = 3
"""Spaces between two columns of kubectl's."""
WIDEST = {
    ".status.phase": "InputRequired",
    ".status.headline": "x" * COLUMNS,
    ".status.duration": "167h59m",
    ".metadata.creationTimestamp": "2y45d",
}
"""The widest value of each column that is always shown."""
NAME = "a" * 40 + "-x7k2p"


def test_a_line_of_kubectl_get_has_less_than_120_columns() -> None:
    [version] = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    shown = [c for c in version["additionalPrinterColumns"] if not c.get("priority")]
    widths = [max(len(column["name"]), len(WIDEST[column["jsonPath"]])) for column in shown]
    assert len(NAME) + sum(widths) + BETWEEN * len(widths) < 120


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("the agent works", "the agent works"),
        ("x" * 36, "x" * 34 + "…"),
        ("two\nlines\tand \x1b[2J a clear", "two lines and [2J a clear"),
        ("修" * 20, "修" * 17 + "…"),
        ("", ""),
    ],
)
def test_a_message_is_cut_to_its_column(message: str, shown: str) -> None:
    assert headline(message) == shown


@given(st.text(max_size=300))
def test_no_text_is_wider_than_its_column(message: str) -> None:
    shown = headline(message)
    assert shown.isprintable()
    assert len(shown) <= COLUMNS


def test_every_status_has_its_headline() -> None:
    told = AgentVerdict(status="success", summary="it is done, " + "and more so " * 9)
    status = decide(running(**record(output(verdict=told)))).status
    assert status.headline == "it is done, and more so and more s…"
    assert status.message.startswith(status.headline[:-1])
    slots = Slots(free=False, position=119, waiting=152, running=20, limit=20)
    assert decide(observed(slots=slots)).status.headline == "place 119 of 152, 20 of 20 slots t…"
