import sys
import textwrap
from pathlib import Path

import pytest
import yaml  # noqa: F401 - else it would be one of the modules that `here` forgets

from orbiter import Agent, Swarm, run
from orbiter.cli.agent.loading import load_agent
from orbiter.cli.agent.objects import AgentFileError
from orbiter.cli.ui.outcome import UsageError
from orbiter.models import ScriptedModel, call


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with files; modules of it are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_yaml", ".yaml").replace(
                "_py", ".py"
            )
            path.parent.mkdir(exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return tmp_path

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


async def test_a_yaml_file_is_an_agent_with_its_tools_and_output(here):
    here(
        calc_py="""
        from pydantic import BaseModel
        from orbiter import tool
        class Sum(BaseModel):
            value: int
        @tool
        def add(a: int, b: int) -> int:
            "Add."
            return a + b
        def double(a: int) -> int:
            "Double."
            return 2 * a
        more = [double]
        """,
        calc_yaml="""
        name: calc
        model: openai:x
        instructions: Add up.
        tools: ["calc:add", "calc:more"]
        output_type: calc:Sum
        max_steps: 3
        temperature: 0.5
        """,
    )
    loaded = load_agent("calc.yaml")
    agent = loaded.target
    assert [tool.name for tool in agent.tools] == ["add", "double"]
    assert (agent.max_steps, agent.temperature, agent.instructions) == (3, 0.5, "Add up.")
    model = ScriptedModel(call("add", a=1, b=2), '{"value": 3}')
    async with loaded as target:
        assert (await run(target, "?", provider=model)).output.value == 3


async def test_an_answer_may_be_of_any_type_with_a_json_form(here):
    here(
        places_py="Cities = list[str]\n",
        cities_yaml="name: a\noutput_type: places:Cities\n",
    )
    async with load_agent("cities.yaml") as target:
        answer = '{"result": ["Oslo", "Bern"]}'
        assert (await run(target, "?", provider=ScriptedModel(answer))).output == ["Oslo", "Bern"]


def test_modules_a_file_names_are_found_beside_it(here):
    here(
        deep__beside_py="def hello() -> str:\n    'Greet.'\n    return 'hi'\n",
        deep__agent_yaml="name: a\ntools: ['beside:hello']\n",
    )
    assert load_agent("deep/agent.yaml").target.tools[0].name == "hello"


def test_handoffs_and_swarms_name_other_files(here):
    here(
        a_yaml="name: a\nhandoffs: [b.yaml]\n",
        b_yaml="name: b\n",
        swarm_yaml="agents: [a.yaml, {name: c}]\nflow: a >> c\n",
    )
    assert load_agent("a.yaml").target.handoffs[0].name == "b"
    swarm = load_agent("swarm.yaml").target
    assert isinstance(swarm, Swarm)
    assert str(swarm.flow) == "a >> c"


def test_python_gives_an_agent_or_a_function_that_makes_one(here):
    here(
        bots_py="""
        from orbiter import Agent
        agent = Agent(name="ready")
        def make():
            return Agent(name="made")
        """
    )
    assert load_agent("bots:agent").target.name == "ready"
    assert load_agent("bots:make").target.name == "made"


def test_another_model_can_take_the_place_of_all(here):
    here(a_yaml="name: a\nhandoffs: [b.yaml]\n", b_yaml="name: b\nmodel: openai:x\n")
    agent = load_agent("a.yaml", model="anthropic:y").target
    assert isinstance(agent, Agent)
    assert (agent.model, agent.handoffs[0].model) == ("anthropic:y", "anthropic:y")
    assert agent.config.model == "anthropic:y"


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("none.yaml", "none.yaml cannot be read: No such file"),
        ("broken.yaml", "broken.yaml is no YAML"),
        ("text.yaml", "describes no agent"),
        ("typo.yaml", "typo.yaml:2: instrutions: an agent has no such field; known: name"),
        ("hot.yaml", "hot.yaml:2: temperature: Input should be less than or equal to 2, not 9"),
        ("mute.yaml", "mute.yaml:2: max_tokens: Input should be greater than or equal to 1, not 0"),
        ("flow.yaml", "flow.yaml: flow, position 5: there is no agent 'x'"),
        ("loop.yaml", "hands off to itself"),
        ("nested.yaml", "nested.yaml: 'flat.yaml' is a Swarm; as a member of another it needs"),
        ("passes.yaml", "passes.yaml: 'flat.yaml' is a Swarm; only an Agent"),
        ("tool.yaml", "tool.yaml: 'lib:number' is no tool"),
        ("type.yaml", "type.yaml: Agent 'a': output_type= got 7 .int.: give the class"),
        ("nothing.yaml", "nothing.yaml: 'lib:nothing' is None, no type of an answer"),
        ("gone.yaml", "gone.yaml: 'nowhere:x': module nowhere cannot be imported"),
        ("built.yaml", "built.yaml: 'edit' is no built-in tool"),
        ("hands.yaml", "tool.yaml: 'lib:number' is no tool"),
        ("maker.yaml", "maker.yaml: agent 'a': unknown model provider 'acme'; known: anthropic,"),
        ("model.yaml", "model.yaml: agent 'a': 'openai:' is no model string"),
        ("servers.yaml", r"servers.yaml:2: mcpServer: an agent has .*; did you mean mcpServers\?"),
        ("snake.yaml", r"snake.yaml:2: mcp_server: an agent has .*; did you mean mcp_servers\?"),
        ("member.yaml", r"member.yaml:1: agents.0.mcpservers: .*; did you mean mcpServers\?"),
        (
            "never.yaml",
            "never.yaml:2: max_steps: Input should be greater than or equal to 1, not 0",
        ),
        ("less.yaml", "less.yaml:2: max_steps: Input should be greater than or equal to 1, not -3"),
        ("half.yaml", "half.yaml:2: max_steps: Input should be a valid integer.*, not 2.5"),
        ("agent", "'agent' is neither a .yaml file nor module:attr"),
        ("nowhere:x", "module nowhere cannot be imported: ModuleNotFoundError"),
        ("bad:x", "module bad cannot be imported: ZeroDivisionError"),
        ("lib:missing", "has no attribute 'missing'"),
        ("lib:number", "'lib:number' is a int, not an Agent or a Swarm"),
    ],
)
def test_what_cannot_be_loaded_is_told_by_its_name(here, reference, told):
    here(
        broken_yaml="name: [",
        text_yaml="hello",
        typo_yaml="name: a\ninstrutions: x\n",
        hot_yaml="name: a\ntemperature: 9\n",
        mute_yaml="name: a\nmax_tokens: 0\n",
        flow_yaml="agents: [{name: a}]\nflow: a >> x\n",
        loop_yaml="name: a\nhandoffs: [loop.yaml]\n",
        nested_yaml="agents: [flat.yaml]\n",
        passes_yaml="name: b\nhandoffs: [flat.yaml]\n",
        flat_yaml="agents: [{name: a}]\n",
        tool_yaml="name: a\ntools: ['lib:number']\n",
        type_yaml="name: a\noutput_type: lib:number\n",
        nothing_yaml="name: a\noutput_type: lib:nothing\n",
        gone_yaml="name: a\ntools: ['nowhere:x']\n",
        built_yaml="name: a\ntools: [edit]\n",
        hands_yaml="name: a\nhandoffs: [tool.yaml]\n",
        maker_yaml="name: a\nmodel: acme:x\n",
        model_yaml="name: a\nmodel: 'openai:'\n",
        servers_yaml="name: a\nmcpServer: {}\n",
        snake_yaml="name: a\nmcp_server: {}\n",
        member_yaml="agents: [{name: a, mcpservers: {}}]\n",
        never_yaml="name: a\nmax_steps: 0\n",
        less_yaml="name: a\nmax_steps: -3\n",
        half_yaml="name: a\nmax_steps: 2.5\n",
        lib_py="number = 7\nnothing = None\n",
        bad_py="1 / 0\n",
    )
    with pytest.raises(AgentFileError, match=told.replace("(", r"\(")) as caught:
        load_agent(reference)
    assert str(caught.value).count(".yaml: ") <= 1


