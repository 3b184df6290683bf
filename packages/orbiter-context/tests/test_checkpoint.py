import logging
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbiter.context import (
    CheckpointError,
    CheckpointStore,
    Context,
    ContextConfig,
    KnowledgeStore,
    MemoryCheckpointStore,
    SqliteCheckpointStore,
    Workspace,
)
from orbiter.memory import SqliteStorage
from orbiter.types import AssistantMessage, Message, ToolCall, ToolResult, Usage, UserMessage

OTHER_PROCESS = """
import asyncio, sys
from orbiter.context import Context, SqliteCheckpointStore

async def main():
    ctx = Context(task_id="t", checkpoints=SqliteCheckpointStore(sys.argv[1]))
    newest = (await ctx.list_checkpoints())[-1]
    restored = await Context.restore(newest)
    restored.state.set("plan", restored.state["plan"] + ["second"])
    print((await restored.snapshot()).version)

asyncio.run(main())
"""


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    if request.param == "memory":
        return MemoryCheckpointStore()
    return SqliteCheckpointStore(tmp_path / "checkpoints.db")


async def used_context(store: CheckpointStore, **services: Any) -> Context:
    config = ContextConfig(history_rounds=2, summary_threshold=2, neuron_names=["skills"])
    ctx = Context("t", config, checkpoints=store, clock=lambda: 1_700_000_000.0, **services)
    history: list[Message] = []
    for n in range(4):
        await ctx.start_run(agent_name="a", input=f"q{n} is 7", history=history, provider=None)
        ctx.record_step("a", Usage(input_tokens=n, output_tokens=1))
        call = ToolCall(id=f"{n}", name="f", arguments="{}")
        messages: list[Message] = [
            UserMessage(content=f"q{n} is 7"),
            AssistantMessage(tool_calls=[call]),
            ToolResult(tool_call_id=f"{n}", tool_name="f", content="r", error="e"),
            AssistantMessage(content=f"a{n}"),
        ]
        await ctx.finish_run(agent_name="a", messages=messages, output=f"a{n}")
        history += messages
    ctx.state.update(plan=["first"], skills=["swim"])
    await ctx.workspace.write("notes.md", content="some notes")
    await ctx.knowledge.add("bees.md", content="Bees dance.")
    return ctx


async def test_a_restored_context_is_as_it_was(store: CheckpointStore) -> None:
    ctx = await used_context(store)
    restored = await Context.restore(await ctx.snapshot())
    assert restored is not ctx
    assert (restored.task_id, restored.config) == (ctx.task_id, ctx.config)
    assert restored.state.to_dict() == {"plan": ["first"], "skills": ["swim"]}
    assert restored.history == ctx.history
    assert restored.token_usage == ctx.token_usage
    assert restored.get_trajectory("a") == ctx.get_trajectory("a")
    assert await restored.workspace.read("notes.md") == "some notes"
    assert (await restored.knowledge.search("bees"))[0].content == "Bees dance."
    assert restored.origin_user_input == "q0 is 7"
    assert (restored.task_input, restored.task_output) == ("q3 is 7", "a3")


async def test_a_restored_context_goes_on_with_the_conversation(store: CheckpointStore) -> None:
    ctx = await used_context(store)
    restored = await Context.restore(await ctx.snapshot())
    shown = [
        await each.start_run(agent_name="a", input="next", history=list(ctx.history), provider=None)
        for each in (ctx, restored)
    ]
    assert shown[0] == shown[1]
    assert "q0 is 7" in shown[0][0].content


async def test_a_checkpoint_does_not_follow_its_context(store: CheckpointStore) -> None:
    ctx = await used_context(store)
    checkpoint = await ctx.snapshot()
    ctx.state["plan"].append("changed")
    ctx.record_step("a", Usage(input_tokens=1000))
    await ctx.workspace.write("notes.md", content="changed")
    restored = await Context.restore(checkpoint)
    restored.state["plan"].append("restored")
    again = await Context.restore(checkpoint)
    assert again.state["plan"] == ["first"]
    assert again.token_usage["prompt_tokens"] == 6
    assert await again.workspace.read("notes.md") == "some notes"


async def test_checkpoints_are_numbered_and_listed_oldest_first(store: CheckpointStore) -> None:
    ctx = Context(task_id="t", checkpoints=store, clock=lambda: 1_700_000_000.0)
    other = Context(task_id="other", checkpoints=store)
    for value in ("one", "two", "three"):
        ctx.state.set("value", value)
        await ctx.snapshot()
    await other.snapshot()
    listed = await ctx.list_checkpoints()
    assert [c.version for c in listed] == [1, 2, 3]
    assert [c.content.state["value"] for c in listed] == ["one", "two", "three"]
    assert {c.created_at for c in listed} == {datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)}
    assert not any(c.automatic for c in listed)
    assert await store.delete("t") == 3
    assert await ctx.list_checkpoints() == []


async def test_a_restored_context_goes_on_numbering(store: CheckpointStore) -> None:
    ctx = Context(task_id="t", checkpoints=store)
    await ctx.snapshot()
    restored = await Context.restore((await ctx.list_checkpoints())[0])
    assert (await restored.snapshot()).version == 2
    assert len(await ctx.list_checkpoints()) == 2


async def test_each_run_saves_one_and_only_the_newest_automatic_ones_stay(
    store: CheckpointStore,
) -> None:
    ctx = Context(task_id="t", checkpoints=store)
    kept = await ctx.snapshot()
    for n in range(14):
        await ctx.start_run(agent_name="a", input=str(n), history=[], provider=None)
        await ctx.finish_run(agent_name="a", messages=[], output=str(n))
    listed = await ctx.list_checkpoints()
    assert listed[0].version == kept.version
    assert [c.content.task_output for c in listed[1:]] == [str(n) for n in range(4, 14)]
    assert all(c.automatic for c in listed[1:])


