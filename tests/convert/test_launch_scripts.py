"""MG107: lines of scripts and pages that start the program; shown, and written only with --scripts."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from .conftest import PROGRAM

GPU = "torchrun --standalone --nproc_per_node=gpu --"
TWO = "torchrun --standalone --nproc_per_node=2 --"
LINES = {
    "python train.py": f"{GPU} train.py",
    "  python3 -u ./train.py --lr 0.1 > log 2>&1 &": f"  {GPU} ./train.py --lr 0.1 > log 2>&1 &",
    "CUDA_VISIBLE_DEVICES=0,1 python train.py": f"CUDA_VISIBLE_DEVICES=0,1 {TWO} train.py",
    'CUDA_VISIBLE_DEVICES="4,7" python train.py': f'CUDA_VISIBLE_DEVICES="4,7" {TWO} train.py',
    "CUDA_VISIBLE_DEVICES=$1 python train.py": f"CUDA_VISIBLE_DEVICES=$1 {GPU} train.py",
    "srun nohup python train.py \\": f"srun nohup {GPU} train.py \\",
    "cd .. && python sub/../train.py": f"cd .. && {GPU} sub/../train.py",
    'python "$HERE/train.py" "$@"': f'{GPU} "$HERE/train.py" "$@"',
    "/opt/env/bin/python train.py": (
        "/opt/env/bin/python -m torch.distributed.run --standalone --nproc_per_node=gpu -- train.py"
    ),
    "if python train.py; then echo ok; fi": f"if {GPU} train.py; then echo ok; fi",
    "python -m torch.distributed.launch --nproc_per_node=4 --use_env train.py --a": (
        "torchrun --nproc_per_node=4 train.py --a"
    ),
}
LEFT = [
    "# python train.py",
    "echo python train.py",
    "python other.py",
    "python my_train.py",
    "python train.py.bak",
    "python -c 'import train'",
    "python -m pdb train.py",
    "CUDA_VISIBLE_DEVICES=3 python train.py",
    "torchrun train.py",
    "vi train.py",
    "python train.py  # mgmigrate: ignore",
    "ipython train.py",
    "python2 train.py",
    "python ../train.py",
]


def notes(done) -> list[str]:
    return [line.strip() for line in done.stderr.splitlines() if " MG107 " in line and "×" not in line]


@pytest.mark.parametrize(("line", "wanted"), LINES.items(), ids=LINES)
def test_a_line_that_starts_the_program_is_shown_and_written_only_with_scripts(cli, train, line, wanted):
    script = train.with_name("run.sh")
    script.write_bytes(f"#!/bin/sh\r\n{line}\r\n# größer\n".encode())
    script.chmod(0o750)
    before = script.read_bytes()
    shown = cli("convert", "train.py", "--output", "out")
    (note,) = notes(shown)
    assert note.startswith("run.sh:2: MG107 launch-scripts: this starts one process; for one on each GPU")
    assert note.endswith(wanted.strip())
    assert "run.sh" not in shown.text
    done = cli("convert", "train.py", "--scripts", "--write")
    assert done.code == 0, done.stderr
    assert script.read_bytes() == before.replace(line.encode(), wanted.encode())
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert "@@ MG107 launch-scripts: this starts one process for each GPU" in done.text
    assert not notes(done)


@pytest.mark.parametrize("line", LEFT)
def test_other_lines_are_left_alone_and_not_spoken_of(cli, train, line):
    (train.parent / "run.sh").write_text(f"{line}\n")
    done = cli("convert", "train.py", "--scripts")
    assert not notes(done)
    assert "run.sh" not in done.text


def test_a_line_that_gives_python_its_own_options_is_only_shown(cli, train):
    (train.parent / "run.sh").write_text("python -O train.py\n")
    done = cli("convert", "train.py", "--scripts")
    assert "run.sh" not in done.text
    assert "stays so: it gives Python -O" in notes(done)[0]


@pytest.mark.parametrize(
    "name",
    [
        "README",
        "README.md",
        "readme.rst",
        "docs/training.md",
        "Makefile",
        "job.slurm",
        "job.sbatch",
        "scripts/a.sh",
        "a/b/run.bash",
    ],
)
def test_scripts_and_pages_are_found_in_the_folders_around(cli, train, name):
    path = train.parent / name
    path.parent.mkdir(parents=True, exist_ok=True)
    line = f"\tpython {os.path.relpath(train, path.parent)}\n"
    path.write_text(line)
    cli("convert", "train.py", "--scripts", "--write")
    assert path.read_text().startswith(f"\t{GPU} ")


def test_inline_code_and_blocks_of_a_page(cli, train):
    page = train.with_name("README.md")
    page.write_text("# python train.py\nRun `python train.py`, or\n```\n$ python train.py --a\n```\n")
    cli("convert", "train.py", "--scripts", "--write")
    assert page.read_text() == f"# {GPU} train.py\nRun `{GPU} train.py`, or\n```\n$ {GPU} train.py --a\n```\n"


def test_gpus_that_are_exported_above_count(cli, train):
    script = train.with_name("run.sh")
    script.write_text("python train.py\nexport CUDA_VISIBLE_DEVICES=0,1,2\npython train.py\n")
    cli("convert", "train.py", "--scripts", "--write")
    assert script.read_text().splitlines()[2] == "torchrun --standalone --nproc_per_node=3 -- train.py"


def test_a_number_of_processes_that_is_given_wins(cli, train):
    (train.parent / "run.sh").write_text("CUDA_VISIBLE_DEVICES=0,1 python train.py\n")
    assert notes(cli("convert", "train.py", "--nproc", "8"))[0].endswith("--nproc_per_node=8 -- train.py")


def test_the_accelerate_form(cli, train):
    script, make = train.with_name("run.sh"), train.with_name("Makefile")
    script.write_text("CUDA_VISIBLE_DEVICES=0,1 python train.py --a\n")
    make.write_text("all:\n\t$(PYTHON) train.py\n")
    cli("convert", "train.py", "--to", "accelerate", "--scripts", "--write")
    rest = "--num_machines 1 --mixed_precision no --dynamo_backend no train.py"
    assert script.read_text() == (
        f"CUDA_VISIBLE_DEVICES=0,1 accelerate launch --multi_gpu --num_processes 2 {rest} --a\n"
    )
    counted = "$$(nvidia-smi --list-gpus | wc -l)"
    assert make.read_text() == (
        f"all:\n\t$(PYTHON) -m accelerate.commands.launch --multi_gpu --num_processes {counted} {rest}\n"
    )


def test_programs_of_one_name_in_several_folders_are_told_apart(cli, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(PROGRAM)
        (tmp_path / name / "run.sh").write_text("python train.py\n")
    (tmp_path / "all.sh").write_text("python one/train.py\npython two/train.py\n")
    done = cli("convert", ".", "--scripts", "--write")
    assert done.code == 0, done.stderr
    assert (tmp_path / "one" / "run.sh").read_text() == f"{GPU} train.py\n"
    assert (tmp_path / "all.sh").read_text() == f"{GPU} one/train.py\n{GPU} two/train.py\n"


def test_a_module_that_is_started_with_python_m(cli, tmp_path):
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "data.py").write_text("size = 64\n")
    (tmp_path / "pkg" / "train.py").write_text("from .data import size\n" + PROGRAM)
    (tmp_path / "run.sh").write_text("python -m pkg.train --epochs 3\npython -m pkg.other\n")
    cli("convert", "pkg/train.py", "--scripts", "--write")
    wanted = "torchrun --standalone --nproc_per_node=gpu -m pkg.train --epochs 3\npython -m pkg.other\n"
    assert (tmp_path / "run.sh").read_text() == wanted


def test_the_shell_hands_the_launcher_what_it_handed_python(cli, train):
    """The written script runs, with a stand-in that tells its arguments in the place of torchrun."""
    script = train.with_name("run.sh")
    script.write_text(
        'for lr in 0.1 "a b"; do\n  CUDA_VISIBLE_DEVICES=0,1 python train.py --lr "$lr" && echo done\ndone\n'
    )
    cli("convert", "train.py", "--scripts", "--write")
    fake = train.with_name("bin") / "torchrun"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nprintf "%s|" "$CUDA_VISIBLE_DEVICES" "$@"; echo\n')
    fake.chmod(0o755)
    path = f"{fake.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", script], env={**os.environ, "PATH": path}, cwd=train.parent, capture_output=True, text=True, check=True
    )
    head = "0,1|--standalone|--nproc_per_node=2|--|train.py|--lr|"
    assert done.stdout.splitlines() == [f"{head}0.1|", "done", f"{head}a b|", "done"]


def test_bytes_that_are_no_utf8_come_back(cli, train):
    script = train.with_name("run.sh")
    script.write_bytes(b"# \xff\xe9\npython train.py\n")
    cli("convert", "train.py", "--scripts", "--write")
    assert script.read_bytes() == b"# \xff\xe9\n" + f"{GPU} train.py\n".encode()


def test_a_setting_stands_for_the_flag(cli, train):
    (train.parent / "pyproject.toml").write_text("[tool.mgmigrate]\nscripts = true\n")
    (train.parent / "run.sh").write_text("python train.py\n")
    assert "run.sh" in cli("convert", "train.py").text


@pytest.mark.parametrize("program", ["print(1)\n", "from torch import nn\nprint(nn.DataParallel(nn.Linear(1, 1)))\n"])
def test_a_program_that_stays_one_process_has_no_launch_lines(cli, train, program):
    train.write_text(program)
    (train.parent / "run.sh").write_text("python train.py\n")
    assert not notes(cli("convert", "train.py", "--scripts"))


def test_scripts_are_looked_for_in_a_bounded_number_of_folders(cli, train):
    for number in range(400):
        (train.parent / f"d{number}").mkdir()
    (Path("d399") / "run.sh").write_text("python ../train.py\n")
    assert cli("convert", "train.py", "--scripts").code == 0


def test_folders_beside_the_program_are_searched_only_in_a_project(cli, train):
    for folder in ("mine", "other"):
        (train.parent / folder).mkdir()
    (train.parent / "mine" / "train.py").write_text(PROGRAM)
    (train.parent / "other" / "run.sh").write_text("python mine/train.py\n")
    (train.parent / "all.sh").write_text("python mine/train.py\n")
    done = cli("convert", "mine/train.py")
    assert done.code == 0 and [note.split(":")[0] for note in notes(done)] == ["all.sh"]
    (train.parent / "setup.py").write_text("")
    assert len(notes(cli("convert", "mine/train.py"))) == 2
