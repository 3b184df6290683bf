"""Trajectories: what a model saw and said in one run, ready to be learned from."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from orbiter.agent import Agent
from orbiter.evaluation import CaseResult, Evaluation
from orbiter.train._internal.canon import key_of
from orbiter.types import (
    AssistantMessage,
    Message,
    OrbiterError,
    SystemMessage,
    ToolResult,
    UserMessage,
)


class TrainingError(OrbiterError):
    """Something cannot be learned from, or learning failed."""


class Trajectory(BaseModel):
    """One conversation as the model had it.

    Attributes:
        messages: With the system message, if there is one.
        tools: What the model could call, as providers take it.
        scores: By scorer, from 0 to 1.
        case_id: The case of the evaluation it comes from, if any.
        model: Who spoke.
    """

    model_config = {"frozen": True}

    messages: list[Annotated[Message, Field(discriminator="role")]]
    tools: list[dict[str, Any]] = []
    scores: dict[str, float] = {}
    case_id: str = ""
    model: str = ""

    @property
    def prompt(self) -> list[Message]:
        """The messages before the model first spoke."""
        for index, message in enumerate(self.messages):
            if isinstance(message, AssistantMessage):
                return self.messages[:index]
        return list(self.messages)

    @property
    def conversation(self) -> list[Message]:
        """The messages without the system message."""
        return [m for m in self.messages if not isinstance(m, SystemMessage)]

    @property
    def complete(self) -> bool:
        """Whether it ends with an answer and every tool call has its result."""
        last = self.messages[-1] if self.messages else None
        return isinstance(last, AssistantMessage) and not last.tool_calls


def trajectories_of(result: Evaluation, agent: Agent) -> list[Trajectory]:
    """Return the completed runs of an evaluation, with their scores.

    Args:
        result: Of an evaluation whose target was `agent`, such as an EvalResult.
        agent: Its instructions and tools are those the model saw.

    Raises:
        TrainingError: The instructions are made by a function, or the run was handed to another
            agent: then only a Recorder knows what the model saw.
    """
    if not isinstance(agent.instructions, str):
        raise TrainingError(
            f"the instructions of agent '{agent.name}' are made by a function: evaluate with "
            "Evaluator(provider=recorder.provider(...)) and take with_scores(recorder, result)"
        )
    if agent.handoffs:
        raise TrainingError(
            f"agent '{agent.name}' hands off to others, who have instructions of their own: "
            "record its runs with a Recorder"
        )
    system = [SystemMessage(content=agent.instructions)] if agent.instructions else []
    tools = [tool.to_schema() for tool in agent.tools]
    found = [
        Trajectory(
            messages=[*system, *run.messages],
            tools=tools,
            scores=_scores(run),
            case_id=run.case_id,
            model=agent.model,
        )
        for run in result.results
        if run.error is None and run.stop_reason == "completed"
    ]
    return [trajectory for trajectory in found if trajectory.complete]


def with_scores(trajectories: Iterable[Trajectory], result: Evaluation) -> list[Trajectory]:
    """Return the trajectories that belong to runs of an evaluation, with the runs' scores.

    They are found by the conversation; those of other runs are left out.
    """
    runs = {key_of(run.messages): run for run in result.results if run.messages}
    found = []
    for trajectory in trajectories:
        spoken = trajectory.conversation
        # an evaluation tells no more than what came after the conversation a case begins with
        starts = [i for i, message in enumerate(spoken) if isinstance(message, UserMessage)]
        run = next((r for i in starts if (r := runs.get(key_of(spoken[i:]))) is not None), None)
        if run is not None:
            update = {"scores": _scores(run), "case_id": run.case_id}
            found.append(trajectory.model_copy(update=update))
    return found


def select(
    trajectories: Iterable[Trajectory],
    at_least: Mapping[str, float],
    *,
    distinct: bool = True,
    tool_errors: bool = True,
) -> list[Trajectory]:
    """Return the trajectories worth learning from.

    Args:
        trajectories: To choose from.
        at_least: By scorer; a trajectory without such a score is left out.
        distinct: Whether the same conversation is taken once only.
        tool_errors: Whether those are taken too in which a tool failed.
    """
    chosen: dict[str, Trajectory] = {}
    for trajectory in trajectories:
        good = all(trajectory.scores.get(name, -1.0) >= low for name, low in at_least.items())
        failed = any(isinstance(m, ToolResult) and m.error for m in trajectory.messages)
        if good and trajectory.complete and (tool_errors or not failed):
            key = key_of(trajectory.messages) if distinct else str(len(chosen))
            chosen.setdefault(key, trajectory)
    return list(chosen.values())


def save_trajectories(trajectories: Iterable[Trajectory], path: str | Path) -> None:
    """Write trajectories as JSON lines."""
    lines = [trajectory.model_dump_json() + "\n" for trajectory in trajectories]
    Path(path).write_text("".join(lines), encoding="utf-8")


def load_trajectories(path: str | Path) -> list[Trajectory]:
    """Read trajectories.

    Raises:
        TrainingError: The file cannot be read, or a line is no trajectory; the text tells which.
    """
    file = Path(path)
    found = []
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise TrainingError(f"{file} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(Trajectory.model_validate_json(line))
        except ValidationError as error:
            raise TrainingError(f"{file}, line {number} is no trajectory: {error}") from error
    return found


def same_prompt(trajectories: Iterable[Trajectory]) -> list[Sequence[Trajectory]]:
    """Return the trajectories in groups that begin alike."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(key_of(trajectory.prompt), []).append(trajectory)
    return list(groups.values())


def _scores(run: CaseResult) -> dict[str, float]:
    return {score.name: score.value for score in run.scores if score.value is not None}
