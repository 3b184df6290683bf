"""The way of `kubectl orbiter` to Redis: a port-forward or a URL, and never a password shown."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from support.certificates import IN_CLUSTER, make_certificates
from support.fake_kubectl import FakeKubectl, an_object, kubectl
from support.front_end import PASSWORD, StubWorker, echo, secret, server, session, worker
from support.redis_server import RedisServer, running_server
from support.replicated import Replicated
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.main import app
from orbiter_contracts import POWorkerInput

__all__ = ["kubectl", "server", "session", "worker"]
pytestmark = pytest.mark.integration


def run(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, list(words), input=stdin, catch_exceptions=False)


def test_the_password_is_in_nobodys_argv_and_in_no_output(
    session: FakeKubectl, worker: StubWorker
) -> None:
    worker.answers(echo)
    result = run("chat", "alice", "--once", "hi")
    shown = result.output + "".join(" ".join(call.argv) for call in session.calls)
    assert PASSWORD not in shown
    assert "p%40ss" not in shown
    forward = session.calls[-1].argv
    assert forward == [
        *("--namespace=orbiter-system", "port-forward", "--address=127.0.0.1"),
        *("service/orbiter-redis", ":6379"),
    ]


def test_the_port_forward_ends_with_the_command(session: FakeKubectl, worker: StubWorker) -> None:
    worker.answers(echo)
    run("chat", "alice", "--once", "hi")
    [pid] = (session.home / "forwards").read_text().split()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_port_forward_that_breaks_is_made_again(session: FakeKubectl, worker: StubWorker) -> None:
    def reply(worker: StubWorker, message: POWorkerInput) -> None:
        worker.says(message, "before", is_final=False, sequence=0)
        [pid] = (session.home / "forwards").read_text().split()
        os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            while ") Z" not in Path(f"/proc/{pid}/stat").read_text():
                time.sleep(0.001)
        worker.says(message, "before and after", sequence=1)

    worker.answers(reply)
    assert run("chat", "alice", "--once", "hi").stdout == "before and after\n"
    assert len((session.home / "forwards").read_text().split()) == 2
    assert len(worker.heard) == 1


@pytest.mark.parametrize("how", ["option", "variable", "outside"])
def test_a_url_is_used_as_it_is(
    session: FakeKubectl,
    server: RedisServer,
    worker: StubWorker,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    worker.answers(echo)
    words = ["chat", "alice", "--once", "hi"]
    if how == "option":
        words += ["--redis-url", server.url]
    elif how == "variable":
        monkeypatch.setenv("ORBITER_REDIS_URL", server.url)
    else:
        session.has(secret(server, f"127.0.0.1:{server.port}"))
    assert run(*words).stdout == "you said hi\n"
    assert not any("port-forward" in call.argv for call in session.calls)


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("nonsense://secret@host", 2, "the Redis URL is malformed"),
        ("redis://u:secret@host:port/0", 2, "the Redis URL is malformed"),
        ("redis://u:secret@127.0.0.1:1/0", 6, "Redis at 127.0.0.1 does not answer"),
    ],
)
def test_a_url_that_does_not_work_is_explained_without_its_password(
    session: FakeKubectl, url: str, code: int, said: str
) -> None:
    result = run("chat", "alice", "--once", "hi", "--redis-url", url)
    assert result.exit_code == code
    assert said in result.stderr
    assert "secret" not in result.stderr


def test_a_way_to_redis_that_is_missing_is_explained(
    session: FakeKubectl, server: RedisServer
) -> None:
    (session.home / "no-forward").write_text("error: unable to forward: pod is Pending")
    result = run("chat", "alice", "--once", "hi")
    assert result.exit_code == 6
    assert "service/orbiter-redis in namespace orbiter-system failed" in result.stderr
    assert "unable to forward: pod is Pending; give a URL with --redis-url" in result.stderr
    session.delete("Secret", "orbiter-chat")
    old = an_object(
        "Secret", "orbiter-redis", data={"developer-url": "redis://developer:x@somewhere"}
    )
    session.has(old)
    assert "has no key chat-url: the chart is older" in run("chat", "alice", stdin="x").stderr
    session.delete("Secret", "orbiter-redis")
    assert "there is no Secret orbiter-chat in namespace" in run("chat", "alice", stdin="x").stderr


def test_where_the_operator_makes_no_users_the_url_is_beside_the_workers(
    session: FakeKubectl, server: RedisServer
) -> None:
    session.delete("Secret", "orbiter-chat")
    shared = secret(server)
    shared["metadata"]["name"] = "orbiter-redis"
    shared["data"]["developer-url"] = "redis://developer:x@somewhere"
    session.has(shared)
    worker = StubWorker(server.url)
    worker.answers(echo)
    try:
        assert run("chat", "alice", "--once", "hi").stdout == "you said hi\n"
    finally:
        worker.end()


def test_sentinels_inside_of_the_cluster_are_refused_with_what_to_do_instead(
    session: FakeKubectl,
) -> None:
    url = "redis+sentinel://chat:secret@redis.databases.svc:26379,two:26379/mymaster/0"
    session.has(an_object("Secret", "orbiter-chat", data={"chat-url": url}))
    result = run("chat", "alice", "--once", "hi")
    assert result.exit_code == 6
    said = " ".join(result.stderr.split())
    assert "redis+sentinel://redis.databases.svc:26379,two:26379/mymaster/0" in said
    assert "a port-forward does not lead; give a URL with --redis-url" in said
    assert "secret" not in said
    assert not any("port-forward" in call.argv for call in session.calls)


def test_sentinels_that_this_machine_reaches_are_followed(
    session: FakeKubectl, replicated: Replicated
) -> None:
    worker = StubWorker(replicated.primary.url)
    worker.answers(echo)
    try:
        result = run("chat", "alice", "--once", "hi", "--redis-url", replicated.url)
    finally:
        worker.end()
    assert result.stdout == "you said hi\n"


@pytest.mark.parametrize("name", [IN_CLUSTER, "elsewhere.example.com"])
def test_tls_through_a_port_forward_asks_for_the_name_of_the_service(
    session: FakeKubectl, tmp_path: Path, name: str
) -> None:
    certificates = make_certificates(tmp_path / "ours", name)
    with running_server(tmp_path, password="secret", tls=certificates) as server:
        (session.home / "redis-port").write_text(str(server.port))
        url = f"rediss://:secret@{IN_CLUSTER}:6379/0"
        data = {"chat-url": url, "ca.crt": certificates.ca.read_text()}
        session.has(an_object("Secret", "orbiter-chat", data=data))
        worker = StubWorker(f"{server.url}&ssl_check_hostname=False")
        worker.answers(echo)
        try:
            result = run("chat", "alice", "--once", "hi")
        finally:
            worker.end()
    if name == IN_CLUSTER:
        assert result.stdout == "you said hi\n"
    else:
        assert result.exit_code == 6
        assert "its certificate is not trusted" in result.stderr
    assert "secret" not in result.stderr


def test_a_cluster_is_refused_with_a_sentence(session: FakeKubectl, tmp_path: Path) -> None:
    with running_server(tmp_path, options={"cluster-enabled": "yes"}) as server:
        urls = (server.url, "redis+cluster://u:secret@one:7000/0")
        results = [run("chat", "alice", "--once", "hi", "--redis-url", url) for url in urls]
    for result in results:
        assert result.exit_code == 2
        assert "the Redis URL leads to a Redis Cluster (redis" in result.stderr
        assert "secret" not in result.stderr


@pytest.mark.parametrize(
    "url", ["unix:///var/run/a.sock", f"rediss://:secret@{IN_CLUSTER}:6379/0?ssl_certfile=/a/pipe"]
)
def test_a_secret_leads_to_no_file_and_no_socket_of_this_machine(
    session: FakeKubectl, url: str
) -> None:
    session.has(an_object("Secret", "orbiter-chat", data={"chat-url": url}))
    result = run("chat", "alice", "--once", "hi")
    assert result.exit_code == 6
    assert "the Redis URL " in result.stderr
    assert "secret@" not in result.stderr
    assert not (session.home / "forwards").exists()
