"""The chart's Redis users on a real Redis: each can do its work and nothing else."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError
from redis.retry import Retry
from support.chart_redis import acl_file, passwords_of
from support.cluster import Cluster
from support.manifests import read_manifests
from support.redis_server import running_server

from orbiter_contracts import queues, redis_users, scripts
from orbiter_contracts.functions import library
from orbiter_contracts.lease_scripts import RELEASE, TAKE
from orbiter_operator.sessions.refusals import HEADS, REFUSE
from orbiter_operator.sessions.streams import ALLOWED, OBSERVE, registry_key
from orbiter_operator.streams.quota import COUNT_PAGE
from orbiter_operator.streams.reader import LAST_ID
from orbiter_operator.streams.retention import MOST_ENTRIES, REPAIR
from worker_wrapper.queue.lease import LEASE_SECONDS

pytestmark = pytest.mark.e2e

CHART = Path(__file__).resolve().parents[1] / "orbiter"
RECORD = queues.BARE.attempt_record("4ab2", 1)
OF_USER = queues.BARE.session_record(1)
OF_TEAM_B = f"{queues.BARE.session_records('team-b')}1"
INPUT, OUTPUT = queues.BARE.developer_input, queues.BARE.developer_output
PO_INPUT, PO_OUTPUT = queues.BARE.po_input("default.anna"), queues.BARE.po_output("default.anna")
CHAT, CHAT_B = "chat-default", "chat-team-b"
Login = Callable[[str], "Redis[str]"]


@pytest.fixture(scope="module")
def guarded(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple["Redis[str]", Login]]:
    """A Redis with the chart's users and one of ours: our client, and a way to log in as theirs."""
    template = "templates/redis.yaml"
    namespaces = "workers.namespaces={default,team-b}"
    text = cluster.helm(
        *("template", "orbiter", str(CHART), "--show-only", template, "--set", namespaces)
    )
    items = read_manifests(text)
    passwords = passwords_of(items)
    users = acl_file(items, tmp_path_factory.mktemp("users"), passwords)
    with running_server(tmp_path_factory.mktemp("acl")) as server, contextlib.ExitStack() as open_:

        def login(user: str) -> "Redis[str]":
            password = passwords[user]
            client = Redis(
                port=server.port, username=user, password=password, decode_responses=True
            )
            open_.callback(client.close)
            return client

        with Redis(port=server.port) as default:
            default.execute_command("ACL", "SETUSER", "admin", "on", ">admin", "+@all", "~*")
        with Redis(port=server.port, username="admin", password="admin") as admin:
            for line in users.splitlines():
                admin.execute_command("ACL", "SETUSER", *line.split()[1:])
            rules = redis_users.session_rules(queues.BARE, "default.anna", OF_USER)
            login("operator").execute_command("ACL", "SETUSER", "po", "reset", "on", ">po", *rules)
            login("operator").function_load(library(), replace=True)
            passwords["po"] = "po"
            yield admin, login


@pytest.fixture
def login(guarded: tuple["Redis[str]", Login]) -> Login:
    """Log in as one of the chart's users, on an empty Redis."""
    admin, login = guarded
    admin.flushall()
    return login


def admit(operator: "Redis[str]") -> str:
    """Put an attempt's entry on the queue as the operator does."""
    operator.xgroup_create(INPUT, queues.DEVELOPER_GROUP, id="0", mkstream=True)
    arguments = [scripts.ATTEMPT_TTL_SECONDS, "data", "{}", "agenttask", "team/one"]
    return str(operator.eval(scripts.ADMIT_ATTEMPT, 2, RECORD, INPUT, *arguments))


def publish(client: "Redis[str]", entry: str) -> object:
    """Publish the attempt's output, as a worker does and as the operator does in its place."""
    keys = [RECORD, INPUT, OUTPUT, queues.BARE.lifecycle]
    lifetime = scripts.ATTEMPT_TTL_SECONDS
    group = queues.DEVELOPER_GROUP
    arguments = [lifetime, entry, group, "{}", "{}", "team/one", "1"]
    return client.eval(scripts.PUBLISH_ATTEMPT, len(keys), *keys, *arguments)


