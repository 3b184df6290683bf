"""What a new session is told of the one it continues, and how alike two texts are."""

from datetime import UTC, datetime

from orbiter_contracts import POTurn
from worker_wrapper.agents.base import Session
from worker_wrapper.session.embedding import HashEmbedder, similarities
from worker_wrapper.session.recap import (
    SUMMARY_CHARACTERS,
    find_relevant,
    recap,
    summarize,
    thread_of,
)
from worker_wrapper.session.rotation import outgrown
from worker_wrapper.settings import RotationRules

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
EMBEDDER = HashEmbedder()
LOGIN = "How do I fix the login page of our shop? It shows an error after the password."
ANSWER = "I looked at login.py: the session cookie is not set after the password check."


def turn(
    prompt: str, text: str = "Fine.", *, session: str = "s-1", user: int = 7, thread: str = ""
) -> POTurn:
    return POTurn(
        request_id="r",
        user_id=user,
        session_id=session,
        thread=thread or None,
        at=NOW,
        prompt=prompt,
        text=text,
        status="success",
    )


async def recap_of(*turns: POTurn, message: str = "go on", thread: str = "s-1") -> str:
    return await recap(turns, thread=thread, user_id=7, message=message, embedder=EMBEDDER)


async def test_a_recap_says_who_said_what_and_ends_before_the_message() -> None:
    text = await recap_of(turn("My name is Ada.", "Hello Ada."), turn("And now?", "Now we wait."))
    assert text.startswith("<earlier_conversation>\n")
    assert "User: My name is Ada.\nYou: Hello Ada.\nUser: And now?\nYou: Now we wait." in text
    assert text.endswith("</earlier_conversation>\n\n")


async def test_without_turns_there_is_nothing_to_say() -> None:
    assert await recap_of() == ""


async def test_only_the_users_own_words_and_only_this_conversation_are_told() -> None:
    text = await recap_of(
        turn("mine"), turn("another user's", user=8), turn("about cats", session="s-0")
    )
    assert "mine" in text
    assert "another user's" not in text
    assert "cats" not in text


async def test_what_is_relevant_comes_from_older_conversations_too_and_is_quoted_at_length() -> (
    None
):
    details = "x " * 300 + "the cookie is called shop_session"
    old = turn(LOGIN, f"{ANSWER} {details}", session="s-0")
    text = await recap_of(old, turn("hello"), message="What was the name of the login cookie?")
    assert "may matter for the message below:\nUser: How do I fix the login" in text


def test_a_long_conversation_is_told_by_its_beginning_and_its_end() -> None:
    lines = summarize([turn(f"question {n} " + "word " * 90) for n in range(100)])
    assert lines[0].startswith("User: question 0 ")
    assert "messages left out" in lines[1]
    assert lines[-1].startswith("User: question 99 ")
    assert sum(map(len, lines)) < SUMMARY_CHARACTERS + 100


def test_a_long_answer_is_told_by_its_first_and_last_sentence() -> None:
    (line,) = summarize([turn("why?", "It is so. " + "Because of this. " * 100 + "So be it.")])
    assert line == "User: why?\nYou: It is so. … So be it."


def test_the_same_turns_are_always_told_the_same_way() -> None:
    turns = [turn(f"question {n} " + "word " * 90) for n in range(50)]
    assert summarize(turns) == summarize(turns)


async def test_what_has_nothing_to_do_with_the_message_is_not_relevant() -> None:
    assert await find_relevant([turn(LOGIN, ANSWER)], "a vegetarian lasagna recipe", EMBEDDER) == []


def test_sessions_in_turn_make_one_conversation() -> None:
    turns = [turn("a"), turn("b", session="s-2", thread="s-1")]
    assert thread_of(turns, "s-2") == "s-1"
    assert thread_of(turns, "s-1") == "s-1"
    assert thread_of(turns, "s-9") == "s-9"


async def test_texts_on_one_topic_are_more_alike_than_others() -> None:
    same = ["Does the login now work with a wrong password?", "Add a test for the password check"]
    other = ["Recommend a recipe for a vegetarian lasagna", "What is the weather in Lisbon?"]
    near = await similarities(EMBEDDER, f"{LOGIN}\n{ANSWER}", same)
    far = await similarities(EMBEDDER, f"{LOGIN}\n{ANSWER}", other)
    assert min(near) > 0.2 > 0.05 > max(far)


async def reason(message: str, *, tokens: int | None = 10, similarity: float | None = None) -> str:
    rules = RotationRules(max_tokens=1000, topic_similarity=similarity)
    session = Session("s-1", context_tokens=tokens)
    return str(await outgrown(rules, session, message, [turn(LOGIN, ANSWER)], EMBEDDER))


async def test_a_conversation_larger_than_the_limit_goes_on_in_a_new_session() -> None:
    assert await reason("go on", tokens=1000) == "None"
    assert await reason("go on", tokens=1001) == "Tokens"
    assert await reason("go on", tokens=None) == "None"


async def test_another_topic_is_a_new_session_only_where_that_is_wanted() -> None:
    lasagna = "Recommend a recipe for a vegetarian lasagna"
    assert await reason(lasagna, similarity=0.05) == "Topic"
    assert await reason(lasagna) == "None"
    assert await reason("Add a test for the password check", similarity=0.05) == "None"


async def test_a_few_words_are_no_topic() -> None:
    assert await reason("yes, please do that", similarity=0.9) == "None"
