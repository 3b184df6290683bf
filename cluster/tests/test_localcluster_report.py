"""What a person reads while waiting."""

import io
import re

import pytest
from localcluster.report import Reporter


def test_a_step_is_one_line_with_its_elapsed_time() -> None:
    out = io.StringIO()
    with Reporter(out).step("starting the node", "about 8 s"):
        assert out.getvalue() == "starting the node (about 8 s) ..."
    assert re.fullmatch(r"starting the node \(about 8 s\) \.\.\. \d+\.\d s\n", out.getvalue())


def test_what_is_said_during_a_step_follows_its_line() -> None:
    out = io.StringIO()
    report = Reporter(out)
    with report.step("building"):
        report.say("note")
    assert re.fullmatch(r"building \.\.\. \d+\.\d s\nnote\n", out.getvalue())


def test_a_failed_step_says_so() -> None:
    out = io.StringIO()
    with pytest.raises(RuntimeError), Reporter(out).step("building"):
        raise RuntimeError
    assert re.fullmatch(r"building \.\.\. failed after \d+\.\d s\n", out.getvalue())
