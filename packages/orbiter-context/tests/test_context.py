import gc
import inspect

import pytest

from orbiter.context import Context, ContextConfig, ContextError, Workspace
from orbiter.memory import LongTermMemory
from orbiter.types import AssistantMessage, Message, Usage, UserMessage


def test_only_the_task_id_is_required_and_the_rest_has_defaults() -> None:
    ctx = Context(task_id="task-1")
    assert (ctx.config, ctx.parent) == (ContextConfig(), None)
    names = list(inspect.signature(Context).parameters)
    assert names[:3] == ["task_id", "config", "parent"]


def test_an_empty_task_id_is_refused() -> None:
    with pytest.raises(ContextError, match="needs a task_id"):
        Context(task_id="")


def test_a_child_reads_its_parents_state_and_writes_its_own() -> None:
    ctx = Context(task_id="t")
    ctx.state.set("shared_key", "shared")
    child = ctx.fork(task_id="subtask-1")
    child.state.set("progress", "researching")
    assert child.state.get("shared_key") == "shared"
    assert ctx.state.get("progress") is None
    assert (child.task_id, child.parent) == ("subtask-1", ctx)


def test_a_child_has_its_parents_config_and_services() -> None:
    memory = LongTermMemory()
    ctx = Context(
        task_id="t",
        config=ContextConfig(mode="navigator"),
        memory=memory,
        workspace=Workspace(),
        token_counter=len,
        clock=lambda: 0.0,
    )
    for child in (ctx.fork("c"), Context(task_id="c", parent=ctx)):
        assert child.config is ctx.config
        assert child.workspace is ctx.workspace
        assert child.knowledge is ctx.knowledge
        assert child.memory is memory
        assert child.checkpoints is ctx.checkpoints
        assert child.token_counter is len
        assert child.clock is ctx.clock


def test_a_fork_may_have_a_config_of_its_own() -> None:
    child = Context(task_id="t").fork("c", config=ContextConfig(mode="pilot"))
    assert child.config.mode == "pilot"


def test_merging_takes_over_the_childs_writes_but_not_what_it_inherited() -> None:
    ctx = Context(task_id="t")
    ctx.state.update(kept="parent's", changed=1)
    child = ctx.fork("c")
    child.state.update(changed=2, new=3)
    ctx.state.set("kept", "changed meanwhile")
    ctx.merge(child)
    assert ctx.state.local_dict() == {"kept": "changed meanwhile", "changed": 2, "new": 3}


def test_merging_adds_the_childs_net_tokens_once() -> None:
    ctx = Context(task_id="t")
    ctx.record_step("a", Usage(input_tokens=100, output_tokens=10))
    child = ctx.fork("c")
    child.record_step("a", Usage(input_tokens=50, output_tokens=5))
    grandchild = child.fork("g")
    grandchild.record_step("b", Usage(input_tokens=7, output_tokens=1))
    child.merge(grandchild)
    ctx.merge(child)
    ctx.merge(child)
    assert ctx.token_usage == {
        "prompt_tokens": 157,
        "completion_tokens": 16,
        "total_tokens": 173,
    }
    assert [s.prompt_tokens for s in ctx.get_trajectory("a").steps] == [100, 50]


def test_a_context_cannot_be_merged_into_itself() -> None:
    ctx = Context(task_id="t")
    with pytest.raises(ContextError, match="'t' cannot be merged into itself"):
        ctx.merge(ctx)


def test_a_forgotten_child_leaves_nothing_behind() -> None:
    ctx = Context(task_id="t")
    child = ctx.fork("c")
    ctx.merge(child)
    del child
    gc.collect()
    assert not [o for o in gc.get_objects() if isinstance(o, Context) and o.parent is ctx]


async def test_the_conversation_is_known_after_the_run() -> None:
    ctx = Context(task_id="t")
    before: list[Message] = [UserMessage(content="a"), AssistantMessage(content="b")]
    new: list[Message] = [UserMessage(content="c"), AssistantMessage(content="d")]
    await ctx.start_run(agent_name="x", input="c", history=before, provider=None)
    assert ctx.history == before
    before_run = list(before)
    before.append(UserMessage(content="the caller goes on"))
    await ctx.finish_run(agent_name="x", messages=new, output="d")
    assert ctx.history == [*before_run, *new]
    assert (ctx.task_input, ctx.task_output, ctx.origin_user_input) == ("c", "d", "c")


async def test_the_first_input_of_a_task_stays_its_origin() -> None:
    ctx = Context(task_id="t")
    await ctx.start_run(agent_name="x", input="the user's", history=[], provider=None)
    child = ctx.fork("c")
    await child.start_run(agent_name="y", input="derived", history=[], provider=None)
    assert child.origin_user_input == "the user's"


async def test_what_a_run_added_is_told_to_the_memory() -> None:
    memory = LongTermMemory()
    ctx = Context(task_id="t", memory=memory)
    messages: list[Message] = [UserMessage(content="I live in Bern.")]
    await ctx.start_run(agent_name="x", input="I live in Bern.", history=[], provider=None)
    await ctx.finish_run(agent_name="x", messages=messages, output="")
    assert await memory.facts() == ["I live in Bern."]


async def test_tasks_that_share_knowledge_share_no_conversations() -> None:
    first = Context(task_id="one", config=ContextConfig(history_rounds=1, summary_threshold=1))
    second = Context(task_id="two", config=first.config, knowledge=first.knowledge)
    history: list[Message] = [UserMessage(content="zebra"), AssistantMessage(content="ok")] * 2
    await second.start_run(agent_name="a", input="x", history=history, provider=None)
    assert await first.knowledge.search("zebra") == []
    assert await second.archive.search("zebra")
