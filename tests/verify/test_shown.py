"""Numbers on lines: which are metrics, which are times, which belong together.  No process is started here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from migrator.verify import EXIT_CODES, Status, Verdict, headline, to_json, to_text
from migrator.verify.shown import numbers_in, template_name
from migrator.verify.verdict import Finding, Row


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("epoch 3: accuracy 91.25 %", [3.0, 91.25]),
        ("Test: [0/1]\tTime 2.578 (2.578)\tLoss 0.5 (0.7)", [0.0, 1.0, 0.5, 0.7]),
        ("loss 1.5e-3, 12.5 s, 3.2 it/s, ETA 0:01:20", [0.0015]),
        ("Acc@1 12.500 speed 120.5 steps_per_sec 3", [1.0, 12.5]),
        ("epoch 2: steps_per_sec=3.51 loss=0.512", [2.0, 0.512]),
        ("{'train_samples_per_second': 812.33, 'eval_steps_per_second': 12.5, 'eval_accuracy': 0.91}", [0.91]),
        ("512.3 img/s, 0.512 loss", [0.512]),
        ("processed 812.1 samples per second, top1 91.2", [91.2]),
        ("wps 1234.5, ups 3.4, tokens/s 800", []),
        ("elapsed 12.51 | accuracy 0.912", [0.912]),
        ("Elapsed: 0:00:12.512, loss 0.5", [0.5]),
        ("training finished in 12.5 minutes, best 91.2", [91.2]),
        ("done in 3.21", []),
        ("ETA: 12.5, top1 91.2", [91.2]),
        ("eta 1 day, 0:01:20 loss 0.5", [0.5]),
        ("remaining 12.5", []),
        ("[2024-05-01 10:11:12,123] accuracy 0.912", [0.912]),
        ("2024-05-01T10:11:12.123456Z accuracy 0.912", [0.912]),
        ("05/01/2024 10:11:12 - INFO - accuracy 0.912", [0.912]),
        ("Wed May  1 10:11:12 2024 accuracy 0.912", [0.912]),
        ("[1714557072.123] accuracy 0.912", [0.912]),
        ("5s 12ms/step - loss: 0.512 - acc: 0.912", [0.512, 0.912]),
        ("10/10 [00:12<00:00,  1.25it/s, loss=0.512]", [10.0, 10.0, 0.512]),
        ("Memory allocated 12.3 GB, loss 0.5", [0.5]),
        ("/lib/optimizer.py:352: UserWarning: the rate is 0.5", []),
        ("I1130 12:22:57.918059 run_lib.py:146] eval_loss: 1.25", [1.25]),
        ("no number", []),
    ],
)
def test_times_and_speeds_are_no_metrics(line: str, values: list[float]) -> None:
    assert [n.value for n in numbers_in(line)[1]] == values


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("data: train, accuracy 0.912", [0.912]),
        ("min loss 0.512", [0.512]),
        ("batch accuracy 0.5 loss per step 0.25", [0.5, 0.25]),
        ("Average loss: 0.0512, Accuracy: 9123/10000 (91%)", [0.0512, 9123.0, 10000.0, 91.0]),
        ("may 0.5 mAP 31.2", [0.5, 31.2]),
        ("perplexity 1714.5, decay 5, margin 3", [1714.5, 5.0, 3.0]),
    ],
)
def test_metrics_beside_words_of_time_are_metrics(line: str, values: list[float]) -> None:
    assert [n.value for n in numbers_in(line)[1]] == values


def test_lines_are_paired_by_their_template() -> None:
    assert numbers_in("epoch 1: loss 0.25")[0] == numbers_in("epoch 12:  loss 11.5")[0]
    assert numbers_in("epoch 1: loss 0.25")[0] != numbers_in("epoch 1: accuracy 0.25")[0]


def test_bars_are_the_same_by_their_length_and_not_by_their_width() -> None:
    whole, wider = (
        "100%|##| 24/24 [00:03<00:00,  7.1it/s, acc=91.5]",
        "100%|######| 24/24 [00:09<00:00,  2.1it/s, acc=92.5]",
    )
    assert numbers_in(whole)[0] == numbers_in(wider)[0]
    assert [n.value for n in numbers_in(whole)[1]] == [91.5]
    assert numbers_in(whole)[0] != numbers_in("100%|##| 10/10 [00:03<00:00,  7.1it/s, acc=91.5]")[0]
    assert numbers_in(" 40%|##  | 4/10 [00:01<00:02,  2.9it/s, acc=91.5]")[1] == []  # which of them are shown is chance


def test_files_are_paired_without_the_numbers_in_their_names() -> None:
    assert template_name("runs/2024-01-02_model_0.513.pt") == template_name("runs/2025-11-30_model_0.498.pt")


def verdict(status: Status) -> Verdict:
    finding = Finding("loss", "loss: before 1, after 2", 3, "a sum", "train.py:7")
    return Verdict(
        status,
        reason="it hangs",
        findings=(finding,) if status is Status.DIFFERENT else (),
        rows=(Row(0, 0, 64, 64, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0),),
        steps=1,
        devices=4,
        tolerance=1e-5,
        no_gradient=("head.weight",),
    )


@pytest.mark.parametrize("status", list(Status), ids=lambda s: s.name)
def test_the_report_says_the_verdict_first_and_nothing_of_speed(status: Status) -> None:
    text = to_text(verdict(status))
    assert text.startswith(status.value)
    assert headline(verdict(status)) in text
    assert "proved" not in text and "faster" not in text
    assert f'"exit_code": {EXIT_CODES[status]}' in to_json(verdict(status))
    if status is Status.DIFFERENT:
        assert "train.py:7" in text and "-> a sum" in text
    assert "head.weight (convert with --find-unused)" in text


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, migrator.verify; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], timeout=60).returncode == 0