async def test_a_server_of_a_file_that_cannot_be_used_is_told_by_file_and_key(here):
    here(a_yaml="name: a\nmcpServers:\n  files: {comand: npx}\n")
    with pytest.raises(AgentFileError) as caught:
        async with load_agent("a.yaml"):
            pass
    assert str(caught.value) == (
        f"{Path.cwd() / 'a.yaml'}: mcpServers, server 'files': there is no key `comand`; did you "
        "mean `command`?"
    )


def test_a_model_of_the_command_line_is_not_the_files_mistake(here):
    here(a_yaml="name: a\n")
    with pytest.raises(UsageError, match=r"^unknown model provider 'acme'"):
        load_agent("a.yaml", model="acme:x")


async def test_a_file_says_how_the_model_is_to_answer_and_what_the_agent_is_good_for(here):
    here(
        calc_yaml="""
        name: calc
        description: Adds up.
        retries: 0
        settings:
          top_p: 0.5
          stop: END
          reasoning_effort: low
          extra_headers: {x-team: sums}
        """
    )
    agent = load_agent("calc.yaml").target
    model = ScriptedModel("4")
    await run(agent, "2+2?", provider=model)
    assert (agent.description, agent.retries) == ("Adds up.", 0)
    assert model.requests[0].settings.given == {
        "top_p": 0.5,
        "stop": ("END",),
        "reasoning_effort": "low",
        "extra_headers": {"x-team": "sums"},
    }


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("{top_pp: 1}", "calc.yaml:3: settings.top_pp: settings have no such field; known: "),
        ("{top_pp: 1}", "did you mean top_p?"),
        ("{top_p: 2}", "calc.yaml:3: settings.top_p: "),
        ("{http_client: x}", "calc.yaml:3: settings.http_client: "),
        ("{thinking_budget: 1, reasoning_effort: low}", "not both"),
    ],
)
def test_a_mistake_in_settings_is_named_with_its_line(here, settings, told):
    here(calc_yaml=f"name: calc\nmodel: openai:x\nsettings: {settings}\n")
    with pytest.raises(UsageError) as refused:
        load_agent("calc.yaml")
    assert told in str(refused.value)


def test_a_temperature_is_given_once(here):
    here(calc_yaml="name: calc\ntemperature: 0.5\nsettings: {temperature: 0.2}\n")
    with pytest.raises(UsageError, match="give it once"):
        load_agent("calc.yaml")


def test_a_swarm_in_a_file_has_swarms_of_other_files(here):
    here(
        press_yaml="""
        name: press
        description: Writes articles.
        agents: [{name: writer}, {name: editor}]
        """,
        all_yaml="""
        agents: [{name: researcher}, press.yaml]
        flow: researcher >> press
        """,
    )
    swarm = load_agent("all.yaml").target
    assert str(swarm.flow) == "researcher >> press"
    press = swarm.agent("press")
    assert isinstance(press, Swarm)
    assert press.description == "Writes articles."
