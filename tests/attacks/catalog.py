"""All attacks, and those that other tests try."""

from attacks import (
    agent_attacks,
    door_attacks,
    hostile_attacks,
    queue_attacks,
    redis_attacks,
    tenant_attacks,
)
from attacks.table import Attack

ATTACKS: tuple[Attack, ...] = (
    *tenant_attacks.ATTACKS,
    *redis_attacks.ATTACKS,
    *queue_attacks.ATTACKS,
    *door_attacks.ATTACKS,
    *agent_attacks.ATTACKS,
    *hostile_attacks.ATTACKS,
)

_E2E, _CLONE = "tests/e2e/test_e2e_", "wrapper/tests/test_wrapper_git_containers.py::test_"
_SKILLS = "wrapper/tests/test_wrapper_skills.py::test_"
_COURIER = "triggers/tests/test_triggers_courier_"
_RECEIVER = "triggers/tests/test_triggers_receiver.py::test_"
_GREEDY = "packages/orbiter-server/tests/test_server_greedy.py::test_"
_MCP = "packages/orbiter-server/tests/test_server_mcp.py::test_"
_CLIENT = "packages/orbiter-client/tests/test_client_hostile.py::test_"
_KEEPING = "wrapper/tests/test_wrapper_keeping.py::test_"
_DISRUPTION = "wrapper/tests/test_wrapper_disruption.py::test_"
ELSEWHERE: tuple[tuple[str, str, str], ...] = (
    (
        "every field of a pod that is not on the list, without the policy",
        f"{_E2E}pod_template.py::test_without_the_policy_the_operator_refuses_each_of_them",
        "it takes the policy off the whole cluster",
    ),
    (
        "the metadata address, and other pods from a worker's network",
        f"{_E2E}network.py::test_a_worker_reaches_dns_redis_and_https_and_nothing_else",
        "it needs addresses that the cluster of tests has only for it",
    ),
    (
        "calls a worker",
        f"{_E2E}network.py::test_nobody_calls_a_worker",
        "the worker has to listen, as A's does not",
    ),
    (
        "reaches Redis from a namespace that is no tenant's, and from a pod that is no worker",
        f"{_E2E}network.py::test_nobody_but_workers_of_tenants_reaches_redis",
        "B is a tenant, and who tries has to be in no tenant's namespace",
    ),
    (
        "waits in a workspace that tasks share for the git credential of another",
        f"{_E2E}shared_workspace.py::test_who_shares_a_workspace_gets_at_no_git_credential",
        "both are of one namespace, whose administrator has them share a volume",
    ),
    (
        "searches its container for the git credential",
        f"{_E2E}git_credential.py::"
        "test_an_agent_that_searches_finds_no_credential_and_its_work_is_pushed",
        "it reads every file of a container, which takes long; its control is in the same file",
    ),
    (
        "searches its container for what opens the repository of a skill, and changes that one",
        f"{_E2E}profiles.py::test_an_agent_has_the_skill_of_a_repository_and_not_what_opens_it",
        "it looks at what is mounted beside it, and its control is that the skill is there",
    ),
    (
        "has a skill of a repository be a link to the node's or the container's files",
        f"{_SKILLS}a_link_is_refused_in_a_skill_in_its_place_and_on_the_way_to_it",
        "the repository is the test's, and so are names, submodules, filters and floods beside it",
    ),
    (
        "finds the worker's secrets in logs, events, status, processes",
        f"{_E2E}secrets.py::test_no_secret_in_logs_events_status_or_pods",
        "what is looked for is everywhere, and no single attempt",
    ),
    (
        "200 malformed entries and 60 hostile manifests while others work",
        f"{_E2E}storm.py::test_nobody_is_stopped_by_what_strangers_hand_in",
        "they come all at once",
    ),
    (
        "pushes to another branch, or by force",
        "wrapper/tests/test_wrapper_push.py::test_another_branch_or_force_cannot_even_be_asked_for",
        "there are no words for it: the test tries the connection itself, which no agent has",
    ),
    (
        "connects to who pushes",
        f"{_CLONE}an_agent_of_the_workers_user_finds_no_way_to_the_connection",
        "it looks in the moments before the agent starts, which a cluster does not give",
    ),
    (
        "forges the generation, the size or the kind of its own checkpoint",
        f"{_DISRUPTION}what_no_worker_has_written_is_said_and_the_next_checkpoint_takes_its_place",
        "it is B's own: nobody refuses it, and what it costs is B's",
    ),
    (
        "signals the worker again and again, for a run without limits",
        f"{_DISRUPTION}an_agent_that_signals_the_wrapper_again_and_again_gets_no_free_run",
        "it is about money: the test counts what a model was asked",
    ),
    (
        "plants pipes where a checkpoint is made, to outlive its own timeout",
        f"{_KEEPING}pipes_that_the_agent_plants_in_our_repository_hold_nobody_up",
        "it is a race of milliseconds: the test plants them between two commands",
    ),
    (
        "has a missing object fetched by a program of its own, beside the worker",
        f"{_KEEPING}no_object_that_is_missing_is_fetched_as_the_agent_says",
        "gits of today refuse it by a variable, which the test takes away",
    ),
    (
        "another session's every key, with rules and without",
        "operator/tests/test_operator_session_users.py::"
        "test_a_worker_gets_at_nothing_of_another_session_and_at_all_of_its_own",
        "here a victim has another namespace; there both sessions are of one",
    ),
    (
        "Jobs and pods that claim to be an attempt's or a session's, by owner and label",
        "operator/tests/test_operator_ownership.py::"
        "test_a_job_of_our_name_that_does_not_say_which_task_it_is_of_is_a_name_conflict",
        "a real API server's garbage collector deletes what a forged owner is said to own",
    ),
    (
        "two sessions of one worker's name",
        "operator/tests/test_operator_session_tenants.py::"
        "test_a_session_with_anothers_worker_id_is_refused_and_the_other_answers",
        "on keys without a prefix both may have it from before, which no new cluster has",
    ),
    (
        "a URL of Redis that names a pipe of the server's",
        "packages/orbiter-server/tests/test_server_foreign_redis.py::"
        "test_a_file_that_a_tenants_url_names_holds_nobody_up",
        "it holds up the whole server where nothing stops it",
    ),
    (
        "a Redis, or Sentinels, that answer without an end",
        "packages/orbiter-server/tests/test_server_foreign_redis.py::"
        "test_a_reply_without_an_end_is_given_up",
        "it fills the server's memory where nothing stops it",
    ),
    (
        "a name server that says nothing",
        "packages/orbiter-server/tests/test_server_foreign_redis.py::"
        "test_a_name_that_nobody_looks_up_in_time_keeps_no_thread_from_others",
        "it needs a domain of one's own",
    ),
    (
        "names of transcripts without end, and a million transcripts without an entry",
        "operator/tests/test_operator_transcripts.py::"
        "test_names_without_end_and_transcripts_without_entries_are_not_held",
        "it ends the operator of the cluster where nothing stops it",
    ),
    (
        "a flood of tokens that are nobody's, and of questions about rights",
        "packages/orbiter-server/tests/test_server_kubernetes_flood.py::"
        "test_tokens_that_are_nobodys_keep_nobody_waiting_who_is_known",
        "it holds up the whole server where nothing stops it",
    ),
    (
        "sees tasks of another team by the server",
        f"{_E2E}server_people.py::test_a_forged_name_or_namespace_is_refused",
        "it takes a server and people with tokens of their own",
    ),
    (
        "presents to the server a token that was not made for it",
        f"{_E2E}server_people.py::test_a_token_that_is_not_good_opens_nothing",
        "the same",
    ),
    (
        "answers a task's question, or cancels it, in another's name",
        f"{_E2E}audit.py::test_an_answer_and_a_cancellation_have_their_own_writers_name_or_none",
        "it takes people with names; its control is in the same test",
    ),
    (
        "says what only the cluster's profile may, in a profile that is kept for a task",
        "operator/tests/test_operator_cluster_profiles.py::"
        "test_what_the_operator_has_not_sealed_is_not_believed",
        "whoever may make ControllerRevisions is no party of these",
    ),
    (
        "a viewer who looks at all transcripts that the server can show",
        "packages/orbiter-server/tests/test_server_viewers.py::"
        "test_one_person_keeps_nobody_else_from_looking",
        "it holds up the whole server where nothing stops it",
    ),
    (
        "a call that hides from who approves it",
        "packages/orbiter-server/tests/test_server_browser_inbox.py::"
        "test_what_is_not_shown_whole_is_not_approved",
        "a person looks, in a browser",
    ),
    (
        "words that take a viewer's browser for ever to show",
        "packages/orbiter-server/tests/test_server_browser_hostile.py::"
        "test_a_text_that_takes_long_to_read_does_not_hold_up_the_page",
        "a person looks, in a browser",
    ),
    (
        "the containers, volumes and variables of the installation's own pod template",
        "operator/tests/test_operator_installation.py::"
        "test_what_is_the_installations_own_is_not_for_a_spec_to_change_or_to_use",
        "the cluster of tests has no such template",
    ),
    (
        "an archive that is a bomb, or writes elsewhere",
        "wrapper/tests/test_wrapper_archive_hostile.py::"
        "test_any_tree_is_packed_or_refused_and_restored_into_nothing_and_over_any_other",
        "hundreds of generated archives are restored, each in its own directory",
    ),
    (
        "answers another's question in a thread of GitHub's, without the right to write there",
        f"{_COURIER}threads.py::test_what_is_no_answer_of_somebody_who_may_write_answers_nothing",
        "the cluster of tests has no GitHub: the test brings a scripted one",
    ),
    (
        "approves a call from a thread",
        f"{_COURIER}threads.py::test_an_approval_is_never_taken_from_a_thread",
        "the same",
    ),
    (
        "writes a comment with the mark of Orbiter's own",
        f"{_COURIER}threads.py::test_a_comment_that_imitates_our_mark_is_not_taken_for_ours",
        "the same",
    ),
    (
        "names a repository of another namespace in a trigger",
        f"{_COURIER}poll.py::test_a_repository_that_is_not_the_namespaces_is_not_read",
        "the same",
    ),
    (
        "leads the courier to a private address: by a redirect",
        f"{_COURIER}client.py::test_a_redirect_is_not_followed_and_its_target_is_told_no_token",
        "the same",
    ),
    (
        "leads the courier to a private address: by a name",
        f"{_COURIER}client.py::test_a_name_that_leads_to_a_private_address_is_not_connected_to",
        "the same",
    ),
    (
        "leads the courier to a private address: by that of a receiver of notifications",
        "triggers/tests/test_triggers_notify.py::"
        "test_an_address_that_is_not_public_is_connected_to_by_no_name",
        "the receivers of the cluster of tests are at private addresses",
    ),
    (
        "many connections to the receiver that say nothing",
        f"{_RECEIVER}silent_connections_keep_nobody_out",
        "a forward to a pod does not carry as many: the test connects to the receiver itself",
    ),
    (
        "large events behind small ones, beyond what may wait",
        f"{_RECEIVER}small_events_hide_no_large_ones_behind_them",
        "it takes 32 MiB of Redis' memory: the test has a smaller bound",
    ),
    (
        "WebSockets, and event streams, without end",
        f"{_GREEDY}one_person_has_a_part_of_sockets_and_events_together",
        "it holds up the whole server where nothing stops it",
    ),
    (
        "requests whose bodies do not end",
        f"{_GREEDY}bodies_that_do_not_end_are_few_and_those_of_one_person_fewer",
        "the same",
    ),
    (
        "another one's idempotency key, replayed or forged",
        f"{_MCP}replayed_and_forged_calls_are_refused",
        "it is refused between people of one namespace, and B has another one",
    ),
    (
        "words of an agent that hide from an MCP client, or give it orders",
        f"{_MCP}what_agents_write_is_marked_bounded_and_hides_nothing",
        "nobody refuses them: they are shown as what they are",
    ),
    (
        "a session of MCP that is another one's",
        f"{_MCP}there_is_no_session_to_listen_to_or_to_end",
        "there are none: each request says whose it is",
    ),
    (
        "a Secret whose URL names a socket or a file of who reads it",
        f"{_CLIENT}a_secret_leads_to_no_file_and_no_socket_of_this_machine",
        "who is attacked sits at a machine of their own",
    ),
)
"""What is tried, the test that does, and why it is no row of the suite."""
