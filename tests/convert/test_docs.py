"""The pages say what the program does."""

import importlib.util
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOW = "out of date: run `python docs/generate.py`"


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_rules_is_up_to_date():
    assert (ROOT / "docs" / "rules.md").read_text(encoding="utf-8") == generator().rules_page(), HOW


def test_the_diff_of_the_readme_is_what_is_printed():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
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
