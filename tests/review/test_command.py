"""The command `review`, and `convert --report`."""

import importlib.util
import webbrowser
from dataclasses import replace
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.cli.convert import convert
from migrator.cli.options import read_options
from migrator.cli.quick import parse_plainly
from migrator.convert.pipeline import convert_program
from migrator.formats.diff import diff_text
from migrator.review.commands import check_commands, convert_command
from tests.convert.conftest import ASKS, PROGRAM

from .reading import read


@pytest.fixture
def train(cli, tmp_path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def test_review_opens_a_page_and_changes_nothing(cli, train, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda uri: opened.append(uri) or True)
    done = cli("review", "train.py")
    assert (done.code, done.stdout) == (0, b"")
    (uri,) = opened
    assert uri.startswith("file://")
    assert uri.endswith("/review.html")
    page = Path(uri.removeprefix("file://"))
    assert f"opened {page}" in done.stderr
    assert read(page.read_text()).all("article")[0].attributes["data-entry"] == "train.py"
    assert train.read_text() == PROGRAM
    assert [p.name for p in train.parent.iterdir()] == ["train.py"]
    page.unlink()
    page.parent.rmdir()


def test_without_a_browser_it_says_where_the_page_is(cli, train, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda uri: False)
    assert cli("review", "train.py", "--output", "page.html").stderr == "the review is in page.html\n"
    assert Path("page.html").exists()


def test_no_open_opens_nothing(cli, train, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda uri: pytest.fail("a browser was opened"))
    assert cli("review", "train.py", "--no-open", "--output", "page.html").code == 0


def test_review_ends_with_3_where_a_person_must_decide(cli, train):
    train.write_text(ASKS)
    assert cli("review", "train.py", "--no-open", "--output", "page.html").code == 3


def test_a_report_is_the_same_page_beside_the_usual_output(cli, train):
    cli("review", "train.py", "--no-open", "--output", "page.html")
    plain = cli("convert", "train.py")
    done = cli("convert", "train.py", "--report", "report.html")
    assert (done.code, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)
    assert Path("report.html").read_bytes() == Path("page.html").read_bytes()


def test_a_report_tells_of_the_program_as_it_was_before_write(cli, train):
    cli("convert", "train.py", "--report", "report.html", "--write", "--allow-dirty")
    assert train.read_text() != PROGRAM
    assert "nn.DataParallel(nn.Linear(4, 2))" in read(Path("report.html").read_text()).all(id="p1-map")[0].text


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["convert", "train.py", "--report", "report.odt"], 2, "the suffix names the form of a report"),
        (["convert", "-", "--report", "report.html"], 2, "standard input"),
        (["convert", "train.py", "--report", "no/such/folder/r.html"], 4, "cannot be written"),
        (["review", "train.py", "--output", "page.txt"], 2, "the page is HTML"),
        (["review", "nothing.py"], 4, "no such file"),
        (["review", "train.py", "train.py", "--select", "MG999"], 2, "no rule has the id or prefix MG999"),
    ],
    ids=["suffix", "standard input", "folder", "output", "file", "rule"],
)
def test_what_cannot_be_done_is_said_in_one_line(cli, train, words, code, told):
    done = cli(*words, stdin=PROGRAM.encode())
    assert done.code == code
    assert told in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("words", [["review", "train.py"], ["convert", "train.py", "--report", "r.html"]])
def test_without_the_extra_it_says_in_one_line_what_to_install(cli, train, monkeypatch, words):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "jinja2" else found(name, *rest)
    )
    done = cli(*words)
    assert done.code in (2, 4)
    assert done.stderr == "mgmigrate: the review page needs jinja2: pip install 'mgmigrate[report]'\n"
    assert done.stdout == b""


def test_a_verdict_is_for_one_program(cli, train, tmp_path):
    (tmp_path / "other.py").write_text(PROGRAM)
    Path("v.json").write_text(
        '{"status": "NOT VERIFIABLE", "schema": 1, "reason": "no data", "findings": [], "notes": [], "steps": 0}'
    )
    assert cli("review", ".", "--verdict", "v.json", "--no-open").code == 2
    done = cli("review", "train.py", "--verdict", "v.json", "--no-open", "--output", "page.html")
    assert done.code == 0, done.stderr
    assert "NOT VERIFIABLE no data" in Path("page.html").read_text().replace("</b>", "")


# ---------------------------------------------------------------- the commands that the page offers
@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(target="accelerate", keep_prefix=True),
        Options(sampling="call", loss="local", evaluation="replicate", unsafe=True),
        Options(batch="per-gpu", amp="bf16", sync_bn=True, channels_last=True, find_unused=True, seed_policy="same"),
        Options(pg_timeout=900, nodes=2, master_port=29501),
        Options(select=("MG1", "MG3"), ignore=("MG503",)),
    ],
    ids=["none", "accelerate", "sharing", "training", "processes", "rules"],
)
def test_the_command_on_the_page_means_the_same_options(folder, options):
    import shlex

    words = shlex.split(convert_command("a file.py", replace(options, nproc=0)))[2:]
    values = parse_plainly(convert, words)
    if values is None:  # what has bounds is left to typer
        assert options.pg_timeout
        assert words[words.index("--pg-timeout") + 1] == "900"
        return
    assert values["paths"] == [Path("a file.py")]
    flags = {field: values.get(field) for field in ("loss", "evaluation", "batch", "amp", "sync_bn", "channels_last")}
    flags |= {field: values.get(field) for field in ("find_unused", "seed_policy", "sampling", "keep_prefix", "unsafe")}
    flags["target"] = values["to"]
    assert read_options(flags, values["select"], values["ignore"], folder) == options


def test_what_verify_does_not_take_is_converted_first():
    plain, of_result = check_commands("src/train.py", Options())
    assert plain == "mgmigrate verify src/train.py --to ddp"
    assert of_result == "mgmigrate verify src/train.py converted/train.py"
    whole, _ = check_commands("src/train.py", Options(ignore=("MG503",)))
    assert whole == f"mgmigrate convert src/train.py --to ddp --ignore MG503 --output converted && {of_result}"


def test_leaving_out_whole_rules_by_id_or_by_selection_gives_the_same_program(folder, tmp_path):
    from migrator.convert.selection import Selection, chosen_ids, fix_ids, selected

    train = tmp_path / "train.py"
    train.write_text(PROGRAM)
    whole = convert_program(train, Options())
    gone = tuple(name for name in fix_ids(whole) if name.startswith("MG501"))
    kept = tuple(name for name in fix_ids(whole) if name not in gone)
    choice = Selection("train.py", kept, gone)
    by_file = convert_program(train, Options(), choose=selected(lambda conversion: chosen_ids(conversion, choice)))
    assert gone
    assert diff_text(by_file) == diff_text(convert_program(train, Options(ignore=("MG501",))))
