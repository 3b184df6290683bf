"""The feature table of README: what users ask for, and which of our tests says that we have it.

`make check-peers` asks Orbiter and the four others with the same probes, and writes the answers to
bench/features.json; the table is made of that.
"""

from dataclasses import dataclass

CORE = "packages/orbiter-core/tests"
MCP = "packages/orbiter-mcp/tests"
MODELS = "packages/orbiter-models/tests"
TRACE = "packages/orbiter-trace/tests"


@dataclass(frozen=True)
class Feature:
    """One row.

    Attributes:
        probe: The function of `probes`, of its `Adapter`, or of `kept_probes`, that asks.
        what: The row's words.
        test: Our test, as a path and a name; empty where we do not have it.
    """

    probe: str
    what: str
    test: str = ""


FEATURES = (
    Feature(
        "typed_list",
        "a typed answer may be a list of models",
        f"{CORE}/test_output_types.py::test_what_is_no_object_is_wrapped_in_one_field",
    ),
    Feature(
        "answer_retried",
        "a typed answer that does not fit goes back to the model",
        f"{CORE}/test_runner.py::test_an_answer_that_does_not_fit_is_sent_back_for_correction",
    ),
    Feature(
        "tool_exception_told",
        "what a tool's exception says is told to the model, unasked",
        f"{CORE}/test_tool.py::test_a_raising_tool_becomes_an_error_and_its_sisters_go_on",
    ),
    Feature(
        "bad_arguments_told",
        "arguments that do not fit are told to the model",
        f"{CORE}/test_tool.py::test_arguments_that_do_not_fit_become_an_error_the_model_sees",
    ),
    Feature(
        "unknown_tool_told",
        "a call of a tool that is not there is told to the model",
        f"{CORE}/test_tool.py::test_an_unknown_tool_becomes_an_error_that_lists_the_known_ones",
    ),
    Feature(
        "tools_at_once",
        "the tools of one answer run at the same time",
        f"{CORE}/test_tool.py::test_several_calls_of_one_step_run_at_the_same_time",
    ),
    Feature(
        "tools_in_threads",
        "a tool that is not async does not hold up the event loop",
        f"{CORE}/test_tool.py"
        "::test_a_sync_function_runs_in_a_thread_with_the_callers_context_variables",
    ),
    Feature(
        "limit_is_a_result",
        "a run that meets its limit returns, and says so",
        f"{CORE}/test_runner.py::test_a_usage_limit_forbids_the_next_model_call",
    ),
    Feature(
        "leaving_stops",
        "leaving a stream stops its run",
        f"{CORE}/test_run_stream.py::test_leaving_the_loop_cancels_the_run",
    ),
    Feature(
        "fallback",
        "another model answers when one is overloaded",
        f"{MODELS}/test_model_fallback.py::test_the_next_model_is_asked_when_one_is_not_available",
    ),
    Feature(
        "token_rates",
        "tokens a minute are limited, for all agents together",
        f"{MODELS}/test_model_limits.py"
        "::test_tokens_are_estimated_before_a_call_and_put_right_after_it",
    ),
    Feature(
        "approved_days_later",
        "a call waits for a person, and another process goes on days later",
        f"{CORE}/test_approval_runs.py::test_another_process_goes_on_days_later",
    ),
    Feature(
        "killed_within_a_tool",
        "a run goes on after `kill -9` within a tool",
        f"{CORE}/test_durable_kill.py::test_within_a_tool",
    ),
    Feature(
        "elicitation_pauses",
        "an MCP server's question ends the run, which goes on with the answer",
        f"{MCP}/test_mcp_elicitation.py"
        "::test_the_run_pauses_and_the_call_is_made_again_with_the_answer",
    ),
    Feature(
        "handoff",
        "an agent names those it may hand the conversation to",
        f"{CORE}/test_swarm.py::test_in_handoff_mode_every_member_can_transfer_to_every_other",
    ),
    Feature(
        "side_by_side",
        "steps side by side, and one that gets what all of them found",
        f"{CORE}/test_swarm.py::test_branches_run_at_the_same_time_and_both_outputs_reach_the_next",
    ),
    Feature(
        "spans_of_its_own",
        "OpenTelemetry spans",
        f"{TRACE}/test_trace_runs.py"
        "::test_a_run_is_a_tree_of_run_agent_steps_model_calls_and_tools",
    ),
    Feature(
        "scripted_model",
        "a scripted model for tests, which calls tools",
        f"{MODELS}/test_model_scripted.py::test_replies_are_given_in_order",
    ),
    Feature(
        "forbids_real_calls",
        "calls of real models can be forbidden in tests",
        f"{MODELS}/test_model_provider.py::test_a_real_model_is_not_called_while_that_is_forbidden",
    ),
    Feature("cycles", "graphs of nodes of one's own, with cycles"),
    Feature("speech", "speech in real time"),
)
