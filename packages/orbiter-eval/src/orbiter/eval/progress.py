"""How far an evaluation is, for programs and for people."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

from orbiter.evaluation import CaseResult


class Progress(NamedTuple):
    """How far it is.

    Attributes:
        done: Runs that are over, those of an earlier process included.
        total: All runs.
        result: The one that has just ended; None at the beginning.
    """

    done: int
    total: int
    result: CaseResult | None


ProgressListener = Callable[[Progress], None]


class ProgressBar:
    """A bar on standard error, with the time that is left, failed runs and the cost so far."""

    def __init__(self, title: str, *, console: Any = None) -> None:
        """Prepare a bar.

        Args:
            title: Stands before it.
            console: A rich Console; by default one on standard error.
        """
        self._title = title
        self._console = console
        self._errors = 0
        self._cost = 0.0

    def __enter__(self) -> Self:
        # rich takes its time to import: only who sees a bar waits for it
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}"),
            console=self._console or Console(stderr=True),
        )
        self._task = self._bar.add_task(escape(self._title), total=None, told="")
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Show how far it is."""
        if progress.result is not None:
            self._errors += progress.result.error is not None
            self._cost += progress.result.cost_usd or 0.0
        told = f"{self._errors} failed" if self._errors else ""
        if self._cost:
            told += f" {self._cost:.4f} USD"
        self._bar.update(self._task, completed=progress.done, total=progress.total, told=told)
