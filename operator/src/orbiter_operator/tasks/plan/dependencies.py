"""What `spec.dependsOn` comes to: wait, go on, or never.

Pure: the graph is asked through two functions, so that tests draw it as dicts. A cycle can only
close when its last member is created, because dependsOn never changes.
"""

from collections.abc import Callable, Sequence

from orbiter_operator.tasks.observed import Dependencies

Lookup = Callable[[str], str | None]
"""Phase of a task in the same namespace: None when there is no such task, "" before its first."""
Edges = Callable[[str], Sequence[str]]
"""Names a task depends on; empty when there is no such task."""
_NEVER = ("Failed", "Cancelled")
_SHOWN = 3
_MOST_EDGES = 20_000
"""How far a cycle is looked for: some milliseconds. Tasks on a longer one wait and say for what."""


def resolve(name: str, phase_of: Lookup, edges: Edges) -> Dependencies:
    """Judge the dependencies of one task.

    Args:
        name: The task.
        phase_of: Phase of any task.
        edges: Dependencies of any task.

    Returns:
        The first of cycle, failed, missing and waiting that applies, or nothing to wait for.
    """
    wanted = edges(name)
    if not wanted:
        return Dependencies()
    phases = {dependency: phase_of(dependency) for dependency in wanted}
    if all(phase == "Completed" for phase in phases.values()):
        return Dependencies()
    if cycle := find_cycle(name, edges):
        return Dependencies(cycle=cycle)
    for dependency, phase in phases.items():
        if phase in _NEVER:
            return Dependencies(failed=dependency)
    if missing := tuple(item for item, phase in phases.items() if phase is None):
        return Dependencies(missing=missing)
    waiting = tuple(item for item, phase in phases.items() if phase != "Completed")
    return Dependencies(waiting=waiting)


def find_cycle(name: str, edges: Edges) -> tuple[str, ...]:
    """The shortest way from `name` back to itself, both ends included; empty when there is none.

    Looked for at every look at a task that waits, so never in the whole of a large graph.
    """
    came_from: dict[str, str] = {}
    frontier, seen = [name], 0
    while frontier and seen < _MOST_EDGES:
        following: list[str] = []
        for current in frontier:
            if seen >= _MOST_EDGES:
                break
            for dependency in edges(current):
                seen += 1
                if dependency == name:
                    return _path(name, current, came_from)
                if dependency not in came_from:
                    came_from[dependency] = current
                    following.append(dependency)
        frontier = following
    return ()


def _path(name: str, last: str, came_from: dict[str, str]) -> tuple[str, ...]:
    path = [name, last] if last != name else [name]
    while path[-1] != name:
        path.append(came_from[path[-1]])
    if len(path) == 1:
        path.append(name)
    return tuple(reversed(path))


def list_names(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    shown = ", ".join(names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
