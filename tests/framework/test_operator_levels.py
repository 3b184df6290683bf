"""How much of the operator somebody has to keep in mind: its files, their sizes, their levels.

A level is a file that imports another: the longest chain of imports over files, those for types
included, packages counting as the file that is their `__init__`.
"""

from functools import cache
from pathlib import Path

import grimp

ROOM = "orbiter_operator"
SOURCE = Path(__file__).resolve().parents[2] / "operator/src" / ROOM
MOST_FILES = 101
"""55 when the rooms were made; tenancy added git_containers, allowlist, users twice, tenants,
quota, migration, three of namespaces, and make_secrets, a program of its own that the chart
runs; disruptions added disruption twice and conditions, and transcripts the file of their
name, and activity, which reads their ends; a task's trace added what is in it and its way out. The
results of other tasks in a prompt added prompt, which asks the API server where plan may not, and
concurrencyKey added the file of its name: capacity had no room for a second kind of line; profiles
their models, their merge with a task, where they are kept, and their wiring. Resources left client,
which had grown too long. What no spec may lay over the installation's pod template added
installation: rules is as long as a file may be. Budgets added their models, their ledger, the
decision and where they are kept, and charges, which says when a task reserves and settles; metrics
twice left reconcile and app, which had no line left for them. The cache of both is one. logs left
__main__ because triggers, a program of its own, logs the same way.
Profiles of the cluster and of sessions added patches, because kube/models had no room for what both
kinds say of their profile, and revisions, which seals what is kept and tells what is forged. What
an agent is given added pods/agent: template is as long as a file may be. The ways to a model added
auth: their token is of no template. Turns of sessions in budgets added turns, which says what they
do to a ledger, the sessions' charges, and refusals, which answers for a worker. What a former
tenant keeps until its last worker has ended added objects: reconcile had no line left for that.
Skills of repositories added git_skills, the container that fetches them."""
MOST_LINES = 300
MOST_LEVELS = 9


def files() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]


def test_the_operator_has_few_files_and_none_is_long() -> None:
    assert len(files()) <= MOST_FILES
    lines = {str(p.relative_to(SOURCE)): len(p.read_text().splitlines()) for p in files()}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_no_chain_of_imports_is_long() -> None:
    graph = grimp.build_graph(ROOM, cache_dir=None)

    @cache
    def chain(module: str) -> tuple[str, ...]:
        below = graph.find_modules_directly_imported_by(module)
        return (module, *max((chain(one) for one in below), key=len, default=()))

    longest = max((chain(module) for module in graph.modules), key=len)
    assert len(longest) <= MOST_LEVELS, " > ".join(longest)
