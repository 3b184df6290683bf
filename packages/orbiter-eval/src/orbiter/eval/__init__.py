"""How good an agent is, measured: datasets, scorers, comparisons, reports."""

from orbiter.eval.compare import Comparison, compare, comparison_lines, difference
from orbiter.eval.dataset import DatasetError, load_dataset, save_dataset
from orbiter.eval.evaluator import Evaluator
from orbiter.eval.gate import ExitCode, Gate, Threshold, check
from orbiter.eval.journal import JournalError
from orbiter.eval.judge import Judge
from orbiter.eval.limits import CostLimit, LatencyLimit
from orbiter.eval.progress import Progress, ProgressBar
from orbiter.eval.record import RunInfo
from orbiter.eval.report import html_report, markdown_report
from orbiter.eval.result import EvalResult, ScoreSummary
from orbiter.eval.scorer import FunctionScorer, Scorer, ScorerError, make_scorer, scorer_registry
from orbiter.eval.structure import JsonMatch, JsonSchema
from orbiter.eval.text import ExactMatch, RegexMatch, Similarity
from orbiter.eval.tool_use import ToolUse
from orbiter.evaluation import Case, CaseResult, Difference, ExpectedCall, Score

__all__ = [
    "Case",
    "CaseResult",
    "Comparison",
    "CostLimit",
    "DatasetError",
    "Difference",
    "EvalResult",
    "Evaluator",
    "ExactMatch",
    "ExitCode",
    "ExpectedCall",
    "FunctionScorer",
    "Gate",
    "JournalError",
    "JsonMatch",
    "JsonSchema",
    "Judge",
    "LatencyLimit",
    "Progress",
    "ProgressBar",
    "RegexMatch",
    "RunInfo",
    "Score",
    "ScoreSummary",
    "Scorer",
    "ScorerError",
    "Similarity",
    "Threshold",
    "ToolUse",
    "check",
    "compare",
    "comparison_lines",
    "difference",
    "html_report",
    "load_dataset",
    "make_scorer",
    "markdown_report",
    "save_dataset",
    "scorer_registry",
]
