"""How long `orbiter` takes until it answers; prints a table and writes bench/cli.json.

A start waits for nobody, so the processor's time it takes is how long it is on a machine that does
nothing else; that is what the goal is held against, in the best of many starts. The time on the
clock stands beside it. A missed goal makes the exit code 1.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORBITER = Path(sys.executable).with_name("orbiter")
GOAL_MS = 400
COMMANDS = (["--help"], ["--version"], ["run", "--help"], ["eval", "--help"])


def starts_ms(words: list[str], runs: int) -> list[tuple[float, float]]:
    """Return the processor's time and the clock's of each start, in milliseconds."""
    took = []
    for _ in range(runs):
        before, began = os.times(), time.perf_counter()
        subprocess.run([ORBITER, *words], check=True, stdout=subprocess.DEVNULL)
        clock, after = time.perf_counter() - began, os.times()
        spent = after.children_user - before.children_user
        spent += after.children_system - before.children_system
        took.append((spent * 1000, clock * 1000))
    return took


def main() -> int:
    """Measure, print, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30, help="starts per command")
    options = parser.parse_args()
    starts_ms(["--help"], 1)  # the first start writes the bytecode
    figures = []
    for words in COMMANDS:
        took = starts_ms(words, options.runs)
        name = " ".join(["orbiter", *words])
        best = min(spent for spent, _ in took)
        fastest, median = min(c for _, c in took), statistics.median(c for _, c in took)
        figures.append(
            {
                "name": name,
                "unit": "ms",
                "value": best,
                "goal": GOAL_MS,
                "clock_best": fastest,
                "clock_median": median,
            }
        )
        verdict = "" if best <= GOAL_MS else "MISSED"
        clock = f"(clock: best {fastest:.0f}, median {median:.0f})"
        print(f"{name:22} {best:5.0f} ms {clock}  goal {GOAL_MS} {verdict}".rstrip())
    written = {"python": platform.python_version(), "cores": os.cpu_count(), "figures": figures}
    (ROOT / "bench" / "cli.json").write_text(json.dumps(written, indent=2) + "\n")
    return 0 if all(figure["value"] <= figure["goal"] for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
