"""Factory's `droid exec`. Checked against the real CLI, version 0.215.0."""

from worker_wrapper.agents.base import AgentResult, Command, Outcome, Turn
from worker_wrapper.result_object import find_result, read_result


class Factory:
    """Adapter for `droid exec -o json`."""

    name = "factory"
    credentials = ("FACTORY_API_KEY", "OPENAI_API_KEY")
    passes = ("FACTORY_MODEL", "FACTORY_API_BASE_URL")
    session_paths = (".factory/sessions",)
    ignores = ("max_turns", "max_cost_usd")

    def build(self, turn: Turn) -> Command:
        """Say which process runs this turn."""
        flags = {
            "-m": turn.options.model or turn.environ.get("FACTORY_MODEL"),
            "--append-system-prompt": turn.options.system_prompt,
            # `-s` ends without a word and exit code 1; a fork continues the conversation just as
            # well, under a new id that is reported back.
            "--fork": turn.session.agent_session_id if turn.session else None,
        }
        given = [(flag, value) for flag, value in flags.items() if value]
        return Command(
            argv=(
                *("droid", "exec", "-o", "json", "--auto", "high", "--cwd", str(turn.workdir)),
                *(word for pair in given for word in pair),
            ),
            stdin=turn.prompt.encode("utf-8", "replace"),
            env={"FACTORY_DROID_AUTO_UPDATE_ENABLED": "false", "FACTORY_OTEL_ENABLED": "false"},
        )

    def parse(self, outcome: Outcome) -> AgentResult:
        """Read the one JSON object that it ends with."""
        said = find_result(outcome.stdout)
        if said is not None:
            return read_result(said)
        # An unknown session is refused in silence.
        silent = outcome.exit_code == 1 and not outcome.stdout.size and not outcome.complaint
        return AgentResult(is_error=True, session_conflict="unknown" if silent else None)


AGENT = Factory()
