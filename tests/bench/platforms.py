"""README's table of the cluster part beside Kelos, kagent and agent-sandbox.

Their programs are not run here. bench/platforms.json has what was read of them: of each mark the
page, with its commit where it is a file of a repository, and why. Of ours it names tests.
"""

from typing import Any

OURS = "Orbiter"
SILENT = "not documented"
MARKS = ("yes", "part", "no", SILENT)


def table(results: Any) -> str:
    """The table of platforms, ours with the tests that say so."""
    heads = [f"{name} {peer['version']}" for name, peer in results["peers"].items()]
    lines = [_row(["", OURS, *heads, "our test"]), "|---|" + ":-:|" * (len(heads) + 1) + "---|"]
    for entry in results["rows"]:
        marks = [entry[name]["mark"] for name in (OURS, *results["peers"])]
        tests = ", ".join(_link(test) for test in entry[OURS].get("tests", ()))
        lines.append(_row([entry["what"], *marks, tests]))
    return "\n".join([*lines, ""])


def page(peer: Any, name: str) -> tuple[str, str]:
    """Where a mark of a peer was read.

    Args:
        peer: What the file has of one peer.
        name: What its marks call the page.

    Returns:
        An address, or a path in the peer's repository; and the path's commit, empty of an address.
    """
    path, _, commit = peer["pages"][name].partition("@")
    return path, commit


def _link(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[{name}]({path})"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")
