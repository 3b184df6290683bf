"""The Lease: one acts, the others wait, and who cannot be sure does not act."""

import pytest

from orbiter_operator.kube.leader_election import Leader, LeaseLostError, NotLeadingError


class Clock:
    """Seconds that only move when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def replica(kube, clock):
    def make(identity: str) -> Leader:
        return Leader(
            kube,
            namespace="orbiter-system",
            name="operator",
            identity=identity,
            duration=10.0,
            renew=0.01,
            clock=clock,
        )

    return make


def holder(api):
    return api.get("leases", "orbiter-system", "operator")["spec"]["holderIdentity"]


async def test_the_first_replica_takes_the_lease_and_may_act(api, replica):
    leader = replica("a")
    with pytest.raises(NotLeadingError):
        leader.check()
    await leader.acquire()
    leader.check()
    assert holder(api) == "a"


async def test_the_second_waits_while_the_first_renews(api, replica, clock):
    first, second = replica("a"), replica("b")
    await first.acquire()
    assert await second._try_once() == "a"
    for _ in range(5):
        clock.now += 8
        assert await first._try_once() is None
        assert await second._try_once() == "a"


async def test_the_second_takes_over_when_the_first_is_silent_for_the_duration(api, replica, clock):
    first, second = replica("a"), replica("b")
    await first.acquire()
    await second._try_once()
    clock.now += 9
    assert await second._try_once() == "a"
    clock.now += 2
    assert await second._try_once() is None
    assert holder(api) == "b"


async def test_who_could_not_renew_in_time_does_not_act(replica, clock):
    leader = replica("a")
    await leader.acquire()
    clock.now += 10
    with pytest.raises(NotLeadingError):
        leader.check()


async def test_who_finds_another_in_its_place_ends(api, replica):
    first = replica("a")
    await first.acquire()
    api.patch("leases", "orbiter-system", "operator", {"spec": {"holderIdentity": "b"}})
    with pytest.raises(LeaseLostError, match="held by b"):
        await first.keep()
    with pytest.raises(NotLeadingError):
        first.check()


async def test_a_renewal_is_one_request(api, replica):
    first = replica("a")
    await first.acquire()
    await first._try_once()
    api.requests.clear()
    assert await first._try_once() is None
    assert dict(api.requests) == {("update", "leases"): 1}


@pytest.mark.parametrize("change", ["noted on", "deleted"])
async def test_a_lease_that_somebody_has_changed_is_still_held(api, replica, change):
    first = replica("a")
    await first.acquire()
    await first._try_once()
    if change == "deleted":
        api.remove("leases", "orbiter-system", "operator")
    else:
        note = {"metadata": {"annotations": {"team": "web"}}}
        api.patch("leases", "orbiter-system", "operator", note)
    assert await first._try_once() is None
    assert holder(api) == "a"


async def test_a_lease_that_was_given_back_is_taken_at_once(api, replica):
    first, second = replica("a"), replica("b")
    await first.acquire()
    await first.release()
    assert await second._try_once() is None
    assert holder(api) == "b"


async def test_nobody_gives_back_what_is_not_theirs(api, replica):
    first = replica("a")
    await first.acquire()
    api.patch("leases", "orbiter-system", "operator", {"spec": {"holderIdentity": "b"}})
    await first.release()
    assert holder(api) == "b"


async def test_a_restarted_container_goes_on_where_it_was(api, replica):
    await replica("a").acquire()
    again = replica("a")
    assert await again._try_once() is None


async def test_of_two_at_the_same_moment_one_wins(api, replica):
    first, second = replica("a"), replica("b")
    await first.acquire()
    await first.release()
    raced = []

    async def overtake(verb, plural, body):
        if (verb, plural) == ("update", "leases") and not raced:
            raced.append(1)
            spec = {"holderIdentity": "c"}
            api.patch("leases", "orbiter-system", "operator", {"spec": spec})

    api.before = overtake
    assert await second._try_once() is not None
    assert holder(api) == "c"


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {}}])
async def test_a_lease_that_somebody_has_made_by_hand_is_nobodys(api, replica, spec):
    meta = {"name": "operator", "namespace": "orbiter-system"}
    api.put("leases", {"metadata": meta, **spec})
    first = replica("a")
    await first.release()
    assert await first._try_once() is None
    assert holder(api) == "a"


async def test_the_lease_of_the_active_replica_may_be_emptied(api, replica):
    first = replica("a")
    await first.acquire()
    await first._try_once()
    lease = api.get("leases", "orbiter-system", "operator")
    api.put("leases", {"metadata": lease["metadata"]})
    assert await first._try_once() is None
    assert holder(api) == "a"
