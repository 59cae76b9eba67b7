"""A program with a distributed branch of its own shares its batches where that branch is off by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source
from migrator.verify import ForkServer, Status, VerifyRequest, to_text, verify
from migrator.write.files import encoded

from .test_not_way_one import LOADER, Edit, edited
from .test_whole_batch import server
from .trained import check_equal

__all__ = ["server"]

OPTION: Edit = (
    "    args = parser.parse_args()\n",
    '    parser.add_argument("--local_rank", type=int, default=-1)\n    args = parser.parse_args()\n'
    '    if args.local_rank != -1:\n        torch.distributed.init_process_group("nccl")\n',
)
SAMPLER: Edit = (
    f"    loader = {LOADER}\n",
    "    if args.local_rank != -1:\n        sampler = torch.utils.data.distributed.DistributedSampler(data)\n"
    "    else:\n        sampler = None\n"
    "    loader = DataLoader(data, batch_size=args.batch_size, shuffle=sampler is None, sampler=sampler)\n",
)
WRAP: Edit = (
    "    model = nn.DataParallel(Net()).cuda()\n",
    "    model = Net().cuda()\n    if args.local_rank != -1:\n"
    "        model = nn.parallel.DistributedDataParallel(model, device_ids=[args.local_rank])\n"
    "    else:\n        model = nn.DataParallel(model)\n",
)
BRANCH = (OPTION, SAMPLER, WRAP)


def convert(folder: Path, monkeypatch: pytest.MonkeyPatch, *changes: Edit, last: Edit = ("", "")) -> Conversion:
    monkeypatch.chdir(folder)
    text = edited(*changes)
    assert not last[0] or text.count(last[0]) >= 1
    text = text.replace(*last) if last[0] else text
    compile(text, "train.py", "exec")
    return convert_program(Path("train.py"), Options(), Source("train.py", text))


def test_a_branch_that_an_option_turns_on_leaves_the_batch_to_be_shared(tmp_path: Path, monkeypatch) -> None:
    conversion = convert(tmp_path, monkeypatch, *BRANCH)
    assert conversion.way == "distributed", conversion.reason
    assert any(d.rule == "MG103" and "local_rank" in d.message for d in conversion.diagnostics)


def test_a_flag_that_is_made_of_two_options_is_read_through(tmp_path: Path, monkeypatch) -> None:
    flag = (
        'parser.add_argument("--nodes", type=int, default=1)\n    parser.add_argument("--spawn", action="store_true")\n'
    )
    made = "    args.several = args.nodes > 1 or args.spawn\n"
    branch = [(old, new.replace("args.local_rank != -1", "args.several")) for old, new in BRANCH]
    parsed = f"    {flag}    args = parser.parse_args()\n{made}"
    conversion = convert(tmp_path, monkeypatch, *branch, last=("    args = parser.parse_args()\n", parsed))
    assert conversion.way == "distributed", conversion.reason


FUNCTION: Edit = (
    "def main():\n",
    "def spread(model, several):\n    if several:\n        return nn.parallel.DistributedDataParallel(model)\n"
    "    model = nn.DataParallel(model)\n    return model\n\n\ndef main():\n",
)
SPREAD: Edit = (WRAP[0], "    model = spread(Net().cuda(), args.local_rank != -1)\n")


def test_a_flag_that_a_function_is_given_is_read_at_its_calls(tmp_path: Path, monkeypatch) -> None:
    conversion = convert(tmp_path, monkeypatch, OPTION, SAMPLER, SPREAD, FUNCTION)
    assert conversion.way == "distributed", conversion.reason


@pytest.mark.long
def test_it_trains_the_same_on_two_devices(tmp_path: Path, server: ForkServer, monkeypatch) -> None:
    check_equal(edited(OPTION, SAMPLER, SPREAD, FUNCTION), tmp_path, server, monkeypatch)


@pytest.mark.parametrize(
    "line",
    [
        "    spread(Net(), args.epochs)\n",
        "    print(spread)\n",
        "    spread(*[Net(), True])\n",
    ],
    ids=["another call gives another value", "the function is passed on", "a call whose arguments are not in sight"],
)
def test_a_flag_that_may_be_another_keeps_the_batch_whole(line: str, tmp_path: Path, monkeypatch) -> None:
    spread = (SPREAD[0], SPREAD[1] + line)
    conversion = convert(tmp_path, monkeypatch, OPTION, SAMPLER, spread, FUNCTION)
    assert conversion.way == "call", conversion.reason


STAY: dict[str, Edit] = {
    "a launcher's variable decides": ("default=-1", 'default=int(os.environ.get("LOCAL_RANK", -1))'),
    "it is on by default": ("default=-1", "default=0"),
    "a later statement decides": (
        "    args = parser.parse_args()\n",
        "    args = parser.parse_args()\n    args.local_rank = torch.cuda.device_count() - 2\n",
    ),
    "its wrap is behind another test": (
        "    if args.local_rank != -1:\n        model = nn",
        "    if torch.distributed.is_initialized():\n        model = nn",
    ),
    "it joins no group": ('        torch.distributed.init_process_group("nccl")\n', "        pass\n"),
}


@pytest.mark.parametrize("name", STAY)
def test_the_batch_stays_whole_where(name: str, tmp_path: Path, monkeypatch) -> None:
    conversion = convert(tmp_path, monkeypatch, *BRANCH, last=STAY[name])
    assert conversion.way == "call", conversion.reason


def test_a_flag_that_leaves_the_model_bare_keeps_the_batch_whole_whatever_its_default(
    tmp_path: Path, monkeypatch
) -> None:
    option = '    parser.add_argument("--plan", default="wide")\n    args = parser.parse_args()\n'
    wrap = '    model = Net().cuda()\n    if args.plan == "wide":\n        model = nn.DataParallel(model)\n'
    changes = (("    args = parser.parse_args()\n", option), (WRAP[0], wrap))
    conversion = convert(tmp_path, monkeypatch, *changes)
    assert conversion.way == "call", conversion.reason


SWITCHES = {
    "the variable": ('os.environ.get("RANK") is not None', ""),
    "a name made of it": ("several", '    several = int(os.getenv("WORLD_SIZE", "1")) > 1\n'),
    "an attribute made of it": ("args.rank >= 0", '    args.rank = int(os.environ.get("LOCAL_RANK", -1))\n'),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_branch_that_torchrun_switches_on_is_a_question(name: str, tmp_path: Path, monkeypatch) -> None:
    test, above = SWITCHES[name]
    join = (
        f"    args = parser.parse_args()\n{above}    if {test}:\n        torch.distributed.init_process_group('nccl')\n"
    )
    asked = convert(tmp_path, monkeypatch, ("    args = parser.parse_args()\n", "    import os\n" + join)).questions
    assert [d.rule for d in asked] == ["MG103"] and f"`{test}`" in asked[0].message


def test_a_function_that_torchrun_lets_go_on_to_its_group_is_a_question(tmp_path: Path, monkeypatch) -> None:
    lines = (
        '    def join():\n        if "RANK" not in os.environ:\n            return\n'
        "        torch.distributed.init_process_group('nccl')\n\n    join()\n"
    )
    made = ("    args = parser.parse_args()\n", "    args = parser.parse_args()\n    import os\n\n" + lines)
    asked = convert(tmp_path, monkeypatch, made).questions
    assert [d.rule for d in asked] == ["MG103"] and '"RANK" not in os.environ' in asked[0].message


def test_trains_the_same_on_two_devices(tmp_path: Path, server: ForkServer, monkeypatch) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for place in (before, after):
        place.mkdir()
        (place / "train.py").write_text(edited(*BRANCH))
    monkeypatch.chdir(after)
    for change in convert_program(Path("train.py"), Options()).changes:
        Path(change.path).write_bytes(encoded(change))
    request = VerifyRequest(before / "train.py", after, devices=2, float64=True, timeout=120, cwd=before)
    verdict = verify(request, server)
    assert verdict.status is Status.EQUAL, to_text(verdict)
