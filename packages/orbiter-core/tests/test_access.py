import pytest

from orbiter.access import bearer_token, header, is_local, is_loopback, is_token


def scope(
    *headers: tuple[str, str | bytes],
    client: tuple[str, int] | None = ("127.0.0.1", 5),
    server: tuple[str, int] | None = ("127.0.0.1", 80),
) -> dict[str, object]:
    given = [(k.encode(), v if isinstance(v, bytes) else v.encode()) for k, v in headers]
    return {"type": "http", "headers": given, "client": client, "server": server}


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True), ("LOCALHOST", True), ("127.0.0.1", True), ("127.8.9.1", True),
        ("::1", True), ("[::1]", True), ("0.0.0.0", False), ("10.0.0.1", False), ("", False),
        ("localhost.evil.example", False), ("127.0.0.1.evil.example", False),
    ],
)  # fmt: skip
def test_a_loopback_host_is_told_from_others(host, loopback):
    assert is_loopback(host) is loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "[::1]", "[::1]:80", "localhost"])
def test_a_program_of_this_machine_is_local(host):
    assert is_local(scope(("host", host)))


@pytest.mark.parametrize(
    "request_",
    [
        scope(),
        scope(("host", "evil.example")),
        scope(("host", "evil.example"), ("host", "localhost")),
        scope(("host", "localhost"), client=("10.0.0.1", 5)),
        scope(("host", "localhost"), server=("10.0.0.1", 80)),
        scope(("host", "localhost"), client=None),
        *(
            scope(("host", "localhost"), (name, "10.0.0.1"))
            for name in ("forwarded", "x-forwarded-for", "x-real-ip")
        ),
    ],
)
def test_all_others_are_not(request_):
    assert not is_local(request_)


def test_the_first_header_of_a_name_counts():
    assert header(scope(("a", "1"), ("b", "2"), ("a", "3")), "a") == "1"
    assert header(scope(), "a") is None


@pytest.mark.parametrize(
    ("told", "token"),
    [
        ("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Bearer", None), ("Bearer  ", None),
        ("Basic abc", None), ("abc", None),
    ],
)  # fmt: skip
def test_a_bearer_token_is_read_whatever_the_case_of_its_scheme(told, token):
    assert bearer_token(scope(("authorization", told))) == token
    assert bearer_token(scope()) is None


@pytest.mark.parametrize(
    ("given", "token", "same"),
    [
        ("abc", "abc", True), ("abd", "abc", False), ("", "abc", False), ("abcd", "abc", False),
        (None, "abc", False), ("?", "ä", False), ("Ł", "?", False),
    ],
)  # fmt: skip
def test_only_the_servers_token_is_taken(given, token, same):
    assert is_token(given, token) is same


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_token_may_be_written_in_either_encoding(encoding):
    request = scope(("authorization", b"Bearer " + "schlüssel".encode(encoding)))
    assert is_token(bearer_token(request), "schlüssel")
