import asyncio
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.eventually import eventually

from orbiter import Agent
from orbiter.eval import Case, EvalResult, Evaluator, ExactMatch, JournalError
from orbiter.models import ScriptedModel

CASES = [Case(id=str(n), input=f"{n}?", expected=str(n)) for n in range(6)]
PROGRAM = Path(__file__).with_name("eval_process.py")


def counting(fails=()):
    runs = Counter()

    async def target(case):
        runs[case.id] += 1
        if case.id in fails:
            raise ValueError("not now")
        return case.expected

    return target, runs


async def test_a_journal_that_is_whole_runs_nothing_again(tmp_path):
    target, runs = counting()
    evaluator = Evaluator(target, [ExactMatch()])
    first = await evaluator.run(CASES, journal=tmp_path / "a.jsonl")
    assert await evaluator.run(CASES, journal=tmp_path / "a.jsonl") == first
    assert set(runs.values()) == {1}
    loaded = EvalResult.load(tmp_path / "a.jsonl")
    assert loaded.info == first.info
    assert loaded.summaries() == first.summaries()


@pytest.mark.parametrize("text", ["my notes", '{"my": "notes"}\n{"more": 1}', "{}"])
async def test_a_file_that_is_no_journal_stays_as_it_is(tmp_path, text):
    target, runs = counting()
    (tmp_path / "notes").write_text(text)
    with pytest.raises(JournalError, match="is no journal of an evaluation"):
        await Evaluator(target, [ExactMatch()]).run(CASES, journal=tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == text
    assert not runs


@pytest.mark.parametrize("left", ["", "{", '{"name":"eval'])
async def test_a_journal_of_half_a_line_begins_anew(tmp_path, left):
    target, _ = counting()
    (tmp_path / "a.jsonl").write_text(left)
    result = await Evaluator(target, [ExactMatch()]).run(CASES, journal=tmp_path / "a.jsonl")
    assert result.complete
    assert EvalResult.load(tmp_path / "a.jsonl").complete


async def test_a_cancelled_evaluation_goes_on_where_it_was(tmp_path):
    runs = Counter()
    stuck = asyncio.Event()

    async def target(case):
        runs[case.id] += 1
        if case.id == "4" and runs["4"] == 1:
            stuck.set()
            await asyncio.Event().wait()
        return case.expected

    evaluator = Evaluator(target, [ExactMatch()], concurrency=1)
    task = asyncio.create_task(evaluator.run(CASES, journal=tmp_path / "a.jsonl"))
    await stuck.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not EvalResult.load(tmp_path / "a.jsonl").complete
    result = await evaluator.run(CASES, journal=tmp_path / "a.jsonl")
    assert result.complete
    assert [run.case_id for run in result.results] == [case.id for case in CASES]
    assert runs == {"0": 1, "1": 1, "2": 1, "3": 1, "4": 2, "5": 1}


async def test_the_torn_line_of_a_killed_process_is_cut_off(tmp_path):
    target, runs = counting()
    evaluator = Evaluator(target, [ExactMatch()], concurrency=1)
    file = tmp_path / "a.jsonl"
    await evaluator.run(CASES, journal=file)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:4]) + lines[4][:30])
    assert len(EvalResult.load(file).results) == 3
    result = await evaluator.run(CASES, journal=file)
    assert result.complete
    assert sorted(runs.values()) == [1, 1, 1, 2, 2, 2]
    assert len(file.read_bytes().splitlines()) == 7


async def test_failed_runs_stay_failed_unless_they_are_to_be_run_again(tmp_path):
    file = tmp_path / "a.jsonl"
    fails = {"2"}
    target, runs = counting(fails)
    evaluator = Evaluator(target, [ExactMatch()])
    assert len((await evaluator.run(CASES, journal=file)).errors) == 1
    fails.clear()
    assert len((await evaluator.run(CASES, journal=file)).errors) == 1
    result = await evaluator.run(CASES, journal=file, retry_errors=True)
    assert result.errors == []
    assert runs["2"] == 2
    assert EvalResult.load(file).errors == []


