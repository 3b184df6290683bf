"""The URL of a Redis: its forms, what is refused, and that no password is ever shown."""

import string
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter_contracts.redis_url import ClusterError, RedisUrlError, read_redis_url, with_login

SENTINELS = "redis+sentinel://user:data-word@one:26379,two,[::1]:26380/mymaster/3"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:data-word@host:6379/0", "redis://host:6379/0"),
        ("redis://host", "redis://host"),
        ("rediss://:data-word@host/1?ssl_ca_certs=/a/ca.crt", "rediss://host/1"),
        ("redis://:data-word@[::1]:6379/0", "redis://[::1]:6379/0"),
    ],
)
def test_the_url_of_one_server_stays_as_it_is(url: str, shown: str) -> None:
    read = read_redis_url(url)

    assert (read.server, read.shown, read.primary, read.sentinels) == (url, shown, "", ())


def test_a_socket_is_a_path() -> None:
    assert read_redis_url("unix:///run/redis.sock?db=2").server == "unix:///run/redis.sock?db=2"


def test_sentinels_are_hosts_with_the_name_of_the_primary_behind_them() -> None:
    read = read_redis_url(SENTINELS)

    assert read.primary == "mymaster"
    assert read.server == "redis://user:data-word@one:26379/3"
    assert read.sentinels == ("redis://one:26379", "redis://two:26379", "redis://[::1]:26380")
    assert read.shown == "redis+sentinel://one:26379,two:26379,[::1]:26380/mymaster/3"


def test_the_sentinels_have_credentials_of_their_own() -> None:
    options = "sentinel_username=watch&sentinel_password=a%2Fword&client_name=me"
    read = read_redis_url(f"redis+sentinel://user:data-word@one/mymaster?{options}")

    assert read.sentinels == ("redis://watch:a%2Fword@one:26379",)
    assert read.server == "redis://user:data-word@one:26379/0?client_name=me"


def test_with_tls_the_ca_counts_for_the_sentinels_too() -> None:
    read = read_redis_url("rediss+sentinel://one/mymaster/0?ssl_ca_certs=/a/ca.crt&client_name=me")

    assert read.sentinels == ("rediss://one:26379?ssl_ca_certs=%2Fa%2Fca.crt",)
    assert read.server.startswith("rediss://one:26379/0?")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://user:data-word@host", "is malformed: it must be a URL like redis://"),
        ("redis://user:data-word@", "is malformed"),
        ("redis://user:data-word@host:port/0", "is malformed"),
        ("redis://user:data-word@host/first", "is malformed"),
        ("redis+sentinel://user:data-word@one,two/", "names no primary"),
        ("redis+sentinel://user:data-word@one,,two/mymaster", "is malformed"),
        ("redis+sentinel://user:data-word@one:port/mymaster", "is malformed"),
        ("redis+sentinel://user:data-word@one/mymaster/first", "is malformed"),
        ("redis+sentinel://user:data-word@/mymaster", "is malformed"),
        ("redis://:data-word@host?ssl_ca_certs=/a", "the option ssl_ca_certs and no TLS"),
        ("redis+sentinel://:data-word@one/m?ssl_ca_certs=/a", "it must begin with rediss"),
    ],
)
def test_what_cannot_be_used_is_refused_without_showing_it(url: str, sentence: str) -> None:
    with pytest.raises(RedisUrlError) as caught:
        read_redis_url(url)
    assert sentence in str(caught.value)
    assert "data-word" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["redis+cluster", "rediss+cluster", "REDIS+CLUSTER"])
@pytest.mark.parametrize("user", ["", "user:data-word@", "user:data/data-word@"])
def test_a_cluster_is_refused_by_name_with_what_to_write_instead(scheme: str, user: str) -> None:
    with pytest.raises(ClusterError) as caught:
        read_redis_url(f"{scheme}://{user}one:7000,two:7000/0")
    said = str(caught.value)
    assert "redis+sentinel://" in said
    assert "word" not in said
    assert "data/" in user or "one:7000,two:7000" in said


@given(st.text(), st.sampled_from(["redis", "rediss+sentinel", "redis+cluster", "unix", ""]))
def test_whatever_the_text_it_is_read_or_refused(rest: str, scheme: str) -> None:
    with suppress(RedisUrlError):
        read_redis_url(f"{scheme}://{rest}")


@given(st.text(string.ascii_letters + string.digits + "%:;!$&'()*+,=-._~", min_size=1))
def test_a_password_is_in_nothing_that_is_shown(word: str) -> None:
    read = read_redis_url(f"redis+sentinel://user:{word}-word@one,two/mymaster/0")

    assert read.shown == "redis+sentinel://one:26379,two:26379/mymaster/0"
    assert "-word" not in repr(read)


@pytest.mark.parametrize(
    ("url", "rest"),
    [
        ("redis://operator:pw@redis:6379/2", "@redis:6379/2"),
        ("redis://redis:6379", "@redis:6379"),
        ("rediss://:pw@redis:6379/0?ssl_ca_certs=/ca.crt", "@redis:6379/0?ssl_ca_certs=/ca.crt"),
        ("redis+sentinel://o:pw@a:26379,b:26379/main/0", "@a:26379,b:26379/main/0"),
    ],
)
def test_another_user_takes_the_place_of_the_one_before(url: str, rest: str) -> None:
    made = with_login(url, "w:team-a", "p@ss/word")
    assert made == f"{url.partition('//')[0]}//w%3Ateam-a:p%40ss%2Fword{rest}"
    assert read_redis_url(made).server
