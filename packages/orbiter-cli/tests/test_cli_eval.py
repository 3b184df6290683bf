import json
import sys

import pytest
from support.markdown_blocks import staged
from typer.testing import CliRunner

from orbiter.cli.main import app
from orbiter.models import ModelError, ScriptedModel

CASES = [{"id": str(n), "input": f"{n}?", "expected": str(n)} for n in range(8)]


def right(messages):
    return messages[-1].content.rstrip("?")


def wrong(messages):
    return "no idea"


@pytest.fixture
def evaluate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "a.yaml").write_text("name: a\ninstructions: Repeat.\n")
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in CASES))
    with staged("openai", "anthropic") as stage:

        def invoke(*words, model=right, dataset="cases.jsonl"):
            stage.script = ScriptedModel(model, repeat=True)
            return CliRunner().invoke(app, ["eval", "a.yaml", dataset, *words])

        invoke.stage = stage
        yield invoke


def test_scores_are_told_with_where_they_probably_are(evaluate):
    done = evaluate()
    assert done.exit_code == 0
    assert done.stdout == "exact  1.000 (0.676 to 1.000), 8 cases\n"


def test_a_missed_threshold_is_told_and_ends_with_1(evaluate):
    done = evaluate("-t", "exact>=0.5", "-t", "errors<=0", model=wrong)
    assert done.exit_code == 1
    assert done.stderr == "not passed: exact is 0.000, wanted exact>=0.5\n"
    assert evaluate("-t", "exact>=0.5").exit_code == 0


def test_json_says_everything(evaluate):
    done = evaluate("--json", "-s", "exact", "-s", "latency=60", "-t", "exact>=0.9")
    told = json.loads(done.stdout)
    assert [(s["name"], s["mean"]) for s in told["scores"]] == [("exact", 1.0), ("latency", 1.0)]
    assert (told["passed"], told["problems"], told["errors"]) == (True, [], 0)
    assert told["usage"]["total_tokens"] == 8 * 15


def test_a_journal_is_gone_on_with_and_serves_as_a_baseline(evaluate, tmp_path):
    evaluate("--journal", "good.jsonl")
    evaluate("--journal", "good.jsonl")
    assert evaluate.stage.script.requests == []
    done = evaluate("--baseline", "good.jsonl", model=wrong)
    assert done.exit_code == 1
    assert "exact: 1.000 -> 0.000" in done.stdout
    assert "not passed: exact is worse than the baseline" in done.stderr


def test_reports_are_written(evaluate, tmp_path):
    evaluate("--report", "r.md", "--report", "r.html", model=wrong)
    assert (tmp_path / "r.md").read_text().startswith("# Evaluation of a")
    assert "<h1>Evaluation of a</h1>" in (tmp_path / "r.html").read_text()


def test_failed_runs_are_told(evaluate):
    def down(messages):
        return ModelError("down", model="m")

    done = evaluate(model=down)
    assert done.exit_code == 1
    assert "8 runs failed; 0: ModelError: [m] down" in done.stdout
    assert done.stderr == "not passed: 8 of 8 runs failed; errors<=0.05 allows some\n"
    assert evaluate("-t", "errors<=1", model=down).exit_code == 0


def test_columns_can_be_renamed(evaluate, tmp_path):
    (tmp_path / "qa.csv").write_text("question,answer,note\n7?,7,x\n")
    done = evaluate("--column", "question=input", "--column", "answer=expected", dataset="qa.csv")
    assert done.stdout == "exact  1.000, 1 cases\n"


def test_a_judge_can_be_another_model(evaluate):
    verdict = '{"quality": {"reason": "Good.", "mark": 5}}'

    def both(messages):
        return verdict if messages[0].content.startswith("You grade") else right(messages)

    done = evaluate("-s", "judge=It repeats.", "--judge-model", "anthropic:x", model=both)
    assert done.stdout.startswith("judge  1.000")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-s", "exakt"], "unknown scorer 'exakt'; known: "),
        (["-s", "latency=soon"], "scorer 'latency=soon'"),
        (["-t", "exact>1"], "'exact>1' is no threshold"),
        (["--baseline", "none.jsonl"], "none.jsonl cannot be read"),
        (["--report", "r.pdf"], "--report r.pdf: name a file that ends in .md or .html"),
        (["--column", "x"], "--column x: write it as question=input"),
        (["--column", "=input"], "--column =input: write it as question=input"),
        (["--column", "a="], "--column a=: write it as question=input"),
        (
            ["--column", "question=inptu"],
            "--column question=inptu: a case has no field 'inptu', only id, input, expected, ",
        ),
        (
            ["--column", "question=x"],
            "--column question=x: a case has no field 'x', only id, input, expected, ",
        ),
        (
            ["--column", "a=input", "--column", "b=input"],
            "--column a=input and --column b=input rename to the same field",
        ),
        (
            ["--column", "question=tags"],
            "--column question=tags: no case of cases.jsonl has 'question'; they have id, input, ",
        ),
        (["--journal", "cases.jsonl"], "error: --journal cases.jsonl is no journal"),
    ],
)
def test_what_cannot_be_used_is_told_before_a_model_is_called(evaluate, words, told):
    done = evaluate(*words)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert told in done.stderr
    assert evaluate.stage.script.requests == []
    assert done.stderr.count("\n") == 1