async def test_a_journal_is_of_those_too_that_the_agent_asks_by_a_tool(tmp_path):
    def evaluator(instructions):
        expert = Agent(name="expert", description="Knows.", instructions=instructions)
        agent = Agent(name="a", tools=[expert.as_tool()])
        return Evaluator(agent, [ExactMatch()], provider=ScriptedModel("0", repeat=True))

    file = tmp_path / "a.jsonl"
    await evaluator("x").run(CASES, journal=file)
    await evaluator("x").run(CASES, journal=file)
    with pytest.raises(JournalError, match="begun with other agent"):
        await evaluator("y").run(CASES, journal=file)


@pytest.mark.parametrize("what", ["cases", "agent", "scorers", "repeats"])
async def test_a_journal_of_another_evaluation_is_left_alone(tmp_path, what):
    def evaluator(instructions="x", scorer=None, repeats=1):
        agent = Agent(name="a", instructions=instructions)
        model = ScriptedModel("0", repeat=True)
        return Evaluator(agent, [scorer or ExactMatch()], provider=model, repeats=repeats)

    file = tmp_path / "a.jsonl"
    await evaluator().run(CASES, journal=file)
    before = file.read_bytes()
    other = {
        "cases": evaluator(),
        "agent": evaluator(instructions="y"),
        "scorers": evaluator(scorer=ExactMatch(ignore_case=True)),
        "repeats": evaluator(repeats=2),
    }[what]
    cases = CASES[:-1] if what == "cases" else CASES
    with pytest.raises(JournalError, match=f"begun with other {what}"):
        await other.run(cases, journal=file)
    assert file.read_bytes() == before


async def test_two_evaluations_never_write_one_journal(tmp_path):
    inside, go = asyncio.Event(), asyncio.Event()

    async def target(case):
        inside.set()
        await go.wait()
        return ""

    evaluator = Evaluator(target, [ExactMatch()])
    first = asyncio.create_task(evaluator.run(CASES, journal=tmp_path / "a.jsonl"))
    await inside.wait()
    with pytest.raises(JournalError, match="is in use"):
        await evaluator.run(CASES, journal=tmp_path / "a.jsonl")
    go.set()
    assert (await first).complete


async def test_what_goes_wrong_beside_the_runs_is_raised_as_it_is():
    target, _ = counting()

    def broken(progress):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        await Evaluator(target, [ExactMatch()]).run(CASES, progress=broken)


def test_what_is_no_journal_is_told(tmp_path):
    file = tmp_path / "a.jsonl"
    with pytest.raises(JournalError, match="cannot be read: No such file"):
        EvalResult.load(file)
    file.write_text("hello\n")
    with pytest.raises(JournalError, match="is no journal"):
        EvalResult.load(file)


async def test_a_result_that_is_saved_is_a_journal(tmp_path):
    target, _ = counting()
    result = await Evaluator(target, [ExactMatch()]).run(CASES)
    result.save(tmp_path / "a.jsonl")
    assert EvalResult.load(tmp_path / "a.jsonl") == result


def written(file):
    return file.stat().st_size if file.exists() else 0


@pytest.mark.integration
@pytest.mark.timeout(300)
async def test_kill_9_loses_no_result_and_runs_none_again(tmp_path):
    cases, kills = 1_500, 12
    chance = random.Random(7)
    journal = tmp_path / "run.jsonl"
    words = list(map(str, [sys.executable, PROGRAM, tmp_path, cases]))
    for _ in range(kills):
        enough = written(journal) + chance.randrange(1, 500_000)
        victim = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        await eventually(lambda end=enough: written(journal) >= end, seconds=60)
        assert victim.poll() is None, "it came to its end before it could be killed"
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    before = {run.case_id for run in EvalResult.load(journal).results}
    assert subprocess.run(words, stdout=subprocess.DEVNULL).returncode == 0

    result = EvalResult.load(journal)
    assert result.complete
    assert len(result.results) == len({run.case_id for run in result.results}) == cases
    assert result.mean("exact") == 1.0
    assert len(journal.read_bytes().splitlines()) == cases + 1, "a case has two results"
    marks = [line.split() for line in (tmp_path / "marks").read_text().splitlines()]
    last = marks[-1][1]
    again = {case for word, pid, case in marks if word == "began" and pid == last}
    assert not again & before, "a case with a result was run again"
    # what is run twice was under way, at most four at each kill
    began = Counter(case for word, _, case in marks if word == "began")
    assert sum(runs - 1 for runs in began.values()) <= 4 * kills
