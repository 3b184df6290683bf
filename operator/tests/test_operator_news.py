"""What the streams said and no status has yet: held in bounds."""

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_operator.kube.names import Key
from orbiter_operator.streams.pending_outputs import HELD_BYTES, Letter, News


def test_a_letter_beyond_what_is_held_is_only_told_of():
    news, key = News(), Key("team", "fix")
    output = DeveloperWorkerOutput(request_id="r", task_id="t")
    news.deliver(key, Letter("1-0", 1, output, HELD_BYTES))
    news.deliver(key, Letter("2-0", 1, output, 1))
    first, second = news.letters(key)
    assert (first.output, second.output) == (output, None)
    news.settle(key, (first, second))
    news.deliver(key, Letter("3-0", 1, output, HELD_BYTES))
    assert news.letters(key)[0].output == output
