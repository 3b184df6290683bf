"""The phases that a task never leaves are said once; a client without contracts has a copy."""

import re
from pathlib import Path

from orbiter.client.objects import FINAL
from orbiter_contracts.outcome import FINAL_PHASES

ROOT = Path(__file__).parents[2]
PHASES = re.compile(r"[({]\s*" + r",\s*".join(f'"{phase}"' for phase in FINAL) + r",?\s*[)}]")
SAID_IN = ("contracts", "operator", "triggers", "wrapper", "packages")
SAID = {
    "contracts/src/orbiter_contracts/outcome.py",
    "packages/orbiter-client/src/orbiter/client/objects.py",
}


def test_nobody_else_says_which_phases_are_final():
    sources = [path for top in SAID_IN for path in (ROOT / top).rglob("src/**/*.py")]
    found = {str(p.relative_to(ROOT)) for p in sources if PHASES.search(p.read_text())}
    assert found == SAID


def test_the_clients_copy_is_the_same():
    assert frozenset(FINAL) == FINAL_PHASES