def test_a_task_travels_from_the_operator_to_a_worker_and_back(login: Login) -> None:
    operator, worker = login("operator"), login("developer")
    entry = admit(operator)
    claimed = worker.xclaim(INPUT, queues.DEVELOPER_GROUP, "w", 0, [entry], force=True)
    assert [identifier for identifier, _ in claimed] == [entry]
    output = publish(worker, entry)
    operator.xgroup_create(OUTPUT, queues.OPERATOR_GROUP, id="0")
    read = operator.xreadgroup(queues.OPERATOR_GROUP, "o", {OUTPUT: ">"})
    assert read[0][1][0][0] == output
    operator.xack(OUTPUT, queues.OPERATOR_GROUP, output)
    assert operator.hget(RECORD, "output") == output


def test_the_operator_can_answer_in_a_dead_workers_place(login: Login) -> None:
    operator = login("operator")
    assert publish(operator, admit(operator)) is not None


@pytest.mark.parametrize(
    ("user", "stream"),
    [(CHAT, PO_INPUT), ("po", PO_OUTPUT), ("developer", OUTPUT), ("po", queues.BARE.lifecycle)],
)
def test_the_operator_mends_a_stream_whose_ids_somebody_has_used_up(
    login: Login, user: str, stream: str
) -> None:
    operator, writer = login("operator"), login(user)
    operator.xgroup_create(stream, "group", id="0", mkstream=True)
    writer.xadd(stream, {"data": "x"}, id=LAST_ID)
    operator.xreadgroup("group", "o", {stream: ">"})
    letters = queues.dead_letter(stream)
    repair = (2, stream, letters, 1000, "out of range", MOST_ENTRIES)
    assert operator.eval(REPAIR, *repair)[0] == "more"  # what was held is a dead letter now
    assert operator.eval(REPAIR, *repair)[0] == "repaired"
    assert writer.xadd(stream, {"data": "{}"})


def test_a_conversation_has_its_streams_and_its_record(login: Login) -> None:
    operator, worker = login("operator"), login("po")
    operator.xgroup_create(PO_INPUT, queues.PO_GROUP, id="0", mkstream=True)
    assert worker.xreadgroup(queues.PO_GROUP, "w", {PO_INPUT: ">"}, block=1) == []
    worker.set(OF_USER, "{}", ex=queues.SESSION_TTL_SECONDS)
    assert worker.get(OF_USER) == "{}"
    assert worker.xadd(PO_OUTPUT, {"data": "{}"})
    assert worker.xadd(queues.dead_letter(PO_INPUT), {"data": "{}"})


def test_a_conversation_has_its_state_its_turns_and_its_snapshot(login: Login) -> None:
    worker, state = login("po"), queues.BARE.po_state("default.anna")
    worker.hset(state, "state", "busy")
    worker.execute_command("HINCRBYFLOAT", state, "turns", "1")
    assert worker.hgetall(state) == {"state": "busy", "turns": "1"}
    worker.rpush(queues.BARE.po_turns("default.anna"), "{}")
    worker.ltrim(queues.BARE.po_turns("default.anna"), -200, -1)
    worker.set(queues.BARE.po_snapshot("default.anna"), "compressed")
    assert worker.get(queues.BARE.po_snapshot("default.anna")) == "compressed"


def test_a_chat_front_end_speaks_to_a_session_and_hears_it(login: Login) -> None:
    chat, worker = login(CHAT), login("po")
    login("operator").xgroup_create(PO_INPUT, queues.PO_GROUP, id="0", mkstream=True)
    assert chat.xadd(PO_INPUT, {"data": "{}"})
    assert worker.xreadgroup(queues.PO_GROUP, "w", {PO_INPUT: ">"})
    worker.xadd(PO_OUTPUT, {"data": "{}"})
    assert len(chat.xread({PO_OUTPUT: "0"})[0][1]) == 1
    assert len(chat.xrevrange(PO_OUTPUT, count=1)) == 1
    assert chat.hgetall(queues.BARE.po_state("default.anna")) == {}
    for user, record in ((CHAT, OF_USER), (CHAT_B, OF_TEAM_B)):
        login(user).set(record, "{}", ex=queues.SESSION_TTL_SECONDS)
        assert login(user).get(record) == "{}"


