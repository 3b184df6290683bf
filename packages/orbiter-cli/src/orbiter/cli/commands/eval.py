"""`orbiter eval`: how good an agent is, with an exit code for pipelines."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbiter.cli.ui.files import check_writable
from orbiter.cli.ui.options import AgentName, AsJson, Model, Seconds
from orbiter.cli.ui.outcome import UsageError, ends, tell, usage
from orbiter.cli.ui.sentences import os_sentence

if TYPE_CHECKING:
    from orbiter.eval import Comparison, EvalResult, Gate


@ends
def evaluate(
    agent: AgentName,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A .jsonl or .csv file.")],
    scorer: Annotated[
        list[str] | None,
        typer.Option(
            "--scorer",
            "-s",
            metavar="NAME[=VALUE]",
            help="exact, regex, json, schema=FILE, similarity, tools, cost=USD, latency=SECONDS, "
            "judge=RUBRIC; may be repeated. exact when absent.",
        ),
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            "-t",
            metavar="SCORE>=VALUE",
            help="Fail below it, e.g. exact>=0.8 or errors<=0.05; may be repeated.",
        ),
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="FILE", help="Keep results in FILE and go on with them."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="FILE", help="Compare with this journal; fail if worse."
        ),
    ] = None,
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report", metavar="FILE", help="Write a report, .md or .html; may be repeated."
        ),
    ] = None,
    model: Model = None,
    judge: Annotated[
        str | None, typer.Option("--judge-model", help="Model of the judge.", show_default=False)
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", help="Runs of each case.", min=1)] = 1,
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", help="Cases at the same time.", min=1)
    ] = 8,
    timeout: Seconds = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="THEIRS=OURS", help="Rename, e.g. question=input."),
    ] = None,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Run cases of the journal again that failed.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Run an agent on a dataset and score it."""
    import asyncio

    from orbiter.cli.agent.loading import load_agent
    from orbiter.config import TaskConfig
    from orbiter.eval import (
        EvalResult,
        Evaluator,
        JournalError,
        Threshold,
        check,
        compare,
        load_dataset,
    )

    loaded = load_agent(agent, model=model)
    with usage():
        scorers = [_scorer(text, judge) for text in scorer or ["exact"]]
        thresholds = [Threshold.parse(text) for text in threshold or ()]
        columns = _columns(column)
        cases = load_dataset(dataset, columns=columns)
    with usage("--baseline "):
        before = EvalResult.load(baseline) if baseline else None
    writers = [(_writer(file), file) for file in report or ()]
    for _, file in writers:
        check_writable("--report", file)

    async def main() -> "EvalResult":
        async with loaded as target:
            evaluator = Evaluator(
                target, scorers, concurrency=concurrency, repeats=repeats,
                limits=TaskConfig(timeout=timeout),
            )  # fmt: skip
            return await evaluator.run(
                cases, journal=journal, progress=sys.stderr.isatty(), retry_errors=retry_errors
            )

    try:
        result = asyncio.run(main())
    except JournalError as error:
        raise UsageError(f"--journal {error}") from error
    except OSError as error:
        if journal is None or error.filename is None or Path(error.filename) != Path(journal):
            raise
        raise UsageError(f"--journal {os_sentence(error)}") from error
    comparison = compare(before, result) if before else None
    with usage():
        gate = check(result, thresholds, comparison=comparison)
    _tell(result, comparison, gate, as_json)
    for write, file in writers:
        keep_report(write(result, comparison=comparison, gate=gate), Path(file))
    return gate.exit_code


def _scorer(text: str, judge: str | None) -> Any:
    from orbiter.eval import Judge, make_scorer

    name, _, rubric = text.partition("=")
    if name == "judge" and judge is not None and rubric:
        return Judge(judge, rubric=rubric)
    return make_scorer(text)


def _columns(given: list[str] | None) -> dict[str, str] | None:
    if not given:
        return None
    pairs = [text.partition("=") for text in given]
    for text, (theirs, _, ours) in zip(given, pairs, strict=True):
        if not theirs or not ours:
            raise UsageError(f"--column {text}: write it as question=input")
    return {theirs: ours for theirs, _, ours in pairs}


def _writer(file: str) -> Any:
    from orbiter.eval import html_report, markdown_report

    writers = {".md": markdown_report, ".html": html_report}
    suffix = Path(file).suffix
    if suffix not in writers:
        raise UsageError(f"--report {file}: name a file that ends in .md or .html")
    return writers[suffix]


def keep_report(report: str, file: Path) -> None:
    """Write a report; elsewhere when its place is gone meanwhile, because the runs cost money."""
    import tempfile

    try:
        file.write_text(report, encoding="utf-8")
    except OSError as error:
        with tempfile.NamedTemporaryFile(
            "w", prefix=f"{file.stem}-", suffix=file.suffix, delete=False, encoding="utf-8"
        ) as other:
            other.write(report)
        tell(f"--report {os_sentence(error)}; it is in {other.name} instead")


def _tell(
    result: "EvalResult", comparison: "Comparison | None", gate: "Gate", as_json: bool
) -> None:
    from orbiter.cli.ui.terminal import print_json
    from orbiter.eval import comparison_lines

    if as_json:
        print_json(
            {
                "info": result.info.model_dump(mode="json"),
                "scores": [summary.model_dump(mode="json") for summary in result.summaries()],
                "errors": len(result.errors),
                "usage": result.usage.model_dump(),
                "cost_usd": result.cost_usd,
                "comparison": comparison.model_dump(mode="json") if comparison else None,
                "passed": gate.passed,
                "problems": gate.problems,
            }
        )
        return
    for summary in result.summaries():
        mean = "-" if summary.mean is None else f"{summary.mean:.3f}"
        where = summary.interval
        told = f" ({where.low:.3f} to {where.high:.3f})" if where else ""
        unscored = f", {summary.unscored} unscored" if summary.unscored else ""
        sys.stdout.write(f"{summary.name}  {mean}{told}, {summary.cases} cases{unscored}\n")
    if result.errors:
        first = result.errors[0]
        sys.stdout.write(f"{len(result.errors)} runs failed; {first.case_id}: {first.error}\n")
    for line in comparison_lines(comparison) if comparison else ():
        sys.stdout.write(f"{line}\n")
    for problem in gate.problems:
        sys.stderr.write(f"not passed: {problem}\n")
