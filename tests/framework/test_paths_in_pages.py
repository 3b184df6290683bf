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
ROOMS = (
    "bench cluster contracts crds docs examples helm images operator "
    "packages release tests triggers wrapper"
)
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


CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def test_what_the_lists_of_files_say_of_a_file_is_in_it():
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", CONTRIBUTING, re.MULTILINE)
    named = [(PATH.findall(files), re.findall(r"`([A-Z_]{4,})`", what)) for files, what in rows]
    assert sum(len(names) for _, names in named) >= 7
    for paths, names in named:
        files = [file for path in paths for file in [ROOT / path, *(ROOT / path).glob("*.py")]]
        text = "".join(file.read_text() for file in files if file.is_file())
        for name in names:
            assert name in text, f"CONTRIBUTING.md says that {name} is in {', '.join(paths)}"


def test_every_file_listed_for_an_agent_adapter_knows_the_agent_codex():
    section = CONTRIBUTING.partition("## An agent adapter\n")[2].partition("\n## ")[0]
    files = [ROOT / path for path in PATH.findall(section)]
    assert len(files) > 20
    strangers = [f for f in files if f.is_file() and "codex" not in f.read_text().lower()]
    assert strangers == []
