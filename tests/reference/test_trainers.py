"""The reference trainers are ordinary DataParallel programs: they train, say and write what they promise, and resume.

Each runs as a user would run it, in a process of its own, on a few samples; accuracy is the demo's business.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

TRAINERS = Path(__file__).resolve().parents[2] / "reference_trainers"
RESNET = ["--arch", "resnet8", "--batch-size", "8", "--workers", "0", "--seed", "3"]
BERT = ["--batch-size", "8", "--max-length", "16", "--samples", "24", "--workers", "0", "--logging-steps", "1"]


# Importing torch, torchvision and transformers takes longer than all the training here: imported once, then forked.
SERVER = """
import json, os, runpy, signal, sys, traceback
import sklearn.datasets, sklearn.model_selection, torch.utils.tensorboard, torchvision.models
from transformers import BertConfig, BertForSequenceClassification
for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid == 0:
        with open(job["output"], "w") as f:
            os.dup2(f.fileno(), 1)
            os.dup2(f.fileno(), 2)
        signal.alarm(120)
        sys.argv = job["argv"]
        code = 0
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # taking the interpreter down would cost two seconds
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def server():
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def run(server, tmp_path):
    """A function that runs a trainer with options in a process of its own and returns all that it printed."""

    def run_trainer(script: str, *options: str | Path, code: int = 0) -> str:
        output = tmp_path / "output"
        job = {"argv": [str(word) for word in (TRAINERS / script, *options)], "output": str(output)}
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        exit_code = int(server.stdout.readline())
        assert exit_code == code, output.read_text()
        return output.read_text()

    return run_trainer


def names(folder: Path) -> list[str]:
    return sorted(re.sub(r"tfevents.*", "tfevents", path.name) for path in folder.iterdir())


@pytest.mark.parametrize("script", ["resnet_dp.py", "bert_dp.py"])
def test_trainer_knows_dataparallel_and_nothing_newer(script):
    source = (TRAINERS / script).read_text()
    assert source.count("nn.DataParallel(") == 1
    for word in ("distributed", "RANK", "world_size", "accelerat", "migrator", "codemods", "reference_trainers"):
        assert word not in source, word


def test_resnet_trains_on_random_images_and_resumes_where_it_stopped(run, tmp_path):
    options = [*RESNET, "--synthetic", "--synthetic-samples", "20", "--image-size", "32", "--num-classes", "6"]
    first = run("resnet_dp.py", *options, "--epochs", "1", "--out", tmp_path / "run")
    assert "Epoch [0][0/3]" in first
    assert len(re.findall(r"^ \* Acc@1 [\d.]+ Acc@5 [\d.]+ Loss [\d.]+$", first, re.M)) == 1
    assert re.search(r"^best accuracy: [\d.]+$", first, re.M)
    checkpoint = torch.load(tmp_path / "run" / "checkpoint.pth.tar", weights_only=True)
    assert checkpoint["epoch"] == 1
    assert all(key.startswith("module.") for key in checkpoint["state_dict"])

    second = run(
        "resnet_dp.py", *options, "--epochs", "2", "--out", tmp_path, "--resume", tmp_path / "run/checkpoint.pth.tar"
    )
    assert "Epoch [1][0/3]" in second
    assert "Epoch [0]" not in second
    resumed = torch.load(tmp_path / "checkpoint.pth.tar", weights_only=True)
    assert resumed["epoch"] == 2
    assert resumed["best_acc1"] >= checkpoint["best_acc1"]
    assert resumed["optimizer"]["state"].keys() == checkpoint["optimizer"]["state"].keys() != set()


def test_resnet_reads_an_image_folder_of_two_classes(run, tmp_path):
    from PIL import Image

    for split in ("train", "val"):
        for name, colour in (("blue", (20, 20, 200)), ("red", (200, 20, 20))):
            folder = tmp_path / "images" / split / name
            folder.mkdir(parents=True)
            for i in range(6):
                Image.new("RGB", (40 + i, 50), colour).save(folder / f"{i}.png")
    options = ["--data", tmp_path / "images", "--image-size", "32", "--schedule", "step", "--milestones", "1"]
    said = run("resnet_dp.py", *RESNET, *options, "--epochs", "1", "--out", tmp_path / "run")
    assert "Epoch [0][0/2]" in said
    assert "Acc@5 100.000" in said  # two classes: the five best are all there are
    assert names(tmp_path / "run")[:2] == ["checkpoint.pth.tar", "events.out.tfevents"]


def test_resnet_evaluates_the_digits_without_writing(run, tmp_path):
    said = run("resnet_dp.py", *RESNET, "--evaluate", "--out", tmp_path / "run")
    assert len(re.findall(r"^ \* Acc@1", said, re.M)) == 1
    assert "Epoch" not in said
    assert not (tmp_path / "run").exists()


def test_bert_learns_from_a_folder_of_text_and_resumes_where_it_stopped(run, tmp_path):
    for name, line in (("birds", "the heron waits in the reeds. "), ("ships", "a ketch has two masts, a sloop one. ")):
        (tmp_path / "text" / name).mkdir(parents=True)
        for i in range(6):
            (tmp_path / "text" / name / f"{i}.txt").write_text(line * 20)
    options = [*BERT, "--text", tmp_path / "text", "--lr", "0.003"]
    first = run("bert_dp.py", *options, "--epochs", "2", "--out", tmp_path / "run")
    assert "Classes: birds, ships" in first
    assert "Best accuracy: 1.0000" in first
    assert names(tmp_path / "run") == ["best_model.pt", "checkpoint.pt", "eval_results.txt", "train.log"]
    assert "accuracy = 1.0000" in (tmp_path / "run" / "eval_results.txt").read_text()
    assert (tmp_path / "run" / "train.log").read_text().count(": eval loss") == 2
    checkpoint = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    assert checkpoint["epoch"] == 2
    assert not any(key.startswith("module.") for key in checkpoint["model"])

    second = run("bert_dp.py", *options, "--epochs", "3", "--out", tmp_path, "--resume", tmp_path / "run/checkpoint.pt")
    assert "Epoch 2 step 1/3" in second
    assert "Epoch 1 step" not in second
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["epoch"] == 3


def test_bert_trains_on_random_tokens(run, tmp_path):
    said = run("bert_dp.py", *BERT, "--synthetic", "--num-classes", "3", "--epochs", "1", "--out", tmp_path)
    assert "24 training and 6 validation samples" in said
    assert len(re.findall(r"Epoch 0 step \d/3: loss", said)) == 3


def test_bert_says_what_is_wrong_with_a_folder_without_classes(run, tmp_path):
    said = run("bert_dp.py", "--text", tmp_path, "--out", tmp_path / "run", code=1)
    assert "fewer than two sub-folders" in said
