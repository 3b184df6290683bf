"""Real CLI agents read instructions and skills of their user's, not of the repository's."""

import json
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.agent_clis import ModelServer
from support.queues import Queues
from support.real_agents import RealWorkers

pytestmark = pytest.mark.integration

TYPES = ["claude", "codex", "factory", "gemini", "opencode", "orbiter"]
SKILL = "---\nname: house-style\ndescription: How this house writes its notes.\n---\nBe brief.\n"
INSTRUCTIONS = "Speak of the harbour master."


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    """A skill and instructions, in files as a pod has them of ConfigMaps."""
    skill = tmp_path / "skills" / "house-style"
    (skill / "..1").mkdir(parents=True)
    (skill / "..1" / "SKILL.md").write_text(SKILL)
    (skill / "..data").symlink_to("..1")
    (skill / "SKILL.md").symlink_to("..data/SKILL.md")
    (tmp_path / "instructions.md").write_text(INSTRUCTIONS)
    return {
        "AGENT_SKILLS_DIR": str(skill.parent),
        "AGENT_INSTRUCTIONS_FILE": str(tmp_path / "instructions.md"),
    }


@pytest.mark.parametrize("name", TYPES)
async def test_the_model_is_offered_the_skill_and_told_the_instructions(
    name: str,
    request: pytest.FixtureRequest,
    redis: Redis,
    model_server: ModelServer,
    given: dict[str, str],
) -> None:
    workers: RealWorkers = request.getfixturevalue(f"{name}_workers")
    queues = Queues(redis)
    (workers.work / "CLAUDE.md").write_text("The repository's own.\n")
    await queues.task("[[say: hello]] [[result]]")
    assert await workers.start(**given).exit_code(seconds=280) == 0
    output = await queues.output()
    assert output.status == "success", output.error
    asked = json.dumps(model_server.get("/last"))
    assert "How this house writes its notes." in asked
    assert "Be brief." not in asked
    assert INSTRUCTIONS in asked
    assert [path.name for path in workers.work.iterdir()] == ["CLAUDE.md"]
    assert (workers.work / "CLAUDE.md").read_text() == "The repository's own.\n"
