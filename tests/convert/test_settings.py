"""Policies on the command line and in pyproject.toml: which one wins, and what is a mistake."""

import pytest

from migrator.policies import PRESETS, choose, faithful


@pytest.fixture
def settings(tmp_path):
    def write(text: str) -> None:
        (tmp_path / "pyproject.toml").write_text(text)

    return write


def table(text: str) -> str:
    return f"[tool.mgmigrate]\n{text}\n"


def test_defaults_without_a_file(tmp_path):
    options = choose({}, tmp_path)
    assert (options.batch, options.amp, options.seed_policy, options.evaluation) == (
        "global",
        "keep",
        "per-rank",
        "auto",
    )
    assert choose({}, None) == options


def test_the_nearest_file_with_a_table_counts(tmp_path, settings):
    settings(table('amp = "bf16"\nnproc = 4'))
    below = tmp_path / "src"
    below.mkdir()
    (below / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    options = choose({}, below / "train.py")
    assert (options.amp, options.nproc) == ("bf16", 4)


def test_flags_win_over_the_file(tmp_path, settings):
    settings(table('amp = "bf16"\nsync-bn = true\nselect = ["mg2"]'))
    options = choose({"amp": "off", "sync_bn": False, "select": ()}, tmp_path)
    assert (options.amp, options.sync_bn, options.select) == ("off", False, ("MG2",))


@pytest.mark.parametrize(
    ("file", "flags", "amp", "batch"),
    [
        ('preset = "fast"', {}, "bf16", "per-gpu"),
        ('preset = "fast"\namp = "keep"', {}, "keep", "per-gpu"),
        ('preset = "fast"', {"amp": "fp16"}, "fp16", "per-gpu"),
        ('amp = "fp16"', {"preset": "fast"}, "bf16", "per-gpu"),
        ('preset = "fast"', {"preset": "faithful"}, "keep", "global"),
        ('amp = "fp16"', {"preset": "faithful", "batch": "per-gpu"}, "keep", "per-gpu"),
    ],
)
def test_a_choice_wins_over_a_preset_of_the_same_place(tmp_path, settings, file, flags, amp, batch):
    settings(table(file))
    options = choose(flags, tmp_path)
    assert (options.amp, options.batch) == (amp, batch)


def test_the_faithful_form_of_any_options(tmp_path):
    options = choose({"preset": "fast", "sync_bn": True, "find_unused": True, "pg_timeout": 60}, None)
    kept = faithful(options)
    assert (kept.find_unused, kept.pg_timeout) == (True, 60)
    assert all(getattr(kept, name) == value for name, value in PRESETS["faithful"].items())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (table("btch = 1"), "has no setting btch"),
        (table('amp = "fp8"'), "it may be keep, off, bf16, fp16"),
        (table("nproc = true"), "it takes a whole number"),
        (table("nodes = 0"), "a number from 1"),
        (table('sync-bn = "yes"'), "it takes true or false"),
        (table("select = 3"), "it takes a list of rule ids"),
        (table("select = ['MG777']"), "no rule has the id or prefix MG777"),
        ("[tool.mgmigrate\n", "cannot be read"),
    ],
)
def test_a_mistake_in_the_file_is_a_usage_error(cli, train, settings, text, told):
    settings(text)
    done = cli("convert", "train.py")
    assert done.code == 2
    assert told in done.stderr
    assert done.stdout == b""


@pytest.mark.parametrize("words", [("--amp", "fp8"), ("--nproc", "0"), ("--master-port", "99999"), ("--batch", "big")])
def test_a_mistake_in_a_flag_is_a_usage_error(cli, train, words):
    assert cli("convert", "train.py", *words).code == 2


def test_a_preset_from_the_file_and_a_flag_against_a_part_of_it(cli, train, settings):
    settings(table('preset = "fast"\nnproc = 2'))
    text = cli("convert", "train.py", "--amp", "keep").text
    assert "scale_learning_rate(" in text
    assert "autocast" not in text
    done = cli("convert", "train.py", "--preset", "faithful")
    assert "scale_learning_rate(" not in done.text
    assert "torchrun --standalone --nproc_per_node=2 -- train.py" in done.stderr


def test_policies_do_not_stand_in_the_way_of_a_second_run(cli, train):
    words = ("--batch", "per-gpu", "--amp", "fp16", "--pg-timeout", "60", "--find-unused", "--allow-dirty")
    assert cli("convert", "train.py", "--write", *words).code == 0
    done = cli("convert", "train.py", "--check", *words)
    assert done.stdout == b""
    assert done.code == 0


def test_explain_says_why_and_from_where(cli):
    text = cli("explain", "MG401").text
    assert "Why it is not safe: Fewer and larger steps" in text
    assert "arXiv 1706.02677" in text
    assert "Why it is not safe" not in cli("explain", "MG201").text


def test_every_unsafe_rule_says_why():
    from codemods.registry import load_rules

    assert [
        rule.id for rule in load_rules() if rule.applicability == "unsafe" and not (rule.why and rule.sources)
    ] == []
