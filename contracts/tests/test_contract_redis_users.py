"""What each user of Redis may touch, asked of a real server: its own namespace and nothing else."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import NoPermissionError, ResponseError
from support.namespaced import Tenancy

from orbiter_contracts import redis_users
from orbiter_contracts.lease_scripts import TAKE
from orbiter_contracts.queues import Keys, dead_letter
from orbiter_contracts.transcript_scripts import APPEND

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("namespace", ["team-a"], indirect=True),
]

OURS, THEIRS, BARE = Keys.of_namespace("team-a"), Keys.of_namespace("team-b"), Keys()
NEARLY = Keys.of_namespace("team-ab")
WORKER, SESSION, CHAT, PRODUCER = "w:team-a", "s:team-a:alice", "c:team-a", "p:team-a"
READER = "t:team-a"
RECORD = OURS.session_record(7)
TRANSCRIPT = OURS.task_transcript("9f1c", 1)
ALMIGHTY = "almighty"
USERS = [WORKER, SESSION, CHAT, PRODUCER, READER]
OK = "OK"


def chat_rules(keys: Keys) -> redis_users.Rules:
    """What the chat front ends of `team-a` may, with these keys."""
    records = keys.session_records() if keys.prefix else keys.session_records("team-a")
    return redis_users.chat_rules(keys, "team-a", records)


@pytest.fixture
def users(tenancy: Tenancy) -> Tenancy:
    """A server with every kind of user, the functions, and one who may do everything."""
    tenancy.administer("FLUSHALL")
    tenancy.allow(redis_users.worker_user("team-a"), redis_users.worker_rules(OURS))
    tenancy.allow(
        redis_users.session_user("team-a", "alice"),
        redis_users.session_rules(OURS, "alice", RECORD),
    )
    tenancy.allow(redis_users.chat_user("team-a"), chat_rules(OURS))
    tenancy.allow(redis_users.producer_user("team-a"), redis_users.producer_rules(OURS))
    tenancy.allow(
        redis_users.transcript_user("team-a"), redis_users.transcript_rules(OURS, "team-a")
    )
    tenancy.allow(ALMIGHTY, ("~*", "&*", "+@all"))
    tenancy.load()
    return tenancy


def may(tenancy: Tenancy, user: str, *command: object) -> bool:
    """Whether a user may run a command, as the server says without running it."""
    return bool(tenancy.administer("ACL", "DRYRUN", user, *command) == OK)


WORK = [
    (WORKER, ("XREADGROUP", "GROUP", "g", "w", "STREAMS", OURS.developer_input, ">")),
    (WORKER, ("XADD", OURS.developer_output, "*", "data", "{}")),
    (WORKER, ("XADD", dead_letter(OURS.developer_input), "*", "data", "{}")),
    (WORKER, ("XADD", OURS.lifecycle, "*", "data", "{}")),
    (WORKER, ("SET", OURS.task_snapshot("9f1c"), "x")),
    (WORKER, ("FCALL", TAKE.function, 1, OURS.developer_lease("w-1"))),
    (WORKER, ("HGET", OURS.attempt_checkpoint("9f1c", 1), "1:session")),
    (WORKER, ("HSET", OURS.attempt_checkpoint("9f1c", 1), "1:session", "x")),
    (WORKER, ("HDEL", OURS.attempt_checkpoint("9f1c", 1), "1:session")),
    (WORKER, ("HKEYS", OURS.attempt_checkpoint("9f1c", 1))),
    (SESSION, ("XREADGROUP", "GROUP", "g", "w", "STREAMS", OURS.po_input("alice"), ">")),
    (SESSION, ("XADD", OURS.po_output("alice"), "*", "data", "{}")),
    (SESSION, ("SET", OURS.po_snapshot("alice"), "x")),
    (SESSION, ("SET", OURS.session_record(7), "x")),
    (CHAT, ("XADD", OURS.po_input("alice"), "*", "data", "{}")),
    (CHAT, ("XREAD", "STREAMS", OURS.po_output("bob"), "0")),
    (CHAT, ("WATCH", OURS.po_input("alice"))),
    (CHAT, ("WATCH", OURS.po_output("alice"))),
    (CHAT, ("XLEN", OURS.po_input("alice"))),
    (CHAT, ("HGETALL", OURS.po_state("alice"))),
    (CHAT, ("SET", OURS.session_record(9), "x")),
    (CHAT, ("HSET", OURS.session_record(9), "chat_id", "1")),
    (PRODUCER, ("XADD", OURS.developer_input, "*", "data", "{}")),
    (PRODUCER, ("XREAD", "STREAMS", OURS.developer_output, "0")),
    (PRODUCER, ("HGET", OURS.task_artifacts("9f1c", 1), "index")),
    (WORKER, ("HSET", OURS.task_artifacts("9f1c", 1), "index", "{}")),
    (WORKER, ("EXPIRE", OURS.task_artifacts("9f1c", 1), 60)),
    (WORKER, ("HSET", OURS.attempt_record("9f1c", 12), "output", "1-1")),
    (WORKER, ("FCALL", APPEND.function, 1, TRANSCRIPT, "[]", 0, 1, 0, "")),
    (WORKER, ("XADD", TRANSCRIPT, "*", "data", "[]")),
    (SESSION, ("FCALL", APPEND.function, 1, OURS.po_transcript("alice"), "[]", 0, 1, 0, "")),
    (SESSION, ("XADD", OURS.po_transcript("alice"), "*", "data", "[]")),
    (READER, ("XREAD", "STREAMS", TRANSCRIPT, OURS.po_transcript("bob"), "0", "0")),
    (READER, ("XRANGE", TRANSCRIPT, "-", "+")),
    (READER, ("EXISTS", OURS.po_transcript("alice"))),
]


@pytest.mark.parametrize(("user", "command"), WORK)
def test_a_user_may_do_its_work(users: Tenancy, user: str, command: tuple[object, ...]) -> None:
    assert may(users, user, *command)


# Ways to end or to rewrite a transcript, each with the words behind its key.
ENDS: list[tuple[tuple[str, ...], tuple[object, ...]]] = [
    *(((command,), ()) for command in ("DEL", "UNLINK", "PERSIST")),
    *(((command,), (0,)) for command in ("EXPIRE", "PEXPIRE", "EXPIREAT")),
    (("XDEL",), ("1-1",)),
    (("XTRIM",), ("MAXLEN", 0)),
    (("XSETID",), ("9-9",)),
    (("SET",), ("x",)),
    (("RENAME",), (OURS.task_transcript("9f1c", 2),)),
    (("XGROUP", "CREATE"), ("g", "0")),
]
NOT_THEIRS = [
    (WORKER, ("XGROUP", "CREATE", OURS.developer_input, "g", "0")),
    (SESSION, ("XGROUP", "CREATE", OURS.po_input("alice"), "g", "0")),
    (WORKER, ("XADD", OURS.developer_input, "*", "data", "{}")),
    (WORKER, ("SET", OURS.attempt_record("9f1c", 1), "x")),
    (WORKER, ("HDEL", OURS.attempt_record("9f1c", 1), "output")),
    (WORKER, ("HKEYS", OURS.attempt_record("9f1c", 1))),
    (SESSION, ("HGET", OURS.attempt_checkpoint("9f1c", 1), "1:session")),
    (CHAT, ("HGET", OURS.attempt_checkpoint("9f1c", 1), "1:session")),
    (PRODUCER, ("HGET", OURS.attempt_checkpoint("9f1c", 1), "1:session")),
    (PRODUCER, ("HGET", THEIRS.task_artifacts("9f1c", 1), "index")),
    (PRODUCER, ("HSET", OURS.task_artifacts("9f1c", 1), "index", "{}")),
    (CHAT, ("HGET", OURS.task_artifacts("9f1c", 1), "index")),
    (WORKER, ("HSET", THEIRS.task_artifacts("9f1c", 1), "index", "{}")),
    *((WORKER, (*command, TRANSCRIPT, *words)) for command, words in ENDS),
    *((SESSION, (*command, OURS.po_transcript("alice"), *words)) for command, words in ENDS),
    (WORKER, ("XADD", OURS.po_transcript("alice"), "*", "data", "[]")),
    (SESSION, ("XADD", OURS.po_transcript("bob"), "*", "data", "[]")),
    (SESSION, ("XADD", TRANSCRIPT, "*", "data", "[]")),
    (SESSION, ("XRANGE", OURS.po_transcript("bob"), "-", "+")),
    *((user, ("XRANGE", TRANSCRIPT, "-", "+")) for user in (CHAT, PRODUCER, SESSION)),
    *((user, ("EXISTS", TRANSCRIPT)) for user in (CHAT, PRODUCER)),
    *((user, ("XREAD", "STREAMS", OURS.po_transcript("alice"), "0")) for user in (CHAT, PRODUCER)),
    (READER, ("XADD", TRANSCRIPT, "*", "data", "[]")),
    (READER, ("XDEL", TRANSCRIPT, "1-1")),
    (READER, ("XREAD", "STREAMS", OURS.developer_output, "0")),
    (READER, ("XREAD", "STREAMS", OURS.po_output("alice"), "0")),
    (READER, ("HGETALL", OURS.attempt_record("9f1c", 1))),
    (READER, ("HGET", OURS.task_artifacts("9f1c", 1), "index")),
    (READER, ("GET", OURS.po_snapshot("alice"))),
    (READER, ("FCALL", APPEND.function, 1, TRANSCRIPT, "[]", 0, 1, 0, "")),
    (WORKER, ("SET", OURS.developer_output, "x")),
    (WORKER, ("EXPIRE", OURS.developer_output, 0)),
    (WORKER, ("GET", OURS.session_record(7))),
    (WORKER, ("XRANGE", OURS.po_input("alice"), "-", "+")),
    (SESSION, ("XRANGE", OURS.po_input("bob"), "-", "+")),
    (SESSION, ("GET", OURS.session_record(9))),
    (SESSION, ("GET", OURS.po_snapshot("bob"))),
    (SESSION, ("HSET", OURS.po_hold("alice"), "reason", "x")),
    (SESSION, ("XADD", OURS.po_input("alice"), "*", "data", "{}")),
    (SESSION, ("XADD", OURS.developer_output, "*", "data", "{}")),
    (CHAT, ("XADD", OURS.po_output("alice"), "*", "data", "{}")),
    (CHAT, ("HSET", OURS.po_state("alice"), "state", "ready")),
    (CHAT, ("GET", OURS.po_snapshot("alice"))),
    (CHAT, ("XADD", OURS.developer_input, "*", "data", "{}")),
    (PRODUCER, ("XADD", OURS.developer_output, "*", "data", "{}")),
    (PRODUCER, ("XRANGE", OURS.developer_input, "-", "+")),
    (PRODUCER, ("XADD", OURS.po_input("alice"), "*", "data", "{}")),
]


@pytest.mark.parametrize(("user", "command"), NOT_THEIRS)
def test_nor_may_it_do_anothers_work(
    users: Tenancy, user: str, command: tuple[object, ...]
) -> None:
    assert not may(users, user, *command)
    assert may(users, ALMIGHTY, *command)


def commands_on(keys: Keys) -> list[tuple[object, ...]]:
    """Ways to read, write or end what is under these keys."""
    streams = [keys.developer_input, keys.developer_output, keys.lifecycle, keys.po_input("alice")]
    streams += [keys.task_transcript("9f1c", 1), keys.po_transcript("alice")]
    strings = [keys.po_snapshot("alice"), keys.task_snapshot("9f1c"), keys.session_record(7)]
    lease = keys.developer_lease("w-1")
    return [
        *(("XRANGE", stream, "-", "+") for stream in streams),
        *(("XADD", stream, "*", "data", "{}") for stream in streams),
        *(("XREAD", "STREAMS", stream, "0") for stream in streams),
        *(("XDEL", stream, "1-1") for stream in streams),
        *(("XGROUP", "CREATE", stream, "g", "0") for stream in streams),
        *(("GET", string) for string in strings),
        *(("SET", string, "x") for string in strings),
        *(("EXISTS", key) for key in (*streams, *strings)),
        *(("EXPIRE", key, 0) for key in (*streams, lease)),
        ("HGETALL", keys.po_state("alice")),
        ("HSET", keys.attempt_record("9f1c", 1), "output", "1-1"),
        ("HGET", keys.attempt_checkpoint("9f1c", 1), "1:session"),
        ("HSET", keys.attempt_checkpoint("9f1c", 1), "1:session", "x"),
        ("HDEL", keys.attempt_checkpoint("9f1c", 1), "1:session"),
        ("UNLINK", keys.developer_input),
        ("COPY", keys.developer_input, "{team-a}:worker:developer:input"),
        ("FCALL", TAKE.function, 1, lease, "t", "", "1", "", "", 12),
        ("FCALL", TAKE.function, 2, OURS.developer_lease("w-1"), lease, "t", "", "1", "", "", 12),
    ]


ANYWHERE: list[tuple[object, ...]] = [
    ("EVAL", "return 1", 0),
    ("EVAL_RO", "return 1", 0),
    ("EVALSHA", "a" * 40, 0),
    ("SCRIPT", "LOAD", "return 1"),
    ("SCRIPT", "FLUSH"),
    ("FUNCTION", "LOAD", "REPLACE", "#!lua name=orbiter\n"),
    ("FUNCTION", "LIST"),
    ("FUNCTION", "FLUSH"),
    ("FUNCTION", "DELETE", "orbiter"),
    ("FUNCTION", "RESTORE", "x"),
    ("FUNCTION", "DUMP"),
    ("CONFIG", "GET", "*"),
    ("CONFIG", "SET", "maxmemory", "1"),
    ("ACL", "LIST"),
    ("ACL", "SETUSER", "w:team-a", "~*"),
    ("ACL", "GETUSER", "default"),
    ("ACL", "CAT"),
    ("KEYS", "*"),
    ("SCAN", 0),
    ("RANDOMKEY",),
    ("DBSIZE",),
    ("INFO",),
    ("CLIENT", "LIST"),
    ("CLIENT", "KILL", "ID", 1),
    ("CLIENT", "TRACKING", "ON", "BCAST"),
    ("CLIENT", "CACHING", "YES"),
    ("CLIENT", "PAUSE", 1),
    ("CLIENT", "UNBLOCK", 1),
    ("CLIENT", "NO-EVICT", "ON"),
    ("MONITOR",),
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("SHUTDOWN", "NOSAVE"),
    ("SWAPDB", 0, 1),
    ("SELECT", 1),
    ("MIGRATE", "127.0.0.1", 1, "{team-a}:worker:lifecycle", 0, 1),
    ("RESTORE", "{team-a}:worker:lifecycle", 0, "x"),
    ("DUMP", "{team-a}:worker:lifecycle"),
    ("DEBUG", "SLEEP", 0),
    ("SLOWLOG", "GET"),
    ("LATENCY", "RESET"),
    ("MEMORY", "DOCTOR"),
    ("MODULE", "LIST"),
    ("REPLICAOF", "NO", "ONE"),
    ("PSYNC", "?", -1),
    ("SAVE",),
    ("SUBSCRIBE", "anything"),
    ("PSUBSCRIBE", "*"),
    ("PUBLISH", "anything", "x"),
    ("SORT", "{team-a}:worker:lifecycle", "BY", "*"),
]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("keys", [THEIRS, NEARLY, BARE], ids=lambda keys: keys.prefix or "bare")
def test_with_its_password_nobody_reaches_another_namespaces_keys(
    users: Tenancy, user: str, keys: Keys
) -> None:
    with users.client(user) as client:
        for command in commands_on(keys):
            with pytest.raises(NoPermissionError):
                client.execute_command(*command)
            assert may(users, ALMIGHTY, *command)
    assert users.administer("DBSIZE") == 0


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("command", ANYWHERE, ids=lambda command: "-".join(map(str, command[:2])))
def test_with_its_password_nobody_reaches_the_server_itself(
    users: Tenancy, user: str, command: tuple[object, ...]
) -> None:
    with users.client(user) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command)
    assert may(users, ALMIGHTY, *command)


def test_the_attacks_are_real_ones_who_may_do_everything_succeeds(users: Tenancy) -> None:
    with users.client(ALMIGHTY) as client:
        client.xadd(THEIRS.developer_input, {"data": "{}"})
        assert client.keys("*") == [THEIRS.developer_input]
        assert client.scan()[1] == [THEIRS.developer_input]
        assert client.eval("return 1", 0) == 1
        assert client.execute_command("CLIENT", "TRACKING", "ON", "BCAST") == OK
        lease = THEIRS.developer_lease("w-1")
        assert client.fcall(TAKE.function, 1, lease, "t", "", "1", "", "", 12) == []
        assert client.function_list()
        assert client.execute_command("ACL", "LIST")
        assert client.client_list()
        assert client.config_get("maxmemory")


@pytest.mark.parametrize("user", [WORKER, SESSION])
def test_a_function_gives_its_caller_no_right_that_it_has_not(users: Tenancy, user: str) -> None:
    text = """#!lua name=another
    redis.register_function('another', function(keys, args)
      return redis.call(args[1], unpack(args, 2))
    end)"""
    users.administer("FUNCTION", "LOAD", text)
    users.administer("XADD", THEIRS.developer_input, "*", "data", "{}")
    with users.client(user) as client:
        for command in (
            ("XRANGE", THEIRS.developer_input, "-", "+"),
            ("KEYS", "*"),
            ("FLUSHALL",),
            ("CONFIG", "GET", "*"),
            ("XADD", OURS.developer_input, "*", "data", "{}"),
        ):
            with pytest.raises(ResponseError, match=r"can't|ACL failure|not allowed|permissions"):
                client.fcall("another", 0, *command)
    with users.client(ALMIGHTY) as client:
        assert client.fcall("another", 0, "XLEN", THEIRS.developer_input) == 1


def test_a_user_that_is_given_its_rules_again_has_nothing_of_before(users: Tenancy) -> None:
    users.administer("ACL", "SETUSER", WORKER, "~*", "&*", "+@all", "(+get ~*)")
    users.administer("ACL", "SETUSER", WORKER, *redis_users.worker_rules(OURS))
    assert not may(users, WORKER, "GET", BARE.developer_input)
    assert not may(users, WORKER, "KEYS", "*")
    assert may(users, WORKER, "FCALL", TAKE.function, 1, OURS.developer_lease("w-1"))


ODD = st.text(
    st.characters(exclude_categories=("Cs", "Zs", "Cc", "Zl", "Zp"), exclude_characters="\"'"),
    min_size=1,
    max_size=20,
)


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    ODD | st.sampled_from(["*", "?", "[a-z]", "\\", "a*b", "{", "}", "^", "[^a]", "a)b", "(a"]), ODD
)
def test_a_sessions_rights_are_for_exactly_its_own_id_whatever_is_in_it(
    users: Tenancy, worker_id: str, other: str
) -> None:
    users.administer(
        *("ACL", "SETUSER", "s:odd", "reset"), *redis_users.session_rules(OURS, worker_id, RECORD)
    )
    try:
        assert may(users, "s:odd", "GET", OURS.po_snapshot(worker_id))
        assert may(users, "s:odd", "XADD", OURS.po_output(worker_id), "*", "data", "{}")
        if other != worker_id:
            assert not may(users, "s:odd", "GET", OURS.po_snapshot(other))
    finally:
        users.administer("ACL", "DELUSER", "s:odd")


@pytest.mark.parametrize("worker_id", ["two words", "a\tb", "a\x00b", "a\nb", 'a"b', "a'b"])
def test_an_id_that_no_pattern_can_hold_is_refused_in_a_sentence(
    namespace: str, worker_id: str
) -> None:
    with pytest.raises(ValueError, match="no Redis pattern"):
        redis_users.session_rules(Keys.of_namespace(namespace), worker_id, "a-record")


def test_what_is_the_operators_covers_every_kind_of_key_with_and_without_a_namespace(
    users: Tenancy,
) -> None:
    patterns = [f"~{pattern}" for pattern in redis_users.operator_patterns()]
    users.allow("operator", (*patterns, "+@all"))
    registry = OURS.session_registry("orbiter-system", "orbiter-operator")
    for key in (OURS.developer_input, BARE.po_state("a"), OURS.attempt_record("u", 1), registry):
        assert may(users, "operator", "GET", key)
    assert not may(users, "operator", "GET", "somebody-elses")


SHARED_WORK = [
    (WORKER, ("XREADGROUP", "GROUP", "g", "w", "STREAMS", BARE.developer_input, ">")),
    (WORKER, ("XADD", BARE.developer_output, "*", "data", "{}")),
    (WORKER, ("FCALL", TAKE.function, 1, BARE.developer_lease("w-1"))),
    (SESSION, ("XREADGROUP", "GROUP", "g", "w", "STREAMS", BARE.po_input("team-a.alice"), ">")),
    (SESSION, ("SET", "session:user:team-a:7", "x")),
    (CHAT, ("XADD", BARE.po_input("team-a.alice"), "*", "data", "{}")),
    (CHAT, ("XREAD", "STREAMS", BARE.po_output("team-a.bob"), "0")),
    (CHAT, ("SET", "session:user:team-a:9", "x")),
    (PRODUCER, ("XADD", BARE.developer_input, "*", "data", "{}")),
    (PRODUCER, ("XREAD", "STREAMS", BARE.developer_output, "0")),
    (WORKER, ("FCALL", APPEND.function, 1, BARE.task_transcript("9f1c", 1))),
    (SESSION, ("FCALL", APPEND.function, 1, BARE.po_transcript("team-a.alice"))),
    (READER, ("XREAD", "STREAMS", BARE.po_transcript("team-a.bob"), "0")),
]
NOT_OURS = [
    (READER, ("XREAD", "STREAMS", BARE.po_transcript("team-b.bob"), "0")),
    (SESSION, ("XADD", BARE.po_transcript("team-b.alice"), "*", "data", "[]")),
    (WORKER, ("XADD", BARE.developer_input, "*", "data", "{}")),
    (WORKER, ("XRANGE", BARE.po_input("team-a.alice"), "-", "+")),
    (WORKER, ("GET", "session:user:team-a:7")),
    (SESSION, ("XRANGE", BARE.po_input("team-a.bob"), "-", "+")),
    (SESSION, ("GET", "session:user:7")),
    (SESSION, ("GET", "session:user:team-b:7")),
    (CHAT, ("XADD", BARE.po_input("team-b.alice"), "*", "data", "{}")),
    (CHAT, ("XREAD", "STREAMS", BARE.po_output("team-ab.bob"), "0")),
    (CHAT, ("WATCH", BARE.po_output("team-b.bob"))),
    (CHAT, ("XLEN", BARE.po_input("team-b.bob"))),
    (CHAT, ("HGETALL", BARE.po_state("team-b.alice"))),
    (CHAT, ("GET", "session:user:7")),
    (CHAT, ("GET", "session:user:team-b:7")),
    (PRODUCER, ("XRANGE", BARE.developer_input, "-", "+")),
    (PRODUCER, ("XADD", BARE.po_input("team-a.alice"), "*", "data", "{}")),
]


@pytest.fixture
def sharing(users: Tenancy) -> Tenancy:
    """The same users where namespaces share the keys."""
    users.allow(WORKER, redis_users.worker_rules(BARE))
    record = BARE.session_records("team-a") + "7"
    users.allow(SESSION, redis_users.session_rules(BARE, "team-a.alice", record))
    users.allow(CHAT, chat_rules(BARE))
    users.allow(PRODUCER, redis_users.producer_rules(BARE))
    users.allow(READER, redis_users.transcript_rules(BARE, "team-a"))
    return users


def test_where_namespaces_share_the_keys_everybody_does_its_work_and_no_others(
    sharing: Tenancy,
) -> None:
    for user, command in SHARED_WORK:
        assert may(sharing, user, *command), (user, command)
    for user, command in NOT_OURS:
        assert not may(sharing, user, *command), (user, command)
        assert may(sharing, ALMIGHTY, *command)
    for user in USERS:
        for command in (*ANYWHERE, *commands_on(OURS)):
            assert not may(sharing, user, *command), (user, command)


@pytest.mark.parametrize("user_id", [0, 7, -3, 2**63 - 1, -(2**63)])
def test_the_short_session_records_are_those_of_one_namespace_alone(
    users: Tenancy, user_id: int
) -> None:
    rules = redis_users.chat_rules(BARE, "team-a", BARE.session_records())
    users.allow(CHAT, rules)
    assert may(users, CHAT, "SET", BARE.session_record(user_id), "x")
    for namespace in ("team-b", "7", "1team", "9-9"):
        key = f"{BARE.session_records(namespace)}{user_id}"
        assert not may(users, CHAT, "GET", key)
        assert may(users, ALMIGHTY, "GET", key)


@pytest.mark.parametrize("keys", [OURS, BARE], ids=["own", "shared"])
def test_no_rule_lets_anybody_send_a_program_or_make_a_group(namespace: str, keys: Keys) -> None:
    rules = (
        *(redis_users.worker_rules(keys), redis_users.producer_rules(keys), chat_rules(keys)),
        redis_users.session_rules(keys, f"{namespace}.alice", RECORD),
    )
    given = {word for one in rules for rule in one for word in rule.strip("()").split()}
    categories = {word for word in given if word.startswith("+@")}
    assert categories == {"+@connection", "+@transaction"}
    refused = ("+eval", "+script", "+function", "+xgroup|create", "+xgroup|setid", "+xsetid")
    assert not [word for word in given if word.startswith(refused) or word in ("+xgroup", "+acl")]
