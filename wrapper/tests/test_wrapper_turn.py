"""One turn from prompt to report, with small programs in the place of the real CLIs."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from orbiter_contracts import Usage
from worker_wrapper.agents import load_agent
from worker_wrapper.agents.base import AgentOptions, AgentResult, Session, Turn
from worker_wrapper.process.kernel import become_subreaper
from worker_wrapper.process.run import Grace
from worker_wrapper.turn.turn import StopTurn, TurnReport, take_turn
from worker_wrapper.turn.usage import charge

SUCCESS = '<result>{\\"status\\":\\"success\\",\\"summary\\":\\"did it\\"}</result>'
SAY = f"""
cat > prompt; env > env; for word; do echo "$word"; done >> argv
echo '{{"type":"result","num_turns":1,"result":"{SUCCESS}","session_id":"given"}}'
"""
Take = Callable[..., Awaitable[TurnReport]]


@pytest.fixture(autouse=True, scope="module")
def _subreaper() -> None:
    become_subreaper()


@pytest.fixture
def take(tmp_path: Path) -> Take:
    """Take a turn with a shell script as `claude`."""
    programs, workdir = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    workdir.mkdir()

    async def take_with(script: str, **given: object) -> TurnReport:
        (programs / "claude").write_text(f"#!/bin/sh\n{script}")
        (programs / "claude").chmod(0o755)
        environ = {"PATH": f"{programs}:/usr/bin:/bin", "ANTHROPIC_API_KEY": "sk"}
        turn = Turn(
            prompt=str(given.pop("prompt", "do it")),
            timeout_seconds=float(str(given.pop("seconds", 20))),
            session=given.pop("session", None),  # type: ignore[arg-type]
            workdir=workdir,
            options=AgentOptions(**given.pop("options", {})),  # type: ignore[arg-type]
        )
        options = {"developer": True, "stop": StopTurn()} | given
        return await take_turn(
            load_agent("claude"),
            turn,
            environ=environ | options.pop("environ", {}),  # type: ignore[arg-type]
            spill_dir=tmp_path,
            grace={reason: Grace(0.1, 0.1) for reason in ("timeout", "cancelled", "terminated")},
            **options,  # type: ignore[arg-type]
        )

    return take_with


def written(tmp_path: Path, name: str) -> str:
    return (tmp_path / "work" / name).read_text()


async def test_a_turn_that_goes_well_is_reported_with_its_verdict_and_times(take: Take) -> None:
    report = await take(SAY)

    assert (report.status, report.reason, report.error) == ("success", None, None)
    assert report.verdict is not None
    assert report.verdict.summary == "did it"
    elapsed = (report.finished_at - report.started_at).total_seconds() * 1000
    assert report.duration_ms == round(elapsed)


async def test_the_prompt_goes_in_by_stdin_as_it_is(take: Take, tmp_path: Path) -> None:
    await take(SAY, prompt="-p 'ä' $HOME\n" + "x" * 300_000)

    assert written(tmp_path, "prompt") == "-p 'ä' $HOME\n" + "x" * 300_000


async def test_a_leading_slash_makes_no_command_of_the_prompt(take: Take, tmp_path: Path) -> None:
    await take(SAY, prompt="/cost")

    assert written(tmp_path, "prompt") == " /cost"


@pytest.mark.parametrize(
    ("developer", "words"), [(True, "End\nyour last message"), (False, "the answer the user reads")]
)
async def test_the_agent_is_told_how_to_end_behind_what_the_user_tells_it(
    take: Take, tmp_path: Path, developer: bool, words: str
) -> None:
    await take(SAY, options={"system_prompt": "Be brief."}, developer=developer)

    _, _, told = written(tmp_path, "argv").partition("--append-system-prompt\n")
    assert told.startswith("Be brief.\n\n")
    assert words in told


async def test_the_environment_is_an_allowlist_and_the_user_outranks_the_adapter(
    take: Take, tmp_path: Path
) -> None:
    environ = {
        "REDIS_URL": "redis://:password@host",
        "TASK_RECORD": "agenttask:x:1",
        "AGENT_ENV": "CLAUDE_CODE_MAX_RETRIES",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }
    await take(SAY, environ=environ)

    seen = dict(line.split("=", 1) for line in written(tmp_path, "env").splitlines())
    assert seen["ANTHROPIC_API_KEY"] == "sk"
    assert seen["CLAUDE_CODE_MAX_RETRIES"] == "0"
    assert seen["DISABLE_AUTOUPDATER"] == "1"
    assert not {"REDIS_URL", "TASK_RECORD", "AGENT_ENV"} & set(seen)


async def test_the_session_to_keep_has_the_id_that_the_agent_gave(take: Take) -> None:
    report = await take(SAY, session=Session("chat"))

    assert report.session == Session("chat", resumed=True, agent_session_id="given")


@pytest.mark.parametrize(
    "given", [r"nul\\u0000", r"line\\n", r"half\\ud800", "two words", "", "-x", "x" * 201]
)
async def test_an_id_that_could_be_no_argument_is_not_kept(take: Take, given: str) -> None:
    session = Session("chat", agent_session_id="known")
    report = await take(SAY.replace("given", given), session=session)

    assert report.session == Session("chat", resumed=True, agent_session_id="known")


async def test_without_a_session_there_is_none_to_keep(take: Take) -> None:
    assert (await take(SAY)).session is None


async def test_a_session_that_is_in_use_is_resumed(take: Take, tmp_path: Path) -> None:
    refuse = 'case "$*" in *--session-id*) echo "x is already in use." >&2; exit 1;; esac\n'

    report = await take(refuse + SAY, session=Session("chat"))

    assert report.status == "success"
    assert "--resume" in written(tmp_path, "argv")


async def test_a_session_that_is_unknown_is_begun(take: Take, tmp_path: Path) -> None:
    refuse = 'case "$*" in *--resume*) echo "No conversation found with" >&2; exit 1;; esac\n'
    session = Session("chat", resumed=True, totals=Usage(cost_usd=1.0), agent_session_id="old")

    report = await take(refuse + SAY, session=session)

    assert report.status == "success"
    assert "--session-id" in written(tmp_path, "argv")
    assert report.session == Session("chat", resumed=True, agent_session_id="given")


async def test_the_other_form_is_tried_only_once(take: Take, tmp_path: Path) -> None:
    refuse = 'echo run >> runs; echo "is already in use. No conversation found" >&2; exit 1\n'

    report = await take(refuse, session=Session("chat"))

    assert (report.status, report.reason) == ("error", "AgentError")
    assert written(tmp_path, "runs") == "run\nrun\n"


async def test_time_that_runs_out_is_a_timeout(take: Take) -> None:
    report = await take("sleep 60", seconds=0.1)

    assert (report.status, report.reason) == ("timeout", "AgentTimeout")


@pytest.mark.parametrize(
    ("why", "status", "reason"),
    [("cancelled", "cancelled", "Cancelled"), ("terminated", "error", "Terminated")],
)
async def test_a_turn_that_is_stopped_says_why(
    take: Take, tmp_path: Path, why: str, status: str, reason: str
) -> None:
    stop = StopTurn()
    turn = asyncio.ensure_future(take("echo > here; sleep 60", stop=stop))
    async with asyncio.timeout(10):
        while not (tmp_path / "work" / "here").exists():
            await asyncio.sleep(0.005)
        stop.set(why)  # type: ignore[arg-type]
        report = await turn

    assert (report.status, report.reason) == (status, reason)


async def test_an_agent_that_is_not_installed_is_an_error_that_names_it(
    take: Take, tmp_path: Path
) -> None:
    report = await take(SAY, environ={"PATH": str(tmp_path)}, session=Session("chat"))

    assert (report.status, report.reason) == ("error", "AgentError")
    assert "cannot start claude: not found in PATH" in (report.error or "")
    assert report.session == Session("chat")


async def test_a_limit_the_agent_cannot_keep_is_a_warning(tmp_path: Path) -> None:
    options = AgentOptions(max_turns=3)

    report = await take_turn(
        load_agent("codex"),
        Turn("do it", 20, None, tmp_path, options),
        developer=True,
        environ={"PATH": _fake(tmp_path, "codex", "true")},
        stop=StopTurn(),
        spill_dir=tmp_path,
    )

    assert report.warnings == ["codex has no limit of that kind: max_turns was ignored"]


def _fake(directory: Path, name: str, script: str) -> str:
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)
    return f"{directory}:/usr/bin:/bin"


BEFORE = Usage(input_tokens=100, output_tokens=10, cost_usd=1.0)
AFTER = Usage(input_tokens=150, output_tokens=15, cost_usd=1.25)
TURN = Usage(input_tokens=40, output_tokens=4)


@pytest.mark.parametrize(
    ("session", "tokens", "cost"),
    [
        (None, 150, 1.25),
        (Session("s"), 150, 1.25),
        (Session("s", resumed=True, totals=BEFORE), 50, 0.25),
        (Session("s", resumed=True, totals=AFTER.model_copy(update={"cost_usd": 9})), 150, 1.25),
        (Session("s", resumed=True), 40, None),
    ],
    ids=["no-session", "first-turn", "growth", "began-anew", "unknown-before"],
)
def test_a_turn_is_charged_what_the_totals_grew_by(
    session: Session | None, tokens: int, cost: float | None
) -> None:
    used = charge(AgentResult(usage=TURN, totals=AFTER, turns=2), session)

    assert used is not None
    assert (used.input_tokens, used.cost_usd, used.turns) == (tokens, cost, 2)


def test_an_agent_that_only_tells_of_the_turn_is_believed() -> None:
    used = charge(AgentResult(usage=TURN, turns=1), Session("s", resumed=True, totals=BEFORE))

    assert used == TURN.model_copy(update={"turns": 1})


def test_a_turn_without_figures_cost_nobody_knows_what() -> None:
    assert charge(AgentResult(), None) is None


async def test_much_output_that_was_kept_is_no_reason_for_a_warning(take: Take) -> None:
    report = await take(f"head -c 1048576 /dev/zero | tr '\\0' n; echo\n{SAY}")

    assert (report.status, report.warnings) == ("success", [])
