"""What the streams said and no status has yet: held in bounds."""

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_operator.kube.names import Key
from orbiter_operator.streams.pending_outputs import HELD_BYTES, PendingOutput, PendingOutputs


def test_an_output_beyond_what_is_held_stays_in_redis():
    pending, key = PendingOutputs(), Key("team", "fix")
    output = DeveloperWorkerOutput(request_id="r", task_id="t")
    pending.deliver(key, PendingOutput("1-0", 1, output, HELD_BYTES))
    pending.deliver(key, PendingOutput("2-0", 1, output, 1))
    first, second = pending.of(key)
    assert (first.output, second.output) == (output, None)
    pending.settle(key, (first, second))
    pending.deliver(key, PendingOutput("3-0", 1, output, HELD_BYTES))
    assert pending.of(key)[0].output == output
