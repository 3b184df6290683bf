"""All attacks, and those that other tests try."""

from attacks import agent_attacks, queue_attacks, redis_attacks, tenant_attacks
from attacks.table import Attack

ATTACKS: tuple[Attack, ...] = (
    *tenant_attacks.ATTACKS,
    *redis_attacks.ATTACKS,
    *queue_attacks.ATTACKS,
    *agent_attacks.ATTACKS,
)

_E2E, _IMAGES = "tests/e2e/test_e2e_", "tests/integration/test_images_worker.py::test_"
_CLONE = "wrapper/tests/test_wrapper_git_containers.py::test_"
_WORKSPACE, _PUSH = (
    "wrapper/tests/test_wrapper_workspace.py::test_",
    "wrapper/tests/test_wrapper_push.py::test_",
)
ELSEWHERE: tuple[tuple[str, str], ...] = (
    (
        "every field of a pod that is not on the list, with the policy and without",
        f"{_E2E}pod_template.py::test_without_the_policy_the_operator_refuses_each_of_them",
    ),
    (
        "the metadata address, API server, kubelet and other pods from a worker's network",
        f"{_E2E}network.py::test_a_worker_reaches_dns_redis_and_https_and_nothing_else",
    ),
    ("calls a worker", f"{_E2E}network.py::test_nobody_calls_a_worker"),
    (
        "reaches Redis from a namespace that is no tenant's, and from a pod that is no worker",
        f"{_E2E}network.py::test_nobody_but_workers_of_tenants_reaches_redis",
    ),
    (
        "waits in a workspace that tasks share for the git credential of another",
        f"{_E2E}shared_workspace.py::test_who_shares_a_workspace_gets_at_no_git_credential",
    ),
    (
        "searches its container for the git credential",
        f"{_E2E}git_credential.py::"
        "test_an_agent_that_searches_finds_no_credential_and_its_work_is_pushed",
    ),
    (
        "finds the worker's secrets in logs, events, status, processes",
        f"{_E2E}secrets.py::test_no_secret_in_logs_events_status_or_pods",
    ),
    (
        "200 malformed entries and 60 hostile manifests while others work",
        f"{_E2E}storm.py::test_nobody_is_stopped_by_what_strangers_hand_in",
    ),
    (
        "a repository with hooks, filters and aliases where the credential is",
        f"{_CLONE}a_hostile_repository_runs_nothing_where_the_credential_is",
    ),
    (
        "the agent's git configuration, hooks and filters",
        f"{_WORKSPACE}nothing_that_the_agent_configured_is_run_or_followed",
    ),
    (
        "pushes to another branch, or by force",
        f"{_PUSH}another_branch_or_force_cannot_even_be_asked_for",
    ),
    (
        "connects to who pushes",
        f"{_CLONE}an_agent_of_the_workers_user_finds_no_way_to_the_connection",
    ),
    (
        "plants modules and ends the worker",
        f"{_IMAGES}an_agent_that_plants_code_and_ends_the_worker_finds_the_same_worker_again",
    ),
    (
        "forges the generation, the size or the kind of its own checkpoint",
        "wrapper/tests/test_wrapper_disruption.py::"
        "test_what_no_worker_has_written_is_said_and_the_next_checkpoint_takes_its_place",
    ),
    (
        "signals the worker again and again, for a run without limits",
        "wrapper/tests/test_wrapper_disruption.py::"
        "test_an_agent_that_signals_the_wrapper_again_and_again_gets_no_free_run",
    ),
    (
        "another session's every key, with rules and without",
        "operator/tests/test_operator_session_users.py::"
        "test_a_worker_gets_at_nothing_of_another_session_and_at_all_of_its_own",
    ),
    (
        "Jobs and pods that claim to be an attempt's or a session's",
        "operator/tests/test_operator_ownership.py::"
        "test_a_job_of_our_name_that_does_not_say_which_task_it_is_of_is_a_name_conflict",
    ),
    (
        "two sessions of one worker's name",
        "operator/tests/test_operator_session_tenants.py::"
        "test_a_session_with_anothers_worker_id_is_refused_and_the_other_answers",
    ),
    (
        "an archive that is a bomb, or writes elsewhere",
        "wrapper/tests/test_wrapper_archive_hostile.py::"
        "test_any_tree_is_packed_or_refused_and_restored_into_nothing_and_over_any_other",
    ),
)
"""What is tried, and the test that does."""
