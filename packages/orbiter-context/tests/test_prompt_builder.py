import pytest

from orbiter.context import Context, ContextError, Neuron, PromptBuilder, neuron_registry
from orbiter.registry import RegistryError


async def test_parts_stand_in_the_order_of_priorities_not_of_adding() -> None:
    ctx = Context(task_id="task-1")
    ctx.state.set("todos", [{"item": "read", "done": False}])
    ctx.state.set("skills", ["search"])
    builder = PromptBuilder(ctx)
    for name in ("system", "skills", "todo", "task"):
        builder.add(name)
    prompt = await builder.build()
    places = [prompt.index(title) for title in ("## Task", "## Todo", "## Skills", "## System")]
    assert places == sorted(places)


async def test_text_stands_before_what_the_neuron_says() -> None:
    builder = PromptBuilder(Context(task_id="t"))
    builder.add("system", "You are a helpful assistant.")
    prompt = await builder.build()
    assert prompt.startswith("You are a helpful assistant.\n\n## System\nDate: ")


async def test_text_under_an_own_name_comes_first_unless_it_has_a_priority() -> None:
    builder = PromptBuilder(Context(task_id="t"))
    builder.add("task").add("rules", "Be brief.").add("end", "The end.", priority=999)
    assert await builder.build() == "Be brief.\n\n## Task\nTask ID: t\n\nThe end."


async def test_parts_with_nothing_to_say_leave_no_gap() -> None:
    builder = PromptBuilder(Context(task_id="t"))
    for name in ("history", "knowledge", "workspace", "todo", "skills", "facts", "entities"):
        builder.add(name)
    assert await builder.build() == ""


async def test_options_reach_the_neuron() -> None:
    ctx = Context(task_id="t")
    await ctx.knowledge.add("physics.md", content="Quantum computing uses qubits.")
    await ctx.knowledge.add("food.md", content="Garlic goes with butter.")
    builder = PromptBuilder(ctx).add("knowledge", query="quantum computing")
    prompt = await builder.build()
    assert "[physics.md] Quantum computing uses qubits." in prompt
    assert "Garlic" not in prompt


async def test_equal_priorities_keep_the_order_of_adding() -> None:
    builder = PromptBuilder(Context(task_id="t"))
    builder.add("a", "first").add("b", "second").add("c", "third")
    assert await builder.build() == "first\n\nsecond\n\nthird"


def test_an_unknown_neuron_is_named_with_the_known_ones() -> None:
    with pytest.raises(RegistryError, match=r"'knowlege'; known: .*knowledge"):
        PromptBuilder(Context(task_id="t")).add("knowlege")


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(ContextError, match=r"'knowledge'.*querry"):
        PromptBuilder(Context(task_id="t")).add("knowledge", querry="x")


async def test_a_builder_may_be_built_again_and_sees_what_changed() -> None:
    ctx = Context(task_id="t")
    builder = PromptBuilder(ctx).add("skills")
    assert await builder.build() == ""
    ctx.state.set("skills", {"search": "finds pages"})
    assert await builder.build() == "## Skills\n- search: finds pages"


async def test_a_neuron_of_ones_own_joins_by_its_priority() -> None:
    class Between(Neuron):
        priority = 15

        async def format(self, ctx: Context) -> str:
            return f"Domain: {ctx.state.get('domain')}"

    neuron_registry.register("between", Between)
    try:
        ctx = Context(task_id="t")
        ctx.state.update(domain="physics", skills=["x"])
        built = await PromptBuilder(ctx).add("skills").add("between").add("task").build()
        assert built == "## Task\nTask ID: t\n\nDomain: physics\n\n## Skills\n- x"
    finally:
        neuron_registry.unregister("between")
