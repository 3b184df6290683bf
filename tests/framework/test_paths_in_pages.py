"""Pages name files of the repository: each is there, so that a move takes its pages along."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted(ROOT.glob("docs/*.md")),
    *(
        page
        for part in ("*", "packages/*", "helm/*")
        for page in sorted(ROOT.glob(f"{part}/README.md"))
    ),
]
ROOMS = "bench cluster contracts crds docs examples helm images operator packages tests wrapper"
PATH = re.compile(rf"(?<![\w./:{{~$-])(?:{'|'.join(ROOMS.split())})/[\w./*-]*+(?![:{{])")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page):
    """The names that links give to a page's headings."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in plain}


@every_page
def test_every_path_that_a_page_names_exists(page):
    for path in set(PATH.findall(page.read_text())):
        name = path.rstrip("./")
        found = any(any(home.glob(name)) for home in (ROOT, page.parent))
        assert found, f"{page.name} names {path}, which is not there"


@every_page
def test_every_link_within_the_repository_leads_somewhere(page):
    for path, anchor in LINK.findall(FENCE.sub("", page.read_text())):
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name} links to {path}, which is not there"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {path} has no heading #{anchor}"


def test_a_page_is_searched_where_it_names_files(tmp_path):
    text = "`tests/run.py`, [this](docs/a2a.md#tasks), https://host/docs/x, `wrapper/queue: …`"
    assert PATH.findall(text) == ["tests/run.py", "docs/a2a.md"]
    assert LINK.findall(text) == [("docs/a2a.md", "tasks")]
    page = tmp_path / "page.md"
    page.write_text("# The [first](x.md) one: `a_b`\n\n```sh\n# no heading\n```\n")
    assert anchors(page) == {"the-first-one-a_b"}
