"""Runs steps in the order of their needs, two at a time, and says a line for each."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from .places import ROOT

AT_ONCE = 2
TAIL_LINES = 30


class StepError(Exception):
    """A step failed; the message says which, why, and what can be done."""


@dataclass(frozen=True)
class Step:
    """Something to do: `needs` are the names of steps that come before."""

    name: str
    expectation: str
    act: Callable[[], None]
    needs: tuple[str, ...] = ()


class Report:
    """Prints lines with the time since the run began."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """Print one line."""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        with self._lock:
            print(f"[{minutes:2d}:{seconds:02d}] {text}", flush=True)


def perform(step: Step, report: Report) -> None:
    """Run one step between its two lines."""
    report.say(f"{step.name} ({step.expectation}) ...")
    began = time.monotonic()
    step.act()
    report.say(f"{step.name}: done in {time.monotonic() - began:.1f} s")


def run_steps(steps: Iterable[Step], report: Report) -> None:
    """Run all steps; after a failure nothing new is begun.

    Raises:
        StepError: A step failed; those that ran beside it have ended.
    """
    by_name = {step.name: step for step in steps}
    order = TopologicalSorter(
        {step.name: [need for need in step.needs if need in by_name] for step in by_name.values()}
    )
    order.prepare()
    running: dict[Future[None], str] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while order.is_active():
            for name in order.get_ready():
                running[pool.submit(perform, by_name[name], report)] = name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                if future.exception() is not None:
                    pool.shutdown(cancel_futures=True)
                future.result()
                order.done(name)


def run(command: Sequence[str], *, hint: str = "") -> str:
    """Run a program quietly and return what it printed.

    Raises:
        StepError: It failed or is not there; the message has its last lines and the hint.
    """
    shown = " ".join(word for word in command[:8] if not Path(word).is_absolute())
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise StepError(f"{command[0]} is not installed. {hint}".strip()) from None
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).splitlines()[-TAIL_LINES:]
        raise StepError("\n".join([f"{shown} failed: {hint}".removesuffix(": "), *lines]))
    return done.stdout
