"""What a spec says of skills of repositories: the models and the resource definitions agree."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from orbiter_contracts.skills import MAX_SKILLS, Skill, SkillRepository

CRDS = Path(__file__).parents[2] / "crds"
KINDS = ("agenttask", "posession", "agentprofile", "clusteragentprofile")
URL = "https://git.example.com/team/skills.git"


def fields_of(kind: str) -> dict[str, Any]:
    """The properties of `spec.agent.skills[].git` as a resource definition has them."""
    [version] = yaml.safe_load((CRDS / f"{kind}.yaml").read_text())["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    skills = spec["agent"]["properties"]["skills"]
    assert skills["maxItems"] == MAX_SKILLS
    found: dict[str, Any] = skills["items"]["properties"]["git"]["properties"]
    return found


def admits(field: dict[str, Any], text: str) -> bool:
    """Whether the patterns of a field admit a text."""
    [rule] = field["x-kubernetes-validations"]
    patterns = [json.loads(f'"{one}"') for one in re.findall(r"matches\('(.*?)'\)", rule["rule"])]
    assert patterns
    return len(text) <= field["maxLength"] and any(re.search(one, text) for one in patterns)


def test_all_four_kinds_say_the_same() -> None:
    first, *others = [fields_of(kind) for kind in KINDS]
    assert all(each == first for each in others)


@pytest.mark.parametrize(
    ("field", "text", "good"),
    [
        *(("url", text, True) for text in (URL, "ssh://git@h/x", "git@h:x/y", "git://h/x")),
        *(("url", text, True) for text in ("HTTPS://h/x", "http://h:8080/x")),
        *(("url", text, False) for text in ("file:///etc", "/etc", "ext::sh -c id", "x")),
        *(("url", text, False) for text in ("https://-h/x", "-x@h:y", "--upload-pack=x")),
        *(("ref", text, True) for text in ("main", "v1.2", "a/b", "0" * 40, "refs/tags/v1")),
        *(("ref", text, False) for text in ("-x", "--x", "a b", "a^", "a:b", "a*", "a\\b", "")),
        *(("path", text, True) for text in ("a", "skills/notes", ".x", "..x", "a/.b/c..", "a b")),
        *(("path", text, False) for text in ("", ".", "..", "/a", "a/", "a//b", "a/../b", "./a")),
        *(("path", text, False) for text in ("../x", "../../etc", "x" * 1001)),
    ],
)
def test_the_models_and_the_resource_definitions_admit_the_same(
    field: str, text: str, good: bool
) -> None:
    assert admits(fields_of("agenttask")[field], text) is good
    said = {"url": URL} | {field: text}
    if good:
        assert getattr(SkillRepository.model_validate(said), field) == text
    else:
        with pytest.raises(ValidationError):
            SkillRepository.model_validate(said)


@pytest.mark.parametrize("url", ["https://u:pw@h/x", "https://u@h/x", "ssh://u:pw@h/x"])
def test_a_url_with_credentials_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Skill.model_validate({"name": "a", "git": {"url": url}})
    [error] = refused.value.errors(include_url=False, include_input=False)
    assert "credentials" in error["msg"]
    assert "pw" not in error["msg"]
