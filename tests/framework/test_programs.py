"""The programs of docs/ are run as they are written: from their file, asking a scripted server."""

import struct
import sys
import zlib
from pathlib import Path

import pytest
from support.console_pages import fits, steps_of
from support.markdown_blocks import blocks_of, programs_of
from support.model_wire import WireServer
from support.page_replies import answer_of, surroundings
from support.processes import finished

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = [(page, program) for page in PAGES for program in programs_of(page)]
WHOLE = ["caching.md", "fallback.md", "images.md", "testing.md", "thinking.md"]
"""Pages that have nothing but programs."""


PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio"]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


GIVEN = {
    "chart.png": b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">2I5B", 1, 1, 8, 0, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress(b"\0\0"))
    + _chunk(b"IEND", b""),
    "invoice.pdf": b"%PDF-1.4\n%%EOF\n",
}
"""What users have beside a program that reads it."""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("page", "program"), PROGRAMS, ids=[f"{page.stem}-{block.file}" for page, block in PROGRAMS]
)
async def test_a_program_does_what_its_page_tells(page, program, tmp_path):
    for name, data in GIVEN.items():
        (tmp_path / name).write_bytes(data)
    file = tmp_path / program.file
    file.write_text(program.code)
    way = PYTEST if file.stem.startswith("test_") else []
    async with WireServer().running() as model:
        model.answers = [answer_of(n, reply) for n, reply in enumerate(program.replies)]
        command = [sys.executable, *way, file.name]
        status, printed = await finished(command, tmp_path, surroundings(model.url, tmp_path))
    where = f"{page.name}, line {program.line}"
    assert status == 0, f"{where} fails:\n{printed}"
    assert fits(program.prints.splitlines(), printed), f"{where} prints:\n{printed}"
    assert not model.answers, f"{where}: the model still had {len(model.answers)} replies"


def test_there_are_a_dozen_programs():
    assert len(PROGRAMS) >= 12
    assert ROOT / "README.md" in {page for page, _ in PROGRAMS}


@pytest.mark.parametrize("name", WHOLE)
def test_a_page_of_programs_has_no_block_that_is_not_run(name):
    page = ROOT / "docs" / name
    assert blocks_of(page) == programs_of(page) != []
    assert steps_of(page) == [step for step in steps_of(page) if step.file]


def test_a_program_has_its_name_its_replies_and_what_it_prints(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '<!-- replies: ["hi"] -->\n<!-- file: a.py -->\n\n```python\nx\n```\n\n```text\n1\n```\n'
        "\n<!-- file: b.py -->\n```python\ny\n```\n\nNot what it prints:\n\n```text\n1\n```\n"
    )
    [program] = programs_of(page)
    assert (program.file, program.replies, program.prints) == ("a.py", ["hi"], "1\n")
