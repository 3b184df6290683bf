import json
from math import inf

from model_server.conversation import Conversation, Turn
from model_server.journal import Journal
from model_server.script import Pause, Reply, Text, ToolCall, decide


def ask(*turns: Turn, session: str = "s", tools: tuple[str, ...] = ("Bash",)) -> Conversation:
    return Conversation(model="m", turns=turns, tools=tools, session=session)


def reply(prompt: str, *outputs: str) -> Reply:
    return decide(ask(Turn(prompt, outputs)), Journal())


def test_a_prompt_without_directives_is_answered_with_a_valid_result_block() -> None:
    text = reply("Write a poem").text
    block = text.partition("<result>")[2].partition("</result>")[0]
    assert json.loads(block)["status"] == "success"


def test_a_reply_runs_until_the_next_tool_call() -> None:
    prompt = "[[say: looking]] [[bash: ls]] [[say: found]]"
    assert [type(part) for part in reply(prompt).parts] == [Text, ToolCall]
    assert reply(prompt, "a.txt").text == "found"


def test_the_last_output_can_be_quoted() -> None:
    prompt = "[[bash: a]]\n[[bash: b]]\n[[say: {output}]]"
    assert reply(prompt, "one\n", "two\n").text == "two"


def test_a_quoted_output_is_escaped_inside_a_result() -> None:
    text = reply('[[bash: a]] [[result: {"summary": "{output}"}]]', 'say "hi"\nbye').text
    block = text.removeprefix("<result>").removesuffix("</result>")
    assert json.loads(block) == {"summary": 'say "hi"\nbye'}


def test_an_invalid_result_is_sent_as_it_is_written() -> None:
    assert reply("[[result: {oops]]").text == "<result>\n{oops\n</result>"


def test_a_script_that_ends_with_a_command_ends_with_its_output() -> None:
    assert reply("[[bash: date]]", "Sunday\n").text == "Sunday"


def test_the_shell_tool_is_the_one_the_agent_offers() -> None:
    conversation = ask(Turn("[[bash: ls]]"), tools=("apply_patch", "shell"))
    (call,) = decide(conversation, Journal()).parts
    assert call == ToolCall("shell", {"command": ["bash", "-c", "ls"]})


def test_without_a_shell_tool_the_model_says_so() -> None:
    assert "none of Bash" in decide(ask(Turn("[[bash: ls]]"), tools=()), Journal()).text


def test_a_counted_failure_ends_after_its_count() -> None:
    journal, conversation = Journal(), ask(Turn("[[status: 429 x2]] [[say: ok]]"))
    answers = [decide(conversation, journal) for _ in range(4)]
    assert [answer.error for answer in answers] == [429, 429, None, None]


def test_failures_are_counted_for_each_conversation() -> None:
    journal, prompt = Journal(), Turn("[[status: 429 x1]] [[say: ok]]")
    answers = [decide(ask(prompt, session=name), journal).error for name in "abab"]
    assert answers == [429, 429, None, None]


def test_a_failure_without_a_count_never_ends() -> None:
    journal, conversation = Journal(), ask(Turn("[[status: 401]]"))
    assert {decide(conversation, journal).error for _ in range(5)} == {401}


def test_a_second_conversation_with_the_same_prompt_is_the_second_attempt() -> None:
    journal, prompt = Journal(), Turn("[[attempt: 1]] [[status: 400]] [[attempt: 2]] [[say: ok]]")
    assert decide(ask(prompt, session="first"), journal).error == 400
    assert decide(ask(prompt, session="first"), journal).error == 400
    assert decide(ask(prompt, session="second"), journal).text == "ok"


def test_what_was_remembered_earlier_in_the_conversation_is_recalled() -> None:
    turns = (Turn("[[remember: red]]"), Turn("hello"), Turn("[[recall]]"))
    assert decide(ask(*turns), Journal()).text == "I remember: red"


def test_another_conversation_remembers_nothing() -> None:
    assert reply("[[recall]]").text == "I remember nothing."


def test_a_hanging_model_pauses_for_ever() -> None:
    assert Pause(inf) in reply("[[hang]]").parts


def test_a_streamed_text_is_cut_and_spread() -> None:
    parts = reply("[[stream: 4 chunks over 2s]] [[say: abcdefgh]]").parts
    assert [part.text for part in parts if isinstance(part, Text)] == ["ab", "cd", "ef", "gh"]
    assert sum(part.seconds for part in parts if isinstance(part, Pause)) == 2.0


def test_an_auxiliary_request_never_runs_the_script() -> None:
    turn = Turn("Write a title for: [[bash: rm -r /]]")
    conversation = Conversation(model="m", turns=(turn,), auxiliary=True)
    journal = Journal()
    assert json.loads(decide(conversation, journal).text) == {"title": "Scripted task"}
    assert journal.report()["prompts"] == []


def test_a_prompt_without_directives_follows_the_servers_own_script() -> None:
    script = "[[bash: echo 2]]\n[[result]]"
    (call,) = decide(ask(Turn("add 1 and 1", ())), Journal(), script).parts
    assert isinstance(call, ToolCall)
    assert decide(ask(Turn("[[say: mine]]", ())), Journal(), script).text == "mine"


def test_a_persistent_script_makes_a_call_again_that_was_cut_off() -> None:
    """Its outcome is unknown, and the model is told to look: to take it for done is wrong."""
    words = "[[bash: a]] [[bash: b]] [[say: {output}]]"
    cut = "[Tool call interrupted: the session ended before this call's result was recorded, so …]"
    script, on = Turn(f"[[persist]] {words}", ("one", cut)), Turn("You were interrupted: go on.")
    (call,) = decide(ask(script, on), Journal()).parts
    assert isinstance(call, ToolCall)
    assert "b" in str(call.arguments)
    (said,) = decide(ask(script, Turn(on.words, ("two",))), Journal()).parts
    assert said == Text("two")
    assert decide(ask(Turn(words, ("one", cut))), Journal()).text == cut


def test_a_persistent_script_goes_on_behind_an_interruption() -> None:
    script = Turn("[[persist]] [[bash: a]] [[bash: b]] [[say: {output}]]", ("one",))
    journal, told = Journal(), "Your work was interrupted"
    (call,) = decide(ask(script, Turn(told)), journal).parts
    assert isinstance(call, ToolCall)
    assert call.arguments["command"] == "b"  # type: ignore[index]
    assert decide(ask(script, Turn(told, ("two",))), journal).text == "two"
    (prompt,) = journal.report()["prompts"]  # type: ignore[misc]
    assert prompt["requests"] == 2


def test_another_script_ends_with_an_interruption() -> None:
    turns = (Turn("[[bash: a]] [[bash: b]]", ("one",)), Turn("Your work was interrupted"))
    assert decide(ask(*turns), Journal()).calls is False
