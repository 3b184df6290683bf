"""POSessions as the whole operator follows them, whose metadata is written by strangers."""

import pytest
from support.talks import Talks

pytestmark = pytest.mark.integration


@pytest.fixture
def talks(world):
    return Talks(world.api, world.redis)


@pytest.fixture
async def operator(world, talks):
    """The program, after its first list, which is its own: what comes now, kopf sees first."""
    running = await world.start_operator()
    talks.apply("before")
    await talks.until("before", "Asleep")
    return running


def nested(depth):
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize(
    "annotations",
    [
        {"kopf.zalando.org/last-handled-configuration": "{not json"},
        {"kopf.zalando.org/last-handled-configuration": nested(100_000)},
        {"kopf.zalando.org/last-handled-configuration": "[1]"},
        {"kopf.zalando.org/posessions-event": "{not json", "kopf.dev/kopf-managed": "yes"},
    ],
    ids=["no JSON", "deep", "a list", "progress"],
)
async def test_what_the_watching_library_would_keep_in_annotations_is_not_read(
    world, operator, talks, annotations
):
    talks.apply("hostile", metadata={"annotations": annotations})
    await talks.send("hostile")
    assert await talks.answered("hostile") == ["re: hello"]
    await talks.until("hostile", "Asleep")
    metadata = world.api.get("posessions", "team", "hostile")["metadata"]
    assert metadata["annotations"] == annotations


async def test_the_watching_librarys_finalizer_is_left_to_whoever_set_it(world, operator, talks):
    finalizers = ["kopf.zalando.org/KopfFinalizerMarker"]
    talks.apply("marked", metadata={"finalizers": finalizers})
    await talks.until("marked", "Asleep")
    await talks.send("marked")
    assert await talks.answered("marked") == ["re: hello"]
    assert world.api.get("posessions", "team", "marked")["metadata"]["finalizers"] == finalizers
    assert "kopf.objects" not in operator.log.read_text(), "kopf asked for a change"
