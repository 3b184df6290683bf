"""Random faults while tasks and sessions work: nothing is lost, nothing is answered twice.

`make test` runs three minutes, `make soak` half an hour, with lost nodes. What was random is
printed as SEED, and `SEED=… SOAK_SECONDS=…` chooses it; `SOAK_EVERY=…` is the pause between two,
for a machine on which no agent gets anywhere in three seconds.
"""

import json
import os
import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.installation import clear, install_servers
from support.nodes import FIRST, Nodes, two_nodes
from support.soak import Plan, Soak
from support.soak_figures import figures, table
from support.world import NAMESPACE, World

pytestmark = pytest.mark.apart
LONG = float(os.environ.get("SOAK_SECONDS", "0"))
SHORT = 180.0
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6))
EVERY = float(os.environ.get("SOAK_EVERY", "3"))
FIGURES = os.environ.get("SOAK_FIGURES", "")


@pytest.fixture(scope="module")
def nodes(world: World) -> Iterator[Nodes]:
    with two_nodes(world) as nodes:
        yield nodes


@pytest.mark.timeout(LONG + 1500)
def test_nothing_is_lost_whatever_happens(world: World, nodes: Nodes) -> None:
    plan = Plan(SEED, LONG or SHORT, 40, at_once=6, sessions=8, every=EVERY, node_loss=LONG > 0)
    print(f"SEED={SEED}")
    with nodes.only(FIRST):  # it is asked for its counts at the end
        install_servers("model-server")
    soak = Soak(world, nodes, plan, f"soak-{uuid.uuid4().hex[:4]}")
    began = time.monotonic()
    faults = soak.run()
    seconds = time.monotonic() - began
    print("faults that were none:", *faults.failed, sep="\n")
    soak.settle()
    measured = figures(soak, faults, seconds)
    print(table(measured))
    if FIGURES:
        Path(FIGURES).write_text(json.dumps(measured, indent=2) + "\n")
    found = [*soak.lost(), *soak.twice()]
    assert not found, f"SEED={SEED}: {found}"
    clear(world, NAMESPACE)