def test_the_operator_looks_after_a_session_to_its_end(login: Login) -> None:
    operator, worker = login("operator"), login("po")
    hold = queues.BARE.po_hold("default.anna")
    registry = registry_key("orbiter-system", "orbiter-operator")
    dead = queues.dead_letter(PO_INPUT)
    keys = [PO_INPUT, PO_OUTPUT, queues.BARE.po_state("default.anna"), dead, registry, hold]
    for reason, held in (("Suspended", 1), ("", 0), ("Suspended", 1)):
        reply = operator.eval(OBSERVE, len(keys), *keys, queues.PO_GROUP, "uid", "{}", reason)
        assert reply[:3] == ["0-0", 0, 0]
        assert worker.exists(hold) == held
    assert operator.hgetall(queues.BARE.po_state("default.anna")) == {}
    assert operator.xread({PO_INPUT: "0-0"}, block=1) == []
    assert operator.client_unblock(operator.client_id()) == 0
    assert operator.unlink(*queues.BARE.po_keys("default.anna")) == 3


def test_the_operator_says_how_many_turns_are_paid_for_and_answers_those_that_are_not(
    login: Login,
) -> None:
    operator, worker = login("operator"), login("po")
    state = queues.BARE.po_state("default.anna")
    operator.hset(state, ALLOWED, "1")
    assert worker.hget(state, ALLOWED) == "1"
    operator.hdel(state, ALLOWED)
    operator.xgroup_create(PO_INPUT, queues.PO_GROUP, id="0", mkstream=True)
    entry = login(CHAT).xadd(PO_INPUT, {"data": '{"request_id": "r-1"}'})
    heads = operator.eval(HEADS, 1, PO_INPUT, 50, 14, "data", 1000)
    assert heads == [[entry, '{"request_id":']]
    words = (PO_INPUT, PO_OUTPUT, queues.PO_GROUP, entry, "{}", "data")
    assert [operator.eval(REFUSE, 2, *words) for _ in range(2)] == [1, 0]
    assert (operator.xlen(PO_INPUT), operator.xlen(PO_OUTPUT)) == (0, 1)


@pytest.mark.parametrize(
    ("user", "key"),
    [
        ("developer", queues.BARE.developer_lease("w-1")),
        ("developer", queues.BARE.developer_lease("team.fix-1", "7-0")),
        ("po", queues.BARE.po_lease("default.anna")),
    ],
)
def test_a_worker_takes_the_lease_of_its_name_and_gives_it_back(
    login: Login, user: str, key: str
) -> None:
    worker, ours = login(user), ("token", "", 1, "place", "host", LEASE_SECONDS)
    assert worker.fcall(TAKE.function, 1, key, *ours) == []
    assert worker.fcall(TAKE.function, 1, key, "another", *ours[1:]) == [
        "token",
        "1",
        "place",
        "host",
    ]
    assert worker.fcall(RELEASE.function, 1, key, "token") == 1
    assert worker.exists(key) == 0


@pytest.mark.parametrize(
    ("user", "key"),
    [
        ("developer", queues.BARE.developer_lease("w-1")),
        ("po", queues.BARE.po_lease("default.anna")),
    ],
)
def test_a_worker_takes_its_lease_whatever_stands_in_its_place(
    guarded: tuple["Redis[str]", Login], login: Login, user: str, key: str
) -> None:
    (admin, _), worker, ours = guarded, login(user), ("token", "", 1, "place", "host", 12)
    admin.rpush(key, "no lease")
    assert worker.fcall(TAKE.function, 1, key, *ours) == []
    admin.persist(key)
    assert worker.fcall(TAKE.function, 1, key, "another", *ours[1:]) == [
        "token",
        "1",
        "place",
        "host",
    ]
    assert admin.ttl(key) > 0


