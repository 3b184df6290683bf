"""However much a command prints, little of it is in memory and its last word is found."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker_wrapper.agents.json_output import last_object, objects, shortened
from worker_wrapper.process.output_buffer import OutputBuffer


@pytest.fixture
def spill(tmp_path: Path) -> Iterator[OutputBuffer]:
    spill = OutputBuffer(tmp_path, memory_bytes=8, disk_bytes=80)
    yield spill
    spill.close()


def filled(directory: Path, *parts: bytes) -> OutputBuffer:
    spill = OutputBuffer(directory)
    for part in parts:
        spill.write(part)
    return spill


def is_result(said: dict[str, object]) -> bool:
    return said.get("type") == "result"


def test_what_was_written_is_read_back_from_memory_and_disk_alike(spill: OutputBuffer) -> None:
    spill.write(b"0123456789")
    spill.write(b"abc")

    assert spill.size == 13
    assert spill.read(0, 100) == b"0123456789abc"
    assert spill.read(8, 4) == b"89ab"
    assert spill.read(12, 4) == b"c"
    assert spill.read(13, 4) == b""
    assert b"".join(spill.chunks(2, 11)) == b"23456789a"


def test_beyond_the_cap_the_oldest_is_forgotten_and_counted(spill: OutputBuffer) -> None:
    written = b"".join(b"%09d\n" % number for number in range(20))
    for start in range(0, len(written), 10):
        spill.write(written[start : start + 10])

    assert spill.size + spill.dropped == len(written)
    assert spill.size <= 100
    assert spill.read(0, 1000) == written[-spill.size :]


def test_without_a_usable_disk_the_end_is_kept(tmp_path: Path) -> None:
    spill = OutputBuffer(tmp_path / "missing", memory_bytes=8)

    spill.write(b"0123456789")
    spill.write(b"abcdef")

    assert spill.read(0, 100) == b"89abcdef"
    assert spill.dropped == 8


def test_a_disk_that_fills_up_within_a_write_costs_the_oldest_bytes_alone(
    spill: OutputBuffer,
) -> None:
    spill.write(b"0123456789")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12, hard))
    try:
        spill.write(b"abcdefghi")  # two bytes of it find room in the file
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert spill.read(0, 100) == b"cdefghi"
    assert spill.dropped == 12


def test_files_are_unnamed_and_gone_after_closing(spill: OutputBuffer, tmp_path: Path) -> None:
    spill.write(b"0123456789")
    assert list(tmp_path.iterdir()) == []

    spill.close()
    assert spill.size == 0


def test_what_is_given_back_when_nobody_reads_on_was_not_lost(spill: OutputBuffer) -> None:
    spill.write(b"0123456789")

    spill.close()

    assert spill.dropped == 0


def test_the_last_result_is_found_among_noise(tmp_path: Path) -> None:
    noise = b"warning: {not json}\n{also not\n" * 1000
    spill = filled(tmp_path, noise, b'{"type":"result","n":1}\n{"type":"result","n":2}\n', noise)

    assert last_object(spill, is_result) == {"type": "result", "n": 2}


@pytest.mark.parametrize("cut", [1, 3, 7, 64])
def test_lines_are_found_wherever_the_pieces_end(
    tmp_path: Path, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker_wrapper.process.output_buffer._CHUNK", cut)
    spill = filled(tmp_path, b'{"a":1}\nnoise\n{"b":2}\n{"c":3}\n\nx{"d":4}\n{"e":5}')

    assert list(objects(spill)) == [{"a": 1}, {"b": 2}, {"c": 3}, {"e": 5}]


def test_an_object_printed_over_several_lines_is_found(tmp_path: Path) -> None:
    said = {"type": "result", "result": "ok"}

    assert last_object(filled(tmp_path, json.dumps(said, indent=2).encode()), is_result) == said


@pytest.mark.parametrize("printed", [b"", b"{", b"[1]\n", b'{"type":', b"[" * 100_000, b"\xff\xfe"])
def test_where_there_is_no_result_nothing_is_found(tmp_path: Path, printed: bytes) -> None:
    assert last_object(filled(tmp_path, printed), is_result) is None


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize(
    "text",
    ["plain", "x" * 500, 'a "quoted" word ' * 50, "back\\slash \\" * 50, '\\"' * 99, "é€😀" * 99],
)
def test_of_a_long_string_the_end_is_kept_and_the_json_stays_valid(text: str, size: int) -> None:
    source = json.dumps({"before": 1, "text": text, "after": [text, None]}).encode()
    pieces = [source[start : start + size] for start in range(0, len(source), size)]

    copy = json.loads(shortened(pieces, keep=64) or b"")

    assert (copy["before"], copy["after"][1]) == (1, None)
    for kept in (copy["text"], copy["after"][0]):
        if kept != text:
            assert kept.split(" bytes left out] ", 1)[1][-5:] == text[-5:]
            assert len(kept) < 100
        else:
            assert len(json.dumps(text)) <= 66


def test_json_without_an_end_to_its_elements_is_given_up() -> None:
    assert shortened(b"[1,2,3]," * 20_000 for _ in range(100)) is None


_MEASURE = """
import asyncio, pathlib, re, sys
from worker_wrapper.process.command import Command
from worker_wrapper.agents.claude import AGENT
from worker_wrapper.process.run import run
from worker_wrapper.shutdown import StopTurn

async def main():
    outcome = await run(Command(("sh", "-c", sys.argv[1])), env={"PATH": "/usr/bin:/bin"},
        workdir=pathlib.Path("."), timeout_seconds=60, stop=StopTurn(),
        spill_dir=pathlib.Path(sys.argv[2]))
    result = AGENT.parse(outcome)
    status = pathlib.Path("/proc/self/status").read_text()
    peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) >> 10
    print(outcome.stdout.size >> 20, result.text[-20:].replace(" ", "_"), peak)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("script", "megabytes"),
    [
        ("yes 'some noise {}' | head -c 96M; echo; {result}", 96),
        ("yes '{{\"type\":1}}' | head -c 24M; echo; {result}", 24),
        ("printf '{{\"type\":\"result\",\"result\":\"'; yes 'line \\\\n' | tr -d '\\n' "
         "| head -c 50M; echo 'the end\"}}'", 50),
    ],
    ids=["noise", "noise-of-json", "one-huge-answer"],
)  # fmt: skip
def test_memory_does_not_follow_what_is_printed(
    tmp_path: Path, script: str, megabytes: int
) -> None:
    said = '{"type":"result","result":"the end"}'
    script = script.format("", result=f"echo '{said}'") if "{result}" in script else script.format()

    measured = subprocess.run(
        [sys.executable, "-c", _MEASURE, script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )

    size, text, peak = measured.stdout.split()
    assert int(size) == megabytes
    assert text.endswith("the_end")
    assert int(peak) < 60
