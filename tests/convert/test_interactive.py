"""Fixes are asked about one by one: in this process with given answers, and on a real (pseudo) terminal."""

import json
import time
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.cli.interactive import Terminal, ask_for_selection
from migrator.convert.pipeline import convert_program
from migrator.convert.selection import fix_ids, load_selection

from .conftest import PROGRAM
from .terminal import OnTerminal


def asked(path: str, answers: str, **options):
    """Answer the questions in turn ("-" is the end of input); gives the selection and what was told and asked."""
    conversion = convert_program(Path(path), Options(**options))
    given, told = iter(answers), []

    def ask(prompt):
        told.append(prompt)
        answer = next(given)
        return None if answer == "-" else answer

    selection = ask_for_selection(conversion, Terminal(ask, told.append, lambda _, line: line))
    assert next(given, None) is None, "not all answers were wanted"
    assert set(selection.accept) | set(selection.refuse) == set(fix_ids(conversion))
    return selection, told


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_each_fix_is_shown_by_itself_with_its_reason_before_the_question(train):
    _, told = asked("train.py", "yyyyyyy")
    saving = next(text for text in told if "MG501@train.py:23" in text)
    assert "only one process writes" in saving
    assert '+        if dist.get_rank() == 0:\n+            torch.save(model.state_dict(), "model.pt")\n' in saving
    assert "set_epoch" not in saving
    assert any("with setup_distributed" in text for text in told)
    assert any(text.startswith("(3/7) Take this fix [y,n,a,d,q,?]? ") for text in told)


def test_what_falls_with_a_refused_fix_is_said_and_not_asked(train):
    selection, told = asked("train.py", "yyyny")  # not the loader
    assert set(selection.refuse) == {"MG201@train.py:13", "MG202@train.py:18", "MG203@train.py:17"}
    assert "  left out with it: MG202@train.py:18 set-epoch (it builds on shard-loader)\n" in told
    assert any("this breaks promise 1, trajectory" in text for text in told)


def test_a_takes_and_d_leaves_out_the_rest_of_the_file(train):
    selection, _ = asked("train.py", "ya")
    assert not selection.refuse
    selection, _ = asked("train.py", "yyyd")
    assert len(selection.accept) == 3


def test_q_and_the_end_of_input_leave_out_the_rest(train):
    for end in "q-":
        selection, _ = asked("train.py", f"yyy{end}")
        assert len(selection.accept) == 3
        assert len(selection.refuse) == 4


def test_a_and_d_are_about_one_file(train, tmp_path):
    (tmp_path / "saving.py").write_text(
        "import torch\n\n\ndef save(model):\n    torch.save(model.state_dict(), 'm.pt')\n"
    )
    train.write_text(
        PROGRAM.replace("import torch\n", "import torch\n\nfrom saving import save\n", 1).replace(
            'torch.save(model.state_dict(), "model.pt")', "save(model)"
        )
    )
    selection, _ = asked("train.py", "an")
    assert selection.refuse == ("MG501@saving.py:5",)


def test_anything_else_explains_the_answers(train):
    selection, told = asked("train.py", "?xa")
    assert not selection.refuse
    assert sum("q - leave this fix and all that are left out" in text for text in told) == 2


def test_a_fix_that_spans_files_is_shown_and_taken_whole(train, tmp_path):
    (tmp_path / "data.py").write_text(
        "from torch.utils.data import DataLoader\n\n\ndef loader(data, accelerator_free=True):\n"
        "    return DataLoader(data, batch_size=16, shuffle=True)\n"
    )
    (tmp_path / "steps.py").write_text(
        "def train(model, loader, optimizer, criterion):\n    for inputs, targets in loader:\n"
        "        loss = criterion(model(inputs), targets)\n        optimizer.zero_grad()\n"
        "        loss.backward()\n        optimizer.step()\n"
    )
    head, _, tail = PROGRAM.partition("        for inputs")
    text = head + "        train(model, loader, optimizer, criterion)\n" + tail[tail.index("        torch.save") :]
    train.write_text(text.replace("import torch\n", "import torch\n\nfrom steps import train\n", 1))
    _, told = asked("train.py", "a" * 2, target="accelerate")
    shown = next(text for text in told if "MG108@" in text)
    assert "+++ b/steps.py" in shown
    assert "+++ b/train.py" in shown


# ---------------------------------------------------------------- a real terminal
def test_answers_on_a_terminal_are_written_kept_and_taken_again(cli, train, tmp_path):
    with OnTerminal(tmp_path, "train.py", "-i", "--write", "--save-selection", "chosen.json", NO_COLOR="1") as terminal:
        for answer in "yyyyyy":
            terminal.until("Take this fix [y,n,a,d,q,?]? ")
            terminal.send(f"{answer}\n")
        assert "MG501@train.py:23" in terminal.until("Take this fix [y,n,a,d,q,?]? ")
        terminal.send("n\n")
        terminal.until("this breaks promise 4, once")
        assert terminal.end() == 3
    by_hand = train.read_text()
    assert "wrap_model(" in by_hand
    assert "get_rank() == 0:\n" not in by_hand
    assert load_selection(tmp_path / "chosen.json").refuse == ("MG501@train.py:23",)
    train.write_text(PROGRAM)
    assert cli("convert", "train.py", "--apply", "chosen.json", "--write").code == 3
    assert train.read_text() == by_hand


def test_control_c_changes_nothing(train, tmp_path):
    with OnTerminal(tmp_path, "train.py", "-i", "--write") as terminal:
        assert "\x1b[32m+" in terminal.until("Take this fix [y,n,a,d,q,?]? ")
        time.sleep(0.3)  # nobody is as quick as to interrupt between the question and the reading of the answer
        terminal.send("\x03")
        assert "stopped; nothing was changed" in terminal.until("nothing was changed")
        assert terminal.end() == 130
    assert train.read_text() == PROGRAM


def test_a_question_needs_a_terminal(cli, train, tmp_path):
    done = cli("convert", "train.py", "--interactive", stdin=b"y\n")
    assert (done.code, "asks on a terminal" in done.stderr) == (2, True)
    (tmp_path / "s.json").write_text(json.dumps({"version": 1, "entry": "train.py", "refuse": []}))
    assert "leave out --interactive" in cli("convert", "train.py", "-i", "--apply", "s.json").stderr
    assert "keeps the answers of --interactive" in cli("convert", "train.py", "--save-selection", "x.json").stderr
