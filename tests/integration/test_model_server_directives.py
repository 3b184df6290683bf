import pytest
from model_server import directives as d


def test_a_prompt_without_directives_has_no_steps() -> None:
    assert d.parse("Please fix the login. a[[1, 2]] and [[ -f x ]] are no directives.") == ()


def test_directives_are_steps_in_the_order_of_the_prompt() -> None:
    prompt = "Do this:\n[[say: hello]]\n[[bash: ls -l]]\n[[result]]"
    assert d.parse(prompt) == (d.Say("hello"), d.Shell("ls -l"), d.Result(None))


def test_several_directives_may_share_a_line() -> None:
    assert d.parse("First [[say: a]] [[say: b]]") == (d.Say("a"), d.Say("b"))


def test_a_body_may_contain_double_brackets() -> None:
    command = "if [[ -f x ]]; then echo y; fi"
    assert d.parse(f"[[bash: {command}]]") == (d.Shell(command),)


def test_a_body_may_span_lines() -> None:
    assert d.parse("[[bash: cat <<E\nhello\nE\n]]") == (d.Shell("cat <<E\nhello\nE"),)


def test_json_bodies_are_kept_verbatim() -> None:
    body = '{"status": "success", "data": {"rows": [[1], [2]]}}'
    assert d.parse(f"[[result: {body}]]") == (d.Result(body),)


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("[[status: 429 x2]]", d.Status(429, 2)),
        ("[[status: 401]]", d.Status(401, None)),
        ("[[hang]]", d.Hang(None)),
        ("[[hang: 5s]]", d.Hang(5.0)),
        ("[[hang 5s]]", d.Hang(5.0)),
        ("[[stream: 10 chunks]]", d.Stream(10, 0.0)),
        ("[[stream: 10 chunks over 2.5s]]", d.Stream(10, 2.5)),
        ("[[usage: 1000 in, 200 out]]", d.Usage(1000, 200)),
        ("[[remember: it is blue]]", d.Remember("it is blue")),
        ("[[recall]]", d.Recall()),
        ('[[tool: Write {"file_path": "/x"}]]', d.Tool("Write", {"file_path": "/x"})),
    ],
)
def test_every_directive_has_its_form(text: str, step: d.Step) -> None:
    assert d.parse(text) == (step,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[sing: a song]]", r"unknown directive \[\[sing\]\]; known: say, bash"),
        ("[[status: soon]]", r"\[\[status: soon\]\] is not understood; .* \[\[status: 429 x2\]\]"),
        ("[[tool: Write {]]", "the arguments are no JSON"),
        ("[[tool: Write [1]]]", "must be a JSON object"),
        ("[[say: hello", r"\[\[say .* is not closed"),
        ("[[say: hello]] please\n[[bash: ls]]", "is not closed"),
    ],
)
def test_what_is_not_understood_is_named(text: str, message: str) -> None:
    with pytest.raises(d.DirectiveError, match=message):
        d.parse(text)


def test_sections_choose_the_steps_of_an_attempt() -> None:
    steps = d.parse("[[say: always]] [[attempt: 1]] [[status: 400]] [[attempt: 2]] [[say: now]]")
    assert d.of_attempt(steps, 1) == (d.Say("always"), d.Status(400, None))
    assert d.of_attempt(steps, 2) == (d.Say("always"), d.Say("now"))
    assert d.of_attempt(steps, 7) == (d.Say("always"), d.Say("now"))
