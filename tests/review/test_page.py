"""The review page as a document: everything that a conversion holds stands on it, and nothing else can."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from migrator.convert.selection import fix_ids
from migrator.formats.diff import hunks
from migrator.review.verdict import Finding, Verdict
from tests.convert.conftest import ASKS, PLAIN, PROGRAM

from .conftest import convert, page_of
from .reading import Element, read

# A program that wraps a part of its model.
PART = PROGRAM.replace(
    "\n\ndef main",
    """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Sequential(nn.Dropout(), nn.Linear(8, 2))

    def forward(self, x):
        return self.head(self.body(x))


def main""",
).replace("nn.DataParallel(nn.Linear(4, 2))", "Net()\n    model.body = nn.DataParallel(model.body)")


def code_of(hunk: Element, *tags: str, faded: bool = False) -> list[str]:
    """The lines of a hunk by what happened to them: del, ins, span (they stayed)."""
    lines = [line for line in hunk.all(*tags, class_="l") if not line.has("class_", "o")]
    return [line.text for line in lines if line.has("class_", "x") is faded]


# ---------------------------------------------------------------- what stands on it
def test_every_fix_stands_on_the_page_with_rule_reason_place_and_applicability(folder):
    conversion = convert(PROGRAM)
    document = read(page_of(conversion))
    shown = {fix.attributes["data-fix"]: fix for fix in document.all(class_="fix")}
    assert set(shown) == set(fix_ids(conversion))
    for name, diagnostic in fix_ids(conversion).items():
        text = shown[name].text
        assert diagnostic.fix.reason[1:] in text
        assert f"{diagnostic.at.path}:{diagnostic.at.line}" in text
        assert diagnostic.applicability in text
        assert shown[name].attributes["data-rule"] == diagnostic.rule


def test_every_link_inside_the_page_leads_somewhere_and_rules_lead_to_their_documentation(page):
    document = read(page())
    ids = [element.attributes["id"] for element in document.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = [link.attributes["href"] for link in document.all("a")]
    assert links
    assert {link[1:] for link in links} <= set(ids)
    assert all(link.startswith("#") for link in links)
    for rule in {fix.attributes["data-rule"] for fix in document.all(class_="fix")}:
        (text,) = document.all(id=f"rule-{rule}")
        assert len(text.all("p")) > 1


def test_a_fix_shows_its_own_lines_and_fades_those_of_others(folder):
    document = read(page_of(convert(PROGRAM)))
    (fix,) = [f for f in document.all(class_="fix") if f.attributes["data-rule"] == "MG301"]
    assert code_of(fix, "del") == ["    model = nn.DataParallel(nn.Linear(4, 2))"]
    assert code_of(fix, "ins") == ["    model = wrap_model(nn.Linear(4, 2))"]
    own = [line for line in fix.all("del", "ins") if not line.has("class_", "x")]
    assert [mark.text for line in own for mark in line.all("mark")] == ["nn.DataParallel", "wrap_model"]
    assert any("sampler=train_sampler" in line for line in code_of(fix, "ins", faded=True))


def test_every_changed_line_belongs_to_a_fix_a_helper_or_an_import(project):
    _, conversion = project
    document = read(page_of(conversion))
    own = {line for fix in document.all(class_="fix") for line in code_of(fix, "ins", "del")}
    own |= {line for part in document.all(id="p1-helpers") for line in code_of(part, "ins")}
    whole = [line for file in document.all("details") for line in code_of(file, "ins", "del")]
    assert len(whole) > 200
    rest = [line for line in whole if line.strip() and line not in own]
    (helpers,) = [change for change in conversion.changes if change.before is None]
    head = helpers.after.partition("def ")[0]
    assert rest == [line for line in head.splitlines() if line and line not in own]  # of the new file itself


def test_the_whole_diff_by_file_is_the_diff(folder):
    conversion = convert(PROGRAM)
    (file,) = read(page_of(conversion)).all("details")
    lines = [line.rstrip("\n") for hunk in hunks(conversion.changes[0]) for line in hunk.lines]
    assert [f"-{line.text}" for line in file.all("del")] == [line for line in lines if line[0] == "-"]
    assert [f"+{line.text}" for line in file.all("ins")] == [line for line in lines if line[0] == "+"]


def test_helpers_stand_once_and_their_fixes_lead_to_them(page):
    document = read(page())
    names = [helper.attributes["id"] for helper in document.all("section", class_="helper")]
    assert "p1-helper-setup_distributed" in names
    assert len(names) == len(set(names))
    called = {link.attributes["href"][1:] for line in document.all(class_="with") for link in line.all("a")}
    assert called <= set(names)
    (one,) = document.all(id="p1-helper-wrap_model")
    assert "def wrap_model(model, **options):" in code_of(one, "ins")
    assert [link.text for link in one.all("a")] == ["MG301@train.py:14"]


def test_an_indented_line_is_that_line_with_its_new_indentation_marked(page):
    (fix,) = [f for f in read(page()).all(class_="fix") if f.attributes["data-rule"] == "MG501"]
    assert code_of(fix, "ins") == [
        "        if dist.get_rank() == 0:",
        '            torch.save(model.state_dict(), "model.pt")',
    ]
    assert [mark.text for mark in fix.all("mark")] == ["    "]


def test_the_map_names_entry_model_loader_optimizer_loops_and_saves_with_their_places(page):
    (found,) = read(page()).all("dl", class_="map")
    rows = dict(zip([row.text for row in found.all("dt")], [row.text for row in found.all("dd")], strict=True))
    assert "main()" in rows["Entry"]
    assert "train.py:27" in rows["Entry"]
    assert "nn.DataParallel(nn.Linear(4, 2))" in rows["Wrapped model"]
    assert "batch_size=16" in rows["Data loaders"]
    assert "the training loader" in rows["Data loaders"]
    assert "torch.optim.SGD" in rows["Optimizers"]
    assert "for epoch in range(args.epochs):" in rows["Epochs"]
    assert "for inputs, targets in loader:" in rows["Training loop"]
    assert 'torch.save(model.state_dict(), "model.pt")' in rows["Saves and logs"]


def test_the_map_says_what_was_not_found(folder):
    text = PROGRAM.replace("import argparse", "import argparse\nfrom elsewhere import fetch")
    (found,) = read(page_of(convert(text.replace("in loader:", "in fetch(loader):")))).all("dl", class_="map")
    assert "the loader of the training loop could not be found" in found.text
    text = "import torch\nfrom elsewhere import make\n\nmodel = torch.nn.DataParallel(make())\nmodel(1).backward()\n"
    (found,) = read(page_of(convert(text))).all("dl", class_="map")
    missing = [row.text for row in found.all("p", class_="missing")]
    assert "No loop over batches that could be followed" in missing
    assert "No optimizer of torch" in missing


def test_what_a_person_must_decide_stands_before_everything_else(folder):
    document = read(page_of(convert(ASKS)))
    order = [part.attributes["id"] for part in document.all("section", class_="part") if "id" in part.attributes]
    assert order[:3] == ["p1-ask", "p1-run", "p1-map"]
    (asked,) = document.all(id="p1-ask")
    assert "BalancedDataParallel(model)" in asked.text
    assert "train.py:17" in asked.text


def test_the_launch_line_is_there_to_copy(page):
    copies = [button.attributes["data-copy"] for button in read(page()).all("button", class_="copy")]
    assert copies == [
        "mgmigrate verify train.py --to ddp",
        "mgmigrate convert train.py --to ddp --write",
        "torchrun --standalone --nproc_per_node=gpu -- train.py",
    ]


def test_a_fix_that_is_not_safe_says_why(page):
    document = read(page(batch="per-gpu"))
    unsafe = [fix for fix in document.all(class_="fix") if fix.all(class_="unsafe")]
    assert unsafe
    assert any(text.text.startswith("Not safe:") for text in document.all("p", class_="why"))
    assert "--batch per-gpu" in document.all("p", class_="changed-on-purpose")[0].text


def test_a_program_with_nothing_to_do_has_a_page_that_says_so(page):
    document = read(page(PLAIN))
    assert document.all(class_="lead")[0].text == "Nothing to do: this program does not use DataParallel."
    assert not document.all(id="p1-notes")
    assert not document.all(class_="fix")
    assert not document.all("aside")
    assert "--write" not in document.all("main")[0].text


def test_several_programs_share_a_page_and_what_cannot_be_read_is_named(cli, tmp_path):
    (tmp_path / "a.py").write_text(PROGRAM)
    (tmp_path / "b.py").write_text(ASKS)
    (tmp_path / "c.py").write_text(PROGRAM.replace("def main():", "def main(:"))
    done = cli("review", ".", "--no-open", "--output", "page.html")
    assert done.code == 3
    document = read((tmp_path / "page.html").read_text())
    assert [part.attributes["data-entry"] for part in document.all("article")] == ["a.py", "b.py"]
    assert "c.py" in document.all(class_="failed")[0].text
    ids = [element.attributes["id"] for element in document.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))


def test_a_notebook_is_told_by_cells_and_starts_without_torchrun(folder):
    body = PROGRAM.replace("import argparse\n\n", "").replace("args.epochs", "2")
    body = "".join(line for line in body.splitlines(True) if "pars" not in line).partition("\n\n\nif __name__")[0]
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": body}]
    cells += [{**cells[0], "source": "main()\n"}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    document = read(page_of(convert(json.dumps(notebook), "train.ipynb")))
    (wrap,) = [fix for fix in document.all(class_="fix") if fix.attributes["data-rule"] == "MG301"]
    assert "train.ipynb:cell 1" in wrap.all("figcaption")[0].text
    assert code_of(wrap, "ins") == ["    model = wrap_model(nn.Linear(4, 2))"]
    assert all(fix.all("figure") for fix in document.all(class_="fix"))
    assert "train.ipynb:cell 2:1" in document.all("dl", class_="map")[0].text
    copies = [button.attributes["data-copy"] for button in document.all("button", class_="copy")]
    assert copies == ["mgmigrate convert train.ipynb --to ddp --write"]


def test_a_program_in_ddp_form_is_not_said_to_use_data_parallel(folder):
    Path("train.py").write_text(convert(PROGRAM).changes[0].after)  # what this tool makes is such a program
    conversion = convert(Path("train.py").read_text(), target="accelerate")
    document = read(page_of(conversion, target="accelerate"))
    assert conversion.changes
    assert document.all("header", class_="top")[0].text.split()[:3] == ["DistributedDataParallel", "→", "Hugging"]
    assert "Distributed already" in document.all("dl", class_="map")[0].text


# ---------------------------------------------------------------- what verify said
def verdict(status: str = "EQUAL", *findings: Finding) -> Verdict:
    return Verdict(
        status, "12 optimizer steps compared on 4 simulated devices", findings, ("dropout differs",), 12, "v.json"
    )


def test_an_equal_verdict_stands_above_and_beside_every_fix(folder):
    document = read(page_of(convert(PROGRAM), verdict()))
    assert "EQUAL 12 optimizer steps" in document.all(class_="verdict")[0].text
    fixes = document.all(class_="fix")
    assert [fix.all(class_="of-verdict")[0].text for fix in fixes] == ["verify: no difference in 12 steps"] * len(fixes)


def test_a_difference_stands_beside_the_fix_that_may_have_caused_it_and_no_other(folder):
    found = verdict("DIFFERENT", Finding("wrap", "gradients differ", "look at the `loss`", "train.py:14"))
    document = read(page_of(convert(PROGRAM), found))
    told = {fix.attributes["data-fix"]: fix.all(class_="of-verdict") for fix in document.all(class_="fix")}
    assert told["MG301@train.py:14"][0].text == "verify: may have caused a difference in wrap"
    assert [name for name, rows in told.items() if rows] == ["MG301@train.py:14"]
    assert "gradients differ" in document.all(class_="finding")[0].text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not JSON"),
        ("[]", "is no verdict"),
        ('{"status": "EQUAL", "schema": 2}', "is no verdict"),
        ('{"status": "EQUAL", "schema": 1}', "is no whole verdict"),
    ],
)
def test_a_file_that_is_no_verdict_is_refused_in_one_line(cli, train_file, text, told):
    Path("v.json").write_text(text)
    done = cli("review", "train.py", "--no-open", "--output", "page.html", "--verdict", "v.json")
    assert done.code == 4
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("page.html").exists()


@pytest.fixture
def train_file(cli, tmp_path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path / "train.py"


# ---------------------------------------------------------------- nothing from a network, and little of it
def test_the_page_loads_nothing_and_only_its_own_script_and_style_may_run(page):
    text = page()
    document = read(text)
    assert not document.all("link", "img", "iframe", "object", "embed", "base")
    assert not [e for e in document.all() if {"src", "srcset", "action", "background", "style"} & set(e.attributes)]
    (script,), (style,) = document.all("script"), document.all("style")
    assert not re.search(r"url\(|@import", style.text)
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|importScripts|innerHTML|outerHTML|eval)\b", script.text
    )
    (policy,) = [m.attributes["content"] for m in document.all("meta") if "http-equiv" in m.attributes]
    digests = [
        f"'sha256-{base64.b64encode(hashlib.sha256(part.text.encode()).digest()).decode()}'" for part in (style, script)
    ]
    assert policy == (
        f"default-src 'none'; style-src {digests[0]}; script-src {digests[1]}; base-uri 'none'; form-action 'none'"
    )


def test_sixty_hunks_in_eight_files_stay_far_under_two_mebibytes(project):
    entry, conversion = project
    assert len(list(entry.parent.glob("*.py"))) == 8
    text = page_of(conversion)
    document = read(text)
    hunks = [hunk for fix in document.all(class_="fix") for hunk in fix.all("figure")]
    assert len(hunks) >= 60
    assert len(text.encode()) < 1 << 20


def test_a_line_without_end_is_cut_and_said_so(page):
    text = PROGRAM.replace("batch_size=16", f"batch_size=16 + 0 * len('{'x' * 300_000}')")
    shown = page(text)
    assert len(shown) < 400_000
    assert "more characters" in shown


def test_nothing_stands_in_the_way_of_a_partly_wrapped_model_that_is_wrapped_whole(page):
    whole, split = page(PART), page(PART.replace("Dropout()", "BatchNorm1d(8)"))
    assert "only a part of the model is wrapped" not in whole and "only a part of the model is wrapped" in split