@pytest.mark.parametrize(
    ("user", "command"),
    [
        ("developer", ("XADD", INPUT, "*", "data", "{}")),
        ("developer", ("GET", queues.BARE.session_record(1))),
        ("developer", ("XRANGE", PO_OUTPUT, "-", "+")),
        ("developer", ("DEL", RECORD)),
        ("po", ("XADD", PO_INPUT, "*", "data", "{}")),
        ("po", ("XADD", OUTPUT, "*", "data", "{}")),
        ("po", ("XRANGE", OUTPUT, "-", "+")),
        ("po", ("HGETALL", RECORD)),
        ("po", ("SET", PO_INPUT, "x")),
        ("po", ("DEL", PO_INPUT)),
        (CHAT, ("XADD", PO_OUTPUT, "*", "data", "{}")),
        (CHAT, ("XADD", INPUT, "*", "data", "{}")),
        (CHAT, ("XRANGE", PO_INPUT, "-", "+")),
        (CHAT, ("HSET", queues.BARE.po_state("default.anna"), "state", "ready")),
        (CHAT, ("GET", queues.BARE.po_snapshot("default.anna"))),
        (CHAT, ("GET", OF_TEAM_B)),
        (CHAT, ("XADD", queues.BARE.po_input("team-b.bob"), "*", "data", "{}")),
        (CHAT_B, ("XADD", PO_INPUT, "*", "data", "{}")),
        (CHAT_B, ("XRANGE", PO_OUTPUT, "-", "+")),
        (CHAT_B, ("HGETALL", queues.BARE.po_state("default.anna"))),
        (CHAT_B, ("GET", OF_USER)),
        ("po", ("GET", OF_TEAM_B)),
        ("po", ("XRANGE", queues.BARE.lifecycle, "-", "+")),
        ("po", ("XRANGE", queues.BARE.po_output("default.bob"), "-", "+")),
        ("operator", ("SET", "another:key", "x")),
        ("operator", ("UNLINK", INPUT)),
    ],
)
def test_work_that_is_not_its_own_is_refused(
    login: Login, user: str, command: tuple[str, ...]
) -> None:
    with pytest.raises(NoPermissionError):
        login(user).execute_command(*command)


def test_a_worker_cannot_create_work_by_a_script_either(login: Login) -> None:
    text = "return redis.call('XADD', KEYS[1], '*', 'data', '{}')"
    with pytest.raises(ResponseError, match=r"can't access at least one of the keys"):
        login("developer").eval(text, 1, INPUT)


def test_the_operator_alone_counts_the_bytes_of_all_keys(
    guarded: tuple["Redis[str]", Login], login: Login
) -> None:
    (admin, _), operator = guarded, login("operator")
    keys = (queues.Keys.of_namespace("team-b").session_record(1), OF_USER)
    for key in keys:
        admin.set(key, "x")
    admin.set("another program's", "x")
    next_page, *found = operator.register_script(COUNT_PAGE)(args=["0", 1])
    assert next_page == "0"
    assert set(found[::2]) == {"{team-b}:", OF_USER}
    assert min(found[1::2]) > 0
    for user in ("developer", "po", CHAT):
        for command in ("SCAN 0", f"MEMORY USAGE {OF_USER}"):
            with pytest.raises(NoPermissionError):
                login(user).execute_command(*command.split())


@pytest.mark.parametrize("user", ["operator", "developer", "po", CHAT])
@pytest.mark.parametrize(
    "command",
    [
        "FLUSHALL",
        "KEYS *",
        "MEMORY STATS",
        "CONFIG GET *",
        "ACL LIST",
        "SELECT 1",
        "MONITOR",
    ],
)
def test_nobody_can_look_around_or_break_things(login: Login, user: str, command: str) -> None:
    with pytest.raises(NoPermissionError):
        login(user).execute_command(*command.split())


def test_the_operator_alone_sees_connections_and_ends_them(login: Login) -> None:
    for user in ("developer", "po", CHAT):
        for command in ("CLIENT LIST", "CLIENT KILL USER po"):
            with pytest.raises(NoPermissionError):
                login(user).execute_command(*command.split())
    assert "po" in {client["user"] for client in login("operator").client_list()}
    assert login("operator").client_kill_filter(user="po") > 0


def test_without_a_password_nothing_works(guarded: tuple["Redis[str]", Login]) -> None:
    admin, _ = guarded
    port = admin.connection_pool.connection_kwargs["port"]
    once = Retry(NoBackoff(), 0)
    with Redis(port=port, retry=once) as nobody, pytest.raises(AuthenticationError):
        nobody.ping()


def test_the_operator_keeps_which_namespaces_have_users_and_hears_their_names_alone(
    guarded: tuple["Redis[str]", Login],
) -> None:
    _, login = guarded
    operator = login("operator")
    registry = queues.BARE.namespace_registry("orbiter-system", "orbiter-operator")
    operator.hset(registry, "team-a", "")
    assert operator.hgetall(registry) == {"team-a": ""}
    operator.hdel(registry, "team-a")
    assert {"developer", CHAT, CHAT_B} <= set(operator.acl_users())
    for what in (("ACL", "LIST"), ("ACL", "GETUSER", "developer")):
        with pytest.raises(NoPermissionError):
            operator.execute_command(*what)
    for user in ("developer", CHAT):
        with pytest.raises(NoPermissionError):
            login(user).hgetall(registry)
