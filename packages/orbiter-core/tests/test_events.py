import pytest

from orbiter.events import EventBus


@pytest.fixture
def bus() -> EventBus:
    return EventBus()


async def test_handlers_get_the_data_in_the_order_they_were_added(bus):
    heard = []
    bus.on("step", lambda number: heard.append(("first", number)))
    bus.on("step", lambda number: heard.append(("second", number)))
    await bus.emit("step", number=1)
    assert heard == [("first", 1), ("second", 1)]


async def test_async_handlers_are_awaited_in_their_place(bus):
    heard = []

    async def slow(**_):
        heard.append("async")

    bus.on("step", slow)
    bus.on("step", lambda **_: heard.append("sync"))
    await bus.emit("step")
    assert heard == ["async", "sync"]


async def test_nobody_has_to_listen(bus):
    await bus.emit("step", number=1)
    assert not bus.has_handlers("step")


async def test_off_removes_the_first_occurrence_only(bus):
    heard = []

    def handler():
        heard.append(1)

    bus.on("step", handler)
    bus.on("step", handler)
    bus.off("step", handler)
    await bus.emit("step")
    assert heard == [1]


async def test_off_is_silent_about_strangers(bus):
    bus.off("step", print)
    bus.on("step", print)
    bus.off("step", repr)
    assert bus.has_handlers("step")


async def test_no_handler_is_left_after_the_last_off(bus):
    bus.on("step", print)
    bus.off("step", print)
    assert not bus.has_handlers("step")


async def test_clear_forgets_every_event(bus):
    bus.on("a", print)
    bus.on("b", print)
    bus.clear()
    assert not bus.has_handlers("a")
    assert not bus.has_handlers("b")


async def test_a_handler_may_remove_itself_while_it_runs(bus):
    heard = []

    def once():
        heard.append("once")
        bus.off("step", once)

    bus.on("step", once)
    bus.on("step", lambda: heard.append("always"))
    await bus.emit("step")
    await bus.emit("step")
    assert heard == ["once", "always", "always"]


async def test_what_a_handler_raises_reaches_the_caller(bus):
    def broken():
        raise ValueError("boom")

    bus.on("step", broken)
    with pytest.raises(ValueError, match="boom"):
        await bus.emit("step")
