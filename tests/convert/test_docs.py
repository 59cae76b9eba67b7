"""The pages say what the program does."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOW = "out of date: run `python docs/generate.py`"


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_rules_is_up_to_date():
    assert (ROOT / "docs" / "rules.md").read_text(encoding="utf-8") == generator().rules_page(), HOW


def test_the_page_of_each_rule_is_up_to_date():
    folder = ROOT / "docs" / "rules"
    pages = generator().rule_pages()
    assert {path.name for path in folder.iterdir()} == set(pages), HOW
    assert not [name for name, text in pages.items() if (folder / name).read_text(encoding="utf-8") != text], HOW


def test_no_link_between_the_pages_is_broken():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    broken = []
    for page in pages:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            if "://" in target:
                continue
            found = (page.parent / path).resolve() if path else page
            if not found.exists() or (anchor and anchor not in anchors(found.read_text(encoding="utf-8"))):
                broken.append((page.name, target))
    assert not broken


def anchors(text: str) -> set[str]:
    """The anchors that a code host gives to headings."""
    heads = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?s)```.*?```", "", text))
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_diff_of_a_page_is_what_is_printed(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text == generator().readme(text), HOW
    assert "MG301" in re.search(r"```diff\n(.*?)```", text, re.S)[1]


def test_every_field_of_the_json_form_is_documented(cli, train):
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")

    def names(value):
        if isinstance(value, dict):
            return set(value) | {n for inner in value.values() for n in names(inner)}
        return {n for inner in value for n in names(inner)} if isinstance(value, list) else set()

    document = json.loads(cli("convert", "train.py", "--format", "json").stdout)
    missing = {name for name in names(document) if f"`{name}`" not in page}
    assert not missing
