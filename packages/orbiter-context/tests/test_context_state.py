from collections import ChainMap
from collections.abc import MutableMapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter.context import ContextState


def test_get_searches_here_then_the_parents() -> None:
    grandparent = ContextState({"a": 1, "b": 1})
    child = ContextState({"b": 3}, parent=ContextState({"b": 2, "c": 2}, parent=grandparent))
    assert [child.get(key) for key in "abc"] == [1, 3, 2]
    assert child.get("missing") is None
    assert child.get("missing", 7) == 7


def test_set_writes_here_only() -> None:
    parent = ContextState({"key": "parent's"})
    child = ContextState(parent=parent)
    child.set("key", "child's")
    assert (parent["key"], child["key"]) == ("parent's", "child's")
    assert child.local_dict() == {"key": "child's"}


def test_a_value_of_none_hides_the_parents() -> None:
    child = ContextState({"key": None}, parent=ContextState({"key": 1}))
    assert child.get("key", "default") is None


def test_later_writes_of_the_parent_show_in_the_child() -> None:
    parent = ContextState()
    child = ContextState(parent=parent)
    parent.set("late", True)
    assert child["late"] is True


def test_to_dict_is_the_flattened_view_and_a_copy() -> None:
    child = ContextState({"b": 2}, parent=ContextState({"a": 1, "b": 1}))
    flat = child.to_dict()
    assert flat == {"a": 1, "b": 2}
    flat["a"] = 9
    assert child["a"] == 1


def test_the_initial_mapping_is_copied() -> None:
    initial = {"a": 1}
    state = ContextState(initial)
    initial["a"] = 2
    assert state["a"] == 1


def test_a_missing_key_is_named() -> None:
    with pytest.raises(KeyError, match="nobody"):
        ContextState({"a": 1})["nobody"]


def test_deleting_shows_the_inherited_value_again() -> None:
    child = ContextState({"key": 2}, parent=ContextState({"key": 1}))
    child.delete("key")
    assert child["key"] == 1
    with pytest.raises(KeyError, match="key"):
        child.delete("key")
    with pytest.raises(KeyError, match="key"):
        del child["key"]


def test_pop_takes_only_what_is_set_here() -> None:
    child = ContextState({"own": 1}, parent=ContextState({"inherited": 2}))
    assert child.pop("own") == 1
    assert child.pop("inherited", "default") == "default"
    with pytest.raises(KeyError, match="inherited"):
        child.pop("inherited")
    assert child["inherited"] == 2


def test_clear_leaves_what_is_inherited() -> None:
    child = ContextState({"own": 1}, parent=ContextState({"inherited": 2}))
    child.clear()
    assert child.to_dict() == {"inherited": 2}


def test_update_takes_mappings_states_keywords_and_nothing() -> None:
    state = ContextState()
    state.update()
    state.update(None)
    state.update({"a": 1}, b=2)
    state.update(ContextState({"c": 3}, parent=ContextState({"d": 4})))
    assert state.local_dict() == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_truth_says_whether_anything_can_be_read() -> None:
    assert not ContextState()
    assert ContextState({"a": 1})
    assert ContextState(parent=ContextState({"a": 1}))
    assert not ContextState(parent=ContextState())


def test_parent_is_the_state_inherited_from() -> None:
    parent = ContextState()
    assert ContextState(parent=parent).parent is parent
    assert parent.parent is None


KEYS = st.sampled_from("abcd")
LAYERS = st.lists(st.dictionaries(KEYS, st.integers()), min_size=1, max_size=4)
STEPS = st.lists(st.tuples(st.sampled_from(["set", "del", "pop"]), KEYS, st.integers()))


@given(LAYERS, STEPS)
def test_a_state_behaves_like_a_chain_of_dicts(
    layers: list[dict[str, int]], steps: list[tuple[str, str, int]]
) -> None:
    chain: ChainMap[str, Any] = ChainMap(*[dict(layer) for layer in layers])
    state: ContextState | None = None
    for layer in reversed(layers):
        state = ContextState(layer, parent=state)
    assert state is not None
    for action, key, value in steps:
        if action == "set":
            chain[key] = value
            state[key] = value
        elif action == "del":
            assert deletes(chain, key) == deletes(state, key)
        else:
            assert state.pop(key, "none") == chain.maps[0].pop(key, "none")
    assert state.to_dict() == dict(chain)
    assert state.local_dict() == chain.maps[0]
    assert len(state) == len(chain)
    assert bool(state) == bool(chain)
    assert list(state) == list(chain)
    assert dict(state.items()) == dict(chain)
    assert all((key in state) == (key in chain) for key in "abcde")


def deletes(mapping: MutableMapping[str, Any], key: str) -> bool:
    try:
        del mapping[key]
    except KeyError:
        return False
    return True
