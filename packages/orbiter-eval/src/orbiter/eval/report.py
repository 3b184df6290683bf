"""Reports of an evaluation, in Markdown for reviews and in HTML for reading case by case."""

import html
import re
from collections.abc import Iterable, Sequence

from orbiter.eval._internal.page import page
from orbiter.eval.compare import Comparison, comparison_lines
from orbiter.eval.gate import Gate
from orbiter.eval.result import EvalResult, ScoreSummary
from orbiter.eval.scorer import text_of
from orbiter.evaluation import CaseResult
from orbiter.types import AssistantMessage

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")
_LONGEST_CELL = 200


def markdown_report(
    result: EvalResult,
    *,
    comparison: Comparison | None = None,
    gate: Gate | None = None,
    worst: int = 10,
) -> str:
    """Write a report for a review or a pipeline's summary.

    Args:
        result: What was found.
        comparison: With a baseline, if there is one.
        gate: Whether it passed, if that was asked.
        worst: How many of the worst runs to show.
    """
    parts = [f"# Evaluation of {_md(result.info.name)}", _facts(result)]
    if gate is not None:
        parts.append("**passed**" if gate.passed else "**not passed**")
        parts.append("\n".join(f"- {_md(problem)}" for problem in gate.problems))
    rows = [
        (_md(s.name), _number(s.mean), _interval(s), str(s.cases), str(s.unscored))
        for s in result.summaries()
    ]
    parts.append(_table(("score", "mean", "95 % interval", "cases", "unscored"), rows))
    if comparison is not None:
        parts.append(f"## Compared with {_md(comparison.baseline)}")
        parts.append("\n".join(f"- {_md(line)}" for line in comparison_lines(comparison)))
        parts += [
            f"{_md(d.name)} regressed in: {_md(', '.join(d.regressed[:worst]))}"
            for d in comparison.differences
            if d.regressed
        ]
    poor = [run for run in _worst_first(result) if _total(run) < 1][:worst]
    if poor:
        parts.append("## The worst runs")
        cells = [(_md(_label(run)), _md(_short(_outcome(run))), _md(_reasons(run))) for run in poor]
        parts.append(_table(("case", "output", "why"), cells))
    return "\n\n".join(part for part in parts if part) + "\n"


def html_report(
    result: EvalResult,
    *,
    comparison: Comparison | None = None,
    gate: Gate | None = None,
) -> str:
    """Write a report as one HTML page that loads nothing and runs no script.

    Whatever an agent said is shown as text, also where it looks like HTML.

    Args:
        result: What was found.
        comparison: With a baseline, if there is one.
        gate: Whether it passed, if that was asked.
    """
    title = f"Evaluation of {result.info.name}"
    parts = [f"<h1>{_h(title)}</h1>", f"<p>{_h(_facts(result))}</p>"]
    if gate is not None:
        word = "passed" if gate.passed else "not passed"
        parts.append(f'<p class="gate {"good" if gate.passed else "bad"}">{word}</p>')
        parts.append(_list(gate.problems))
    parts.append(_scores(result.summaries()))
    if comparison is not None:
        parts.append(f"<h2>Compared with {_h(comparison.baseline)}</h2>")
        parts.append(_list(comparison_lines(comparison)))
    parts.append("<h2>Runs, the worst first</h2>")
    parts += [_run(run) for run in _worst_first(result)]
    return page(title, "\n".join(parts))


def _facts(result: EvalResult) -> str:
    info, cost = result.info, result.cost_usd
    facts = [f"{info.cases} cases"]
    if info.repeats > 1:
        facts[0] += f", {info.repeats} runs each"
    if not result.complete:
        facts.append(f"only {len(result.results)} runs are there")
    facts.append(f"{len(result.errors)} failed")
    facts.append(f"{result.usage.total_tokens} tokens")
    if cost:
        facts.append(f"{cost:.4f} USD")
    facts.append(f"begun {info.started_at:%Y-%m-%d %H:%M} UTC")
    facts.append(f"dataset {info.dataset_hash}")
    return ", ".join(facts)


def _total(run: CaseResult) -> float:
    return min((s.value for s in run.scores if s.value is not None), default=1.0)


def _worst_first(result: EvalResult) -> list[CaseResult]:
    return sorted(result.results, key=_total)


def _label(run: CaseResult) -> str:
    return run.case_id if run.attempt == 1 else f"{run.case_id} (run {run.attempt})"


def _outcome(run: CaseResult) -> str:
    return f"failed: {run.error}" if run.error is not None else text_of(run.output)


def _reasons(run: CaseResult) -> str:
    return "; ".join(f"{s.name} {_number(s.value)}: {s.reason}" for s in run.scores if s.reason)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(summary: ScoreSummary) -> str:
    found = summary.interval
    return "-" if found is None else f"{found.low:.3f} to {found.high:.3f}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"


def _md(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _h(text: str) -> str:
    return html.escape(text, quote=True)


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{_h(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _scores(summaries: Iterable[ScoreSummary]) -> str:
    heading = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("score", "mean", "95 % interval", "cases", "unscored")
    )
    rows = "".join(
        f'<tr><th scope="row">{_h(s.name)}</th><td>{_number(s.mean)}</td>'
        f"<td>{_interval(s)}</td><td>{s.cases}</td><td>{s.unscored}</td></tr>"
        for s in summaries
    )
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{rows}</tbody></table>"


def _run(run: CaseResult) -> str:
    scores = " ".join(f"{s.name} {_number(s.value)}" for s in run.scores)
    good = "good" if _total(run) == 1 else "bad"
    facts = [("input", run.input), ("output", _outcome(run))]
    if run.expected is not None:
        facts.append(("expected", text_of(run.expected)))
    calls = [
        f"{call.name}({call.arguments})"
        for message in run.messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    ]
    if calls:
        facts.append(("tool calls", "\n".join(calls)))
    facts += [(s.name, s.reason) for s in run.scores if s.reason]
    told = "".join(f"<dt>{_h(name)}</dt><dd><pre>{_h(text)}</pre></dd>" for name, text in facts)
    took = f"{run.seconds:.2f} s, {run.usage.total_tokens} tokens"
    return (
        f'<details><summary><span class="{good}">{_h(_label(run))}</span> {_h(scores)} '
        f"<small>{took}</small></summary><dl>{told}</dl></details>"
    )
