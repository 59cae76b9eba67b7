"""Rules that look at one place at a time: what each leaves alone, and what it makes of the rest."""

import re

import pytest

from .tools import check_noop, check_question, check_rewrite, training

NOOP = [
    ("MG001", "x = torch.ones(1).cuda(non_blocking=True)", "a transfer in today's spelling stays"),
    ("MG102", 'os.environ["OMP_NUM_THREADS"] = "1"', "other variables of the environment stay"),
    ("MG102", 'print(os.environ.get("CUDA_VISIBLE_DEVICES"))', "reading the visible devices is harmless"),
    ("MG311", 'model.to("cuda")', "a device without an index is the process's own"),
    ("MG311", "model.cuda()", "cuda() without an index is the process's own"),
    ("MG311", 'print("cuda: 0 is busy")', "text that only mentions a device stays"),
    ("MG501", 'print("saved")', "prints come from one process anyway"),
    ("MG501", 'state = torch.load("model.pt")', "reading is not writing"),
    ("MG501", 'text = open("notes.txt").read()', "opening to read is not writing"),
    ("MG502", 'os.makedirs("out", exist_ok=True)', "a folder that may exist already is made by whoever comes first"),
    ("MG505", "print(input)", "the name of the function is no question"),
    ("MG901", "nn.parallel.DistributedDataParallel", "torch's own other wrapper is no look-alike"),
]
REWRITE = [
    (
        "MG001",
        "x = torch.ones(1).cuda(async=True)",
        "x = torch.ones(1).cuda(non_blocking=True)",
        "an old transfer keeps its meaning",
    ),
    ("MG311", 'y = inputs.to("cuda:0")', 'y = inputs.to("cuda")', "a fixed GPU becomes the process's own"),
    ("MG311", "y = inputs.cuda(0)", "y = inputs.cuda()", "an index in cuda() goes"),
    (
        "MG501",
        'torch.save(model.state_dict(), "model.pt")',
        'if dist.get_rank() == 0:\n    torch.save(model.state_dict(), "model.pt")',
        "a checkpoint is written by one process",
    ),
    (
        "MG501",
        'torch.save(model.state_dict(), "a.pt")\ntorch.save(optimizer.state_dict(), "b.pt")',
        'if dist.get_rank() == 0:\n    torch.save(model.state_dict(), "a.pt")\n    torch.save(optimizer.state_dict(), "b.pt")',
        "neighbours share one guard",
    ),
    (
        "MG501",
        'if epoch == 1: torch.save(model.state_dict(), "model.pt")  # the last',
        None,
        "a statement behind its condition on one line is guarded too",
    ),
    (
        "MG501",
        'with open("log.txt", "a") as log:\n    log.write(str(epoch))',
        'if dist.get_rank() == 0:\n    with open("log.txt", "a") as log:\n        log.write(str(epoch))',
        "a file that is opened and written is one process's",
    ),
    ("MG502", 'os.makedirs("out")', 'os.makedirs("out", exist_ok=True)', "whoever comes second finds the folder"),
]


@pytest.mark.parametrize(("rule", "lines"), [case[:2] for case in NOOP], ids=[case[2] for case in NOOP])
def test_noop(rule, lines):
    check_noop(training(lines), rule)


@pytest.mark.parametrize(("rule", "lines", "expected"), [c[:3] for c in REWRITE], ids=[c[3] for c in REWRITE])
def test_rewrite(rule, lines, expected):
    wanted = expected if expected is not None else ""
    conversion = check_rewrite(training(lines), wanted, rule)
    if expected is None:
        assert "# the last" in conversion.changes[0].after


def test_visible_devices_are_the_launchers():
    source = 'import os\n\nos.environ["CUDA_VISIBLE_DEVICES"] = "0,1"\n' + training("pass")
    conversion = check_rewrite(source, "import torch", "MG102")
    assert "CUDA_VISIBLE_DEVICES" not in conversion.changes[0].after


def test_processes_meet_before_anything_and_part_at_the_end():
    conversion = check_rewrite(training("pass"), "setup_distributed()", "MG101")
    lines = [line.strip() for line in conversion.changes[0].after.splitlines()]
    guard = next(i for i, line in enumerate(lines) if line.startswith("if __name__"))
    assert lines[guard + 1] == "setup_distributed()"
    assert lines[-1] == "dist.destroy_process_group()"
    assert lines.index("main()", guard) > guard + 1


def test_a_guard_of_one_line_and_a_loop_in_a_guard_end_without_stray_blanks():
    guarded = "if __name__ == '__main__':"
    text = training("pass").replace('if __name__ == "__main__":\n    main()', f"{guarded} main()")
    assert text.endswith(f"{guarded} main()\n")
    after = check_rewrite(text, "setup_distributed()", "MG101").changes[0].after
    assert after.endswith("    main()\n    dist.destroy_process_group()\n")
    looped = text.replace(f"{guarded} main()\n", f"{guarded}\n    for turn in range(2):\n        main()\n")
    after = check_rewrite(looped, "setup_distributed()", "MG101").changes[0].after
    assert after.endswith("        main()\n\n    dist.destroy_process_group()\n")


def test_a_guard_is_indented_as_the_block_that_it_stands_in():
    spaced = training("torch.save(model.state_dict(), 'a.pt')")
    text = "def first():\n    return 1\n\n\n" + spaced.replace("    ", "\t")
    after = check_rewrite(text, "\t\ttorch.save(model.state_dict(), 'a.pt')", "MG501").changes[0].after
    assert re.search(r"\n(\t+)if dist.get_rank\(\) == 0:\n\1\ttorch.save\(", after)


def test_each_process_reads_its_share_in_a_new_order_each_epoch():
    conversion = check_rewrite(training("pass"), "for inputs, targets in loader:", "MG201")
    after = conversion.changes[0].after
    assert "DistributedSampler(data" in after
    assert "set_epoch(epoch)" in after
    assert "nn.DataParallel(" not in after
    assert conversion.way == "distributed"


def test_whole_batches_everywhere_when_the_user_asks_for_it():
    conversion = check_rewrite(training("pass"), "model = SplitDataParallel(nn.Linear(4, 2))", "MG302", sampling="call")
    assert conversion.way == "call"


def test_a_question_to_the_user_is_asked_once():
    check_rewrite(training('name = input("name? ")'), "", "MG505")


def test_a_look_alike_of_the_project_is_left_to_a_person():
    source = training("pass").replace("import os\n", "import os\nfrom parallel import BalancedDataParallel\n", 1)
    source = source.replace("    optimizer =", "    other = BalancedDataParallel(model)\n    optimizer =")
    check_question(source, "BalancedDataParallel", "MG901")


def test_a_second_device_of_a_model_is_left_to_a_person():
    check_question(training('y = inputs.to("cuda:1")'), "cuda:1", "MG311")


@pytest.mark.parametrize("rule", ["MG501", "MG502"])
def test_a_suppression_leaves_the_line_alone(rule):
    line = {"MG501": 'torch.save(model.state_dict(), "m.pt")', "MG502": 'os.makedirs("out")'}[rule]
    check_noop(training(f"{line}  # mgmigrate: ignore[{rule}]"), rule)
