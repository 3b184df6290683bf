#!/usr/bin/env python3
"""Keeps the figures in READMEs: `make bench-readme` writes them from bench/*.json.

What was measured is in the files, what the figures are called and how they are rounded is here; so
no README can quote a figure that nobody measured, or one of another day.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platforms

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- figures: {} -->\n", "<!-- end of figures -->\n"
Show = Callable[[Any], str]


@dataclass(frozen=True)
class Figure:
    """One row of a table.

    Attributes:
        what: What was measured.
        path: Where it is in the file; a name picks among the entries of a list.
        show: How it is written.
    """

    what: str
    path: str
    show: Show


def plain(unit: str, digits: int = 0) -> Show:
    """A number with its unit."""
    return lambda value: f"{value:,.{digits}f} {unit}".rstrip()


def times(median: str, late: str) -> Show:
    """A median and a 99th percentile in milliseconds."""
    return lambda found: f"{found[median]:,.1f} ms, p99 {found[late]:,.1f} ms"


def _parts(ours: str, bare: str) -> Show:
    """Milliseconds, and how that is beside a bare tar."""
    return lambda found: (
        f"{found['ms'][ours]:,.0f} ms, {found[f'{ours}_ratio']:.2f} times "
        f"tar's {found['ms'][bare]:,.0f}"
    )


def _sizes(found: Any) -> str:
    ours, bare = (found["bytes"][name] / 1e6 for name in ("checkpoint", "tar"))
    return f"{ours:,.1f} MB, {found['size_ratio']:.2f} times tar's {bare:,.1f}"


_MARKS = {True: "yes", False: "no"}
_MS = times("p50_ms", "p99_ms")
_GOAL = times("p50", "p99")
TABLES = {
    "operator": (
        Figure("a task → its Job exists", "single.task_to_job", _MS),
        Figure("its output → `Completed`", "single.output_to_completed", _MS),
        Figure("writes to the API server, a task", "cost.api_writes_per_task", plain("", 1)),
        Figure("the operator's CPU, a task", "cost.operator_cpu_ms_per_task", plain("ms", 2)),
        Figure("tasks in a burst", "burst.tasks.n", plain("")),
        Figure("their Jobs", "burst.tasks.jobs_per_second", plain("a second", 1)),
        Figure("bare Jobs, made directly", "burst.bare.jobs_per_second", plain("a second", 1)),
        Figure("a task made → `Completed`, on a node", "node.task_create_to_completed", _MS),
        Figure("a bare Job made → complete", "node.bare_job_create_to_complete", _MS),
        Figure("finished tasks in the cluster", "rest.finished_tasks", plain("")),
        Figure("the operator's memory then", "rest.rss_mb", plain("MB", 1)),
        Figure("its CPU when idle, of a core", "rest.idle_cpu_percent", plain("%", 2)),
    ),
    "sessions": (
        Figure("sessions asleep", "asleep.sessions", plain("")),
        Figure("the operator's CPU meanwhile, of a core", "asleep.cpu_percent", plain("%", 1)),
        Figure("its memory", "asleep.rss_mb", plain("MB", 1)),
        Figure("a message → the Deployment is scaled", "wake", _MS),
        Figure("a bare patch of a Deployment", "bare", _MS),
        Figure("messaged at once", "at_once.sessions", plain("")),
        Figure("until the last of them is scaled", "at_once.all_scaled_ms", plain("ms", 1)),
        Figure("as many bare patches", "bare_at_once.all_scaled_ms", plain("ms", 1)),
        Figure("without the API server: a message → the request", "alone.wake", _MS),
        Figure("and all at once", "alone.at_once_all_scaled_ms", plain("ms", 1)),
        Figure("a message → the first output, on a node", "node.message_to_first_output", _MS),
        Figure("the operator's and the worker's share of it", "node.own_share_ms", plain("ms", 1)),
    ),
    "tenants": (
        Figure("namespaces with the label", "namespaces", plain("")),
        Figure("until all have their Secrets", "admitted_s", plain("s", 1)),
        Figure("sessions asleep in them", "sessions", plain("")),
        Figure("the operator's CPU meanwhile, of a core", "asleep.cpu_percent", plain("%", 1)),
        Figure("its memory", "asleep.rss_mb", plain("MB", 1)),
        Figure("a message → the Deployment is scaled", "wake", _MS),
        Figure("the operator's share of it, as it says", "wake_own_share.mean_ms", plain("ms", 1)),
        Figure("a bare patch of a Deployment", "bare", _MS),
        Figure("users of a Redis that begins without them", "restart.users", plain("")),
        Figure(
            "from its process' begin until all are there", "restart.users_back_s", plain("s", 1)
        ),
        Figure("messages it had", "restart.messages", plain("")),
        Figure("lost of them", "restart.messages_lost", plain("")),
        Figure("the machine's load at the end, two cores", "load", plain("", 1)),
    ),
    "checkpoints": (
        Figure("a turn with checkpoints takes longer by", "cost_percent", plain("%", 2)),
        Figure("the goal: less than", "goal_percent", plain("%")),
        Figure("the turn without them", "turn_seconds", plain("s", 1)),
        Figure("a checkpoint every", "every_seconds", plain("s")),
        Figure("its repository", "repository_mb", plain("MB")),
        Figure("a clone, 1 MB of it edited: a checkpoint", "parts.edited", _parts("keep", "pack")),
        Figure("put back into another clone", "parts.edited", _parts("restore", "unpack")),
        Figure("its size", "parts.edited", _sizes),
        Figure("a directory without git: a checkpoint", "parts.whole", _parts("keep", "pack")),
        Figure("put back", "parts.whole", _parts("restore", "unpack")),
        Figure("its size, as large as a store takes", "parts.whole", _sizes),
        Figure("the machine's load at the begin, two cores", "load", plain("", 1)),
    ),
    "server": (
        Figure("tasks of a cluster in the list", "cluster_page.tasks", plain("")),
        Figure("the page opened → first rows", "cluster_page.first_rows_ms", plain("ms")),
        Figure("the goal: less than", "first_rows_goal_ms", plain("ms")),
        Figure("the same without any tasks", "cluster_page.empty_page_ms", plain("ms")),
        Figure("for the first who looks", "cluster_page.first_look_ms", plain("ms")),
        Figure(
            "a frame while it is scrolled through",
            "cluster_page",
            times("frame_p50_ms", "frame_p99_ms"),
        ),
        Figure("as many tasks of the server's own → first rows", "page.first_rows_ms", plain("ms")),
        Figure("the machine's load at the begin, two cores", "page_load_before", plain("", 1)),
    ),
    "wrapper": (
        Figure("start → first read", "figures.start to first read", _GOAL),
        Figure("a turn, beyond the agent's own time", "figures.overhead per turn", _GOAL),
        Figure(
            "peak memory after 100 turns",
            "figures.peak RSS after 100 turns",
            lambda found: f"{found['p50']:.1f} MB",
        ),
    ),
}
PAGES = {
    "operator/README.md": ("operator", "sessions", "tenants"),
    "wrapper/README.md": ("wrapper",),
    "README.md": ("platforms", "features"),
    "docs/operations.md": ("checkpoints", "soak"),
    "docs/server.md": ("server",),
}
VERBS = {"checkpoints": "make bench-checkpoints", "soak": "make soak"}
"""Of what a quiet machine takes minutes or half an hour for: it may not be there yet."""
FAULTS = {
    "Evicted": ("pod evicted, or its node drained", "`Pending`, `resumed after Evicted (n)`"),
    "PodDeleted": ("pod deleted without grace", "`Pending`, `resumed after PodDeleted (n)`"),
    "NodeLost": ("node lost", "`Running` until its pod is given up; `resumed after NodeLost (n)`"),
    "JobDeleted": ("Job deleted", "`Pending`, `resumed after JobDeleted (n)`"),
    "QueueLost": ("Redis lost its data", "`began again after QueueLost (n)`"),
}
"""Reason of a disruption -> what has happened, and what the user sees."""


def measured(name: str) -> Any:
    """What the latest run of a benchmark has written; None of one that may not have run yet."""
    if name in VERBS and not (ROOT / "bench" / f"{name}.json").exists():
        return None
    return json.loads((ROOT / "bench" / f"{name}.json").read_text(encoding="utf-8"))


def table(name: str, results: Any) -> str:
    """The table of one benchmark as Markdown."""
    if results is None:
        return f"Not measured yet: `{VERBS[name]}` does.\n"
    own = {"features": features, "platforms": platforms.table, "soak": soak}
    if name in own:
        return own[name](results)
    rows = [f"| {row.what} | {row.show(_at(results, row.path))} |" for row in TABLES[name]]
    return "\n".join([f"| [bench/{name}.json](../bench/{name}.json) | |", "|---|---|", *rows, ""])


def soak(results: Any) -> str:
    """The tables of a soak: what each fault has cost, and what all of them came to."""
    heads = ["fault", "what the user sees", "times", "to go on: p50, p99", "turns paid again, each"]
    lines = [_row(heads), "|---" * len(heads) + "|"]
    for reason, row in results["away"].items():
        what, seen = FAULTS.get(reason, (reason, f"`{reason}`"))
        again = row.get("turns_again")
        paid = "" if again is None else f"{again:.2f}"
        lines.append(_row([what, seen, f"{row['times']:,}", _spread(row), paid]))
    answer = results["answer"]
    seen = "an answer that takes longer"
    lines.append(
        _row(["a message to a session", seen, f"{answer['times']:,}", _spread(answer), ""])
    )
    kinds = {name: row["share"] for name, row in results["turns"].items()}
    shares = [_percent(kinds.get(name)) for name in ("checkpoints", "none")]
    said = {
        "seed": f"{results['seed']}",
        "faults": f"{results['faults']['all']:,} in {results['seconds']:,} s",
        "tasks, messages": f"{results['tasks']:,}, {results['messages']:,}",
        "lost": f"{results['lost']:,}",
        "answered twice": f"{results['answered_twice']:,}",
        "turns paid again, with checkpoints and without": ", ".join(shares),
    }
    head = ["", "| [bench/soak.json](../bench/soak.json) | |", "|---|---|"]
    return "\n".join([*lines, *head, *(_row([*pair]) for pair in said.items()), ""])


def _spread(row: Any) -> str:
    return f"{row['p50']:,.1f} s, {row['p99']:,.1f} s" if row["times"] else ""


def _percent(share: float | None) -> str:
    return "not known" if share is None else f"{share * 100:.1f} %"


def features(results: Any) -> str:
    """The table of features, ours with the test that says so."""
    others = results["versions"]
    heads = ["", "Orbiter", *(f"{name} {version}" for name, version in others.items()), "our test"]
    lines = [_row(heads), "|---|" + ":-:|" * (len(others) + 1) + "---|"]
    for feature in results["features"]:
        path, _, test = feature["test"].partition("::")
        marks = [_MARKS[feature["found"][name]] for name in ("orbiter", *others)]
        lines.append(_row([feature["what"], *marks, f"[{test}]({path})" if test else ""]))
    return "\n".join([*lines, ""])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def renewed(page: str, names: tuple[str, ...], results: Callable[[str], Any] = measured) -> str:
    """A page with the figures of today."""
    for name in names:
        begin = BEGIN.format(name)
        before, rest = page.split(begin)
        after = rest.split(END, 1)[1]
        page = before + begin + table(name, results(name)) + END + after
    return page


def _at(found: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(found, list):
            found = next(entry for entry in found if entry["name"] == part)
        else:
            found = found[part]
    return found


def main() -> None:
    """Rewrite the pages in place."""
    for path, names in PAGES.items():
        file = ROOT / path
        text = file.read_text(encoding="utf-8")
        file.write_text(renewed(text, names), encoding="utf-8")


if __name__ == "__main__":
    main()
