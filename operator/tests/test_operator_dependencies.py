"""dependsOn: wait, go on, or never; and every way a circle can be drawn."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter_operator.tasks.observed import Dependencies
from orbiter_operator.tasks.plan.waiting import find_cycle, list_names, resolve


def judge(graph, phases, name="a"):
    """The verdict on `name` in a graph drawn as name → dependencies."""
    return resolve(name, phases.get, lambda item: graph.get(item, ()))


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ({"b": "Completed", "c": "Completed"}, Dependencies()),
        ({"b": "Completed", "c": "Running"}, Dependencies(waiting=("c",))),
        ({"b": "", "c": "InputRequired"}, Dependencies(waiting=("b", "c"))),
        ({"b": "Completed"}, Dependencies(missing=("c",))),
        ({"b": "Failed"}, Dependencies(failed="b")),
        ({"b": "Running", "c": "Cancelled"}, Dependencies(failed="c")),
    ],
)
def test_the_phases_of_the_dependencies_decide(phases, expected):
    assert judge({"a": ("b", "c")}, phases) == expected


def test_a_task_without_dependencies_waits_for_nothing():
    assert judge({}, {}) == Dependencies()


@pytest.mark.parametrize(
    ("graph", "cycle"),
    [
        ({"a": ("a",)}, ("a", "a")),
        ({"a": ("b",), "b": ("a",)}, ("a", "b", "a")),
        ({"a": ("b",), "b": ("c",), "c": ("a",)}, ("a", "b", "c", "a")),
        ({"a": ("x", "b"), "x": (), "b": ("a",)}, ("a", "b", "a")),
        ({"a": ("b",), "b": ("c",), "c": ("b",)}, ()),
        ({"a": ("b",), "b": ()}, ()),
    ],
)
def test_a_circle_through_the_task_is_found_and_named(graph, cycle):
    assert find_cycle("a", lambda name: graph.get(name, ())) == cycle


def test_a_circle_that_does_not_hold_the_task_is_somebody_elses():
    graph = {"a": ("b",), "b": ("c",), "c": ("b",)}
    assert judge(graph, {"b": "Failed", "c": "Failed"}).failed == "b"


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=4)))
def test_what_is_called_a_cycle_is_one(graph):
    cycle = find_cycle("a", lambda name: graph.get(name, ()))
    if cycle:
        assert cycle[0] == cycle[-1] == "a"
        assert all(after in graph[before] for before, after in pairwise(cycle))


def test_a_long_list_of_names_is_cut():
    assert list_names(["a"]) == "a"
    assert list_names(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_a_cycle_is_looked_for_in_bounds():
    asked = []

    def edges(name):
        asked.append(name)
        number = int(name)
        return [str(number * 64 + child) for child in range(1, 65)]

    assert find_cycle("0", edges) == ()
    assert len(asked) <= 5_000 / 64 + 1


def test_a_cycle_of_two_is_found_however_many_each_depends_on():
    def edges(name):
        number = int(name)
        return [*map(str, range(100, 163)), "0"] if number == 64 else list(map(str, range(1, 65)))

    assert find_cycle("0", edges) == ("0", "64", "0")
