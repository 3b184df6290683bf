"""A storm of GitHub's events on the cluster, and every part of Orbiter killed again and again.

`make test-triggers` sends a thousand (EVENTS=, SEED=). GitHub is scripted and is on the node, with
HTTPS and a CA of its own: as a company's GitHub Enterprise Server is, at a private address. It
tells webhooks once, by the receiver's Service; what is lost on the way the courier's poll has to
find, as what was never told.
"""

import json
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.trigger_storm import show
from support.trigger_storm_cluster import Storm, github_on_the_node
from support.world import CROWDED, World

from orbiter_contracts.queues import Keys, dead_letter

EVENTS = int(os.environ.get("EVENTS") or "1000")
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6))
EVERY = float(os.environ.get("KILL_EVERY") or "5")
FIGURES = os.environ.get("FIGURES", "")
pytestmark = [pytest.mark.apart, pytest.mark.timeout(1800 + 10 * EVENTS)]
AT_ONCE = 5
"""What `support.installation` says of this namespace."""
STREAM = Keys.of_namespace(CROWDED).trigger_events


@pytest.fixture
def storm(world: World, tmp_path: Path) -> Iterator[Storm]:
    with github_on_the_node(world, tmp_path, SEED) as github:
        storm = Storm(world, github, seed=SEED, events=EVENTS, every=EVERY)
        try:
            yield storm
        finally:
            storm.clean()


def test_a_thousand_events_make_their_tasks_and_comments_once_whoever_is_killed(
    world: World, storm: Storm
) -> None:
    print(f"SEED={SEED} EVENTS={EVENTS}", flush=True)
    storm.begin()
    with suppress(AssertionError):
        world.until("all tasks have ended", storm.is_made, 900 + 5 * EVENTS)
    storm.calm()
    storm.say("nobody is killed any more")
    with suppress(AssertionError):
        world.until("all is told", storm.is_told, 600 + EVENTS)
    measured = storm.summary()
    show(measured)
    if FIGURES:
        Path(FIGURES).write_text(json.dumps(measured, indent=2) + "\n")
    assert not (found := storm.problems()), f"SEED={SEED}: {len(found)}: {found[:20]}"
    assert storm.most_at_once <= AT_ONCE
    world.until("nothing waits", lambda: not storm.left(STREAM))
    assert storm.left(dead_letter(STREAM)) == []
