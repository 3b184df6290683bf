"""What pages type of helm names the namespace: else it would be the one of whoever's context."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.rglob("README.md"))]
FENCE = re.compile(r"^```(?:sh|console|bash|)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(helm [^`\n]*\borbiter\b[^`\n]*)`")
COMMAND = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*(helm (?:upgrade|install|rollback|uninstall)\b.*)$")


def commands(text: str) -> list[str]:
    """Every command that changes a release: those of blocks, and of a sentence that names one."""
    typed = [block.replace("\\\n", " ") for block in FENCE.findall(text)]
    lines = [line for block in typed for line in block.splitlines()] + INLINE.findall(text)
    return [found[1] for line in lines if (found := COMMAND.match(line))]


def names_its_namespace(command: str) -> bool:
    """Whether a command says `-n NAMESPACE`, in either spelling."""
    words = shlex.split(command, comments=True)
    return any(word in ("-n", "--namespace") for word in words[:-1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_helm_command_of_a_page_names_its_namespace(page: Path) -> None:
    nameless = [each for each in commands(page.read_text()) if not names_its_namespace(each)]
    assert nameless == [], "helm takes these for the context's namespace: add -n orbiter-system"


def test_the_commands_of_a_page_are_found() -> None:
    text = (
        "```sh\nhelm upgrade a b \\\n  --set x=1\n```\n```console\n$ helm rollback a -n c\n```\n"
        "`helm uninstall` is a verb, `helm uninstall orbiter` a command\n"
    )
    found = commands(text)
    assert [each.split()[1] for each in found] == ["upgrade", "rollback", "uninstall"]
    assert [names_its_namespace(each) for each in found] == [False, True, False]
    pages = {page.name for page in PAGES if commands(page.read_text())}
    assert {"README.md", "notify.md", "operations.md", "security.md"} <= pages