async def test_pilot_saves_nothing_by_itself(store: CheckpointStore) -> None:
    ctx = Context("t", ContextConfig(mode="pilot"), checkpoints=store)
    await ctx.start_run(agent_name="a", input="x", history=[], provider=None)
    await ctx.finish_run(agent_name="a", messages=[], output="y")
    assert await ctx.list_checkpoints() == []


async def test_what_a_child_inherited_can_be_read_after_a_restore(
    store: CheckpointStore,
) -> None:
    ctx = Context(task_id="t", checkpoints=store)
    ctx.state.update(shared=["parent's"], hidden=1)
    child = ctx.fork("t/child")
    child.state.set("hidden", 2)
    restored = await Context.restore(await child.snapshot())
    ctx.state["shared"].append("later")
    assert restored.state.to_dict() == {"shared": ["parent's"], "hidden": 2}
    assert restored.state.local_dict() == {"hidden": 2}


async def test_services_given_to_restore_are_used(tmp_path: Path) -> None:
    ctx = await used_context(MemoryCheckpointStore())
    workspace, other = Workspace(tmp_path), MemoryCheckpointStore()
    restored = await Context.restore(await ctx.snapshot(), workspace=workspace, checkpoints=other)
    assert restored.workspace is workspace
    await restored.snapshot()
    assert len(await other.list("t")) == 1


async def test_a_workspace_in_a_directory_is_opened_again(tmp_path: Path) -> None:
    store = SqliteCheckpointStore(tmp_path / "c.db")
    ctx = Context(task_id="t", checkpoints=store, workspace=Workspace(tmp_path / "files"))
    await ctx.workspace.write("a.md", content="kept")
    restored = await Context.restore(await ctx.snapshot())
    assert await restored.workspace.read("a.md") == "kept"


async def test_knowledge_in_a_file_is_not_copied_into_checkpoints(tmp_path: Path) -> None:
    knowledge = KnowledgeStore(SqliteStorage(tmp_path / "k.db"), task_id="t")
    ctx = Context(task_id="t", knowledge=knowledge)
    await ctx.knowledge.add("bees.md", content="Bees dance.")
    checkpoint = await ctx.snapshot()
    assert checkpoint.content.knowledge == ()
    restored = await Context.restore(checkpoint, knowledge=knowledge)
    assert await restored.knowledge.get("bees.md") == "Bees dance."
    await knowledge.storage.close()


async def test_another_process_restores_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.db"
    ctx = Context(task_id="t", checkpoints=SqliteCheckpointStore(path))
    ctx.state.set("plan", ["first"])
    await ctx.snapshot()
    other = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, str(path)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert other.stdout.strip() == "2", other.stderr
    restored = await Context.restore((await ctx.list_checkpoints())[-1])
    assert restored.state["plan"] == ["first", "second"]


async def test_state_that_cannot_be_copied_is_named() -> None:
    ctx = Context(task_id="t")
    ctx.state.set("lock", threading.Lock())
    with pytest.raises(CheckpointError, match=r"task 't': state key 'lock' holds a lock"):
        await ctx.snapshot()


@pytest.mark.parametrize("value", [datetime.now(UTC), {1: "int key"}, ("tuple",), {"a set"}])
async def test_state_that_json_would_change_is_refused_by_a_file(
    value: object, tmp_path: Path
) -> None:
    ctx = Context(task_id="t", checkpoints=SqliteCheckpointStore(tmp_path / "c.db"))
    ctx.state.set("odd", value)
    with pytest.raises(CheckpointError, match=f"'odd' holds a {type(value).__name__}"):
        await ctx.snapshot()


async def test_an_automatic_checkpoint_that_fails_does_not_fail_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ctx = Context(task_id="t")
    ctx.state.set("lock", threading.Lock())
    await ctx.start_run(agent_name="a", input="x", history=[], provider=None)
    with caplog.at_level(logging.WARNING):
        await ctx.finish_run(agent_name="a", messages=[], output="y")
    assert "no automatic checkpoint: checkpoint of task 't'" in caplog.text


async def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    ctx = Context(task_id="t", checkpoints=SqliteCheckpointStore(tmp_path / "no" / "c.db"))
    with pytest.raises(CheckpointError, match=r"no/c\.db.*directory exist"):
        await ctx.snapshot()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
STATE = st.dictionaries(st.text(max_size=5), JSON, max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(own=STATE, inherited=STATE, usage=st.lists(st.tuples(*[st.integers(0, 10**6)] * 2)))
async def test_snapshot_and_restore_is_a_round_trip(
    store: CheckpointStore,
    own: dict[str, Any],
    inherited: dict[str, Any],
    usage: list[tuple[int, int]],
) -> None:
    parent = Context(task_id="parent", checkpoints=store)
    parent.state.update(inherited)
    ctx = parent.fork("t")
    ctx.state.update(own)
    for prompt, output in usage:
        ctx.record_step("a", Usage(input_tokens=prompt, output_tokens=output))
    await ctx.snapshot()
    restored = await Context.restore((await ctx.list_checkpoints())[-1])
    assert restored.state.local_dict() == own
    assert restored.state.to_dict() == {**inherited, **own}
    assert restored.token_usage == ctx.token_usage
    assert restored.get_trajectory("a") == ctx.get_trajectory("a")
