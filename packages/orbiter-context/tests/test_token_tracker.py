from orbiter.context import TokenTracker, token_count


def test_usage_adds_up_in_the_providers_words() -> None:
    tracker = TokenTracker()
    tracker.record("a", 1000, 400)
    tracker.record("b", 200, 50)
    assert tracker.usage == {
        "prompt_tokens": 1200,
        "completion_tokens": 450,
        "total_tokens": 1650,
    }


def test_nothing_used_is_zero() -> None:
    assert TokenTracker().usage == {
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "total_tokens": 0,
    }


def test_a_trajectory_has_one_step_per_call_of_its_agent() -> None:
    tracker = TokenTracker()
    tracker.record("a", 10, 1)
    tracker.record("b", 99, 9)
    tracker.record("a", 20, 2)
    trajectory = tracker.trajectory("a")
    assert [(s.step, s.prompt_tokens, s.output_tokens) for s in trajectory.steps] == [
        (1, 10, 1),
        (2, 20, 2),
    ]
    assert trajectory.total_tokens == 33


def test_an_agent_that_has_not_run_has_no_steps() -> None:
    assert TokenTracker().trajectory("nobody").steps == []


def test_merging_counts_only_what_is_new() -> None:
    parent, child = TokenTracker(), TokenTracker()
    parent.record("a", 100, 10)
    child.record("b", 50, 5)
    parent.merge(child)
    parent.merge(child)
    assert parent.usage["total_tokens"] == 165
    child.record("b", 7, 0)
    parent.merge(child)
    assert parent.usage["total_tokens"] == 172
    assert len(parent.trajectory("b").steps) == 2


def test_a_log_taken_earlier_does_not_grow() -> None:
    tracker = TokenTracker()
    tracker.record("a", 1, 2)
    logs = tracker.logs()
    tracker.record("a", 3, 4)
    assert logs["a"].numbers() == [1, 2]
    assert TokenTracker(logs).usage["total_tokens"] == 3


def test_counting_is_near_for_english_and_chinese() -> None:
    assert token_count("") == 0
    assert token_count("a") == 1
    assert token_count("word " * 100) == 125
    assert 95 <= token_count("你" * 100) <= 105
    assert 45 <= token_count("д" * 100) <= 75
    mixed = "plain text, mostly; and one é at the end of a line of text, so what é"
    assert len(mixed) // 4 <= token_count(mixed) <= len(mixed) // 3
