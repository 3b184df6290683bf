import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter._internal.graph import Flow, FlowError, Parallel, Sequence, Step, parse_flow, steps
from orbiter.types import OrbiterError

NAMES = list("abcdefgh")


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    """Any flow over distinct names."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    return build(draw, names, allow_sequence=True)


def build(draw: st.DrawFn, names: list[str], *, allow_sequence: bool) -> Flow:
    if len(names) == 1:
        return Step(names[0])
    cut = draw(st.integers(1, len(names) - 1))
    parts = (names[:cut], names[cut:])
    if allow_sequence and draw(st.booleans()):
        return Sequence(tuple(build(draw, part, allow_sequence=False) for part in parts))
    return Parallel(tuple(build(draw, part, allow_sequence=True) for part in parts))


@given(flows())
def test_a_printed_flow_is_parsed_to_itself(flow):
    assert parse_flow(str(flow), NAMES) == flow


@given(flows(), st.data())
def test_spaces_change_nothing(flow, data):
    space = st.sampled_from(["", " ", "  ", "\n"])
    text = "".join(
        data.draw(space) + part + data.draw(space)
        for part in str(flow).replace("(", " ( ").replace(")", " ) ").split()
    )
    assert parse_flow(text, NAMES) == flow


@given(st.text(alphabet="ab>|() x1\n", max_size=12))
def test_any_text_is_a_flow_or_an_error_with_a_position_in_it(text):
    try:
        outcome: Flow | FlowError = parse_flow(text, ["a", "b"])
    except FlowError as error:
        outcome = error
    if isinstance(outcome, FlowError):
        assert 0 <= outcome.position <= len(text)
    else:
        assert parse_flow(str(outcome), ["a", "b"]) == outcome


def test_agents_stand_in_the_order_they_are_written():
    flow = parse_flow("a >> (b >> c | d) >> e", NAMES)
    assert [step.name for step in steps(flow)] == list("abcde")


def test_superfluous_parentheses_mean_nothing():
    assert parse_flow("((a)) >> (b >> c)", NAMES) == parse_flow("a >> b >> c", NAMES)


def test_names_may_hold_hyphens_underscores_and_digits():
    known = ["fact-checker", "writer_2"]
    assert str(parse_flow("fact-checker>>writer_2", known)) == "fact-checker >> writer_2"


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "expected an agent's name or '(', found the end"),
        ("a >>", 4, "expected an agent's name or '(', found the end"),
        (">> a", 0, "found '>>'"),
        ("a >> >> b", 5, "found '>>'"),
        ("a b", 2, "expected '>>' or the end, found 'b'"),
        ("a | b", 2, "put parallel agents in parentheses"),
        ("a >> (b | c", 11, "expected '>>', '|' or ')' for the '(' at 5, found the end"),
        ("a >> ()", 6, "found ')'"),
        ("a)", 1, "found ')'"),
        ("a > b", 2, "unexpected '>'"),
        ("a >> writer!", 11, "unexpected '!'"),
        ("a >> z", 5, "there is no agent 'z'; agents: a, b, c"),
        ("a >> b >> a", 10, "'a' stands here for the second time"),
    ],
)
def test_an_error_says_what_is_wrong_and_shows_where(text, position, problem):
    known = ["a", "b", "c", "writer"] if "writer" in text else ["a", "b", "c"]
    with pytest.raises(FlowError) as caught:
        parse_flow(text, known)
    assert isinstance(caught.value, OrbiterError)
    assert caught.value.position == position
    first, shown, arrow = str(caught.value).split("\n")
    assert problem in first
    assert (shown, arrow) == (f"  {text}", "  " + " " * position + "^")
