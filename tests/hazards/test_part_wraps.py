"""Programs that wrap only a part of their model: the whole is wrapped where that trains the same, and else nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from codemods.options import Options
from codemods.templates.parts import bare_keys
from migrator.convert.conversion import Conversion
from migrator.facts.wraps.part_models import SAMPLE_WISE_BESIDE
from migrator.verify import ForkServer, Status, VerifyRequest, verify
from tests.rules.tools import convert

from .trained import check_equal

HEAD = "        self.classifier = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))\n"
FORWARD = "        x = self.features(x)\n        return self.classifier(x.view(x.size(0), -1))\n"
BRANCHES = """\
    if args.arch.startswith("small") or args.arch.startswith("tiny"):
        model.features = nn.DataParallel(model.features)
        model.cuda()
    else:
        model = nn.DataParallel(model).cuda()
"""
PART = """\
    if torch.cuda.device_count() > 1:
        model.features = nn.DataParallel(model.features)
    model.cuda()
"""
LOSS = "            loss = criterion(model(x.cuda()), y.cuda())\n"
SAVED = 'torch.save({"state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")'
TEXT = f"""\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def features():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2))


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = features()
{HEAD}
    def forward(self, x):
{FORWARD}

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm, self.fc = features(), nn.BatchNorm1d(16), nn.Linear(16, 3)

    def forward(self, x):
        return self.fc(self.norm(self.stem(x).flatten(1)))


MODELS = {{"small": Small, "plain": Plain}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="small")
    parser.add_argument("--resume", default="")
    args = parser.parse_args()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(24, 1, 8, 8), torch.randint(3, (24,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = MODELS[args.arch]()
{BRANCHES}    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    if args.resume:
        checkpoint = torch.load(args.resume)
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(2):
        for x, y in loader:
{LOSS}            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        {SAVED}


if __name__ == "__main__":
    main()
"""
DROPOUT = ("nn.ReLU(), nn.Linear(8, 3)", "nn.Dropout(inplace=True), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3)")
TARGETS = ("ddp", "accelerate")


def edited(*edits: tuple[str, str]) -> str:
    text = TEXT
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def after(conversion: Conversion) -> str:
    return next(change.after for change in conversion.changes if change.path.endswith("train.py"))


# ---------------------------------------------------------------- what is written
def test_branches_that_come_to_the_same_become_one_line():
    text = after(convert(TEXT))
    assert convert(TEXT).reason == "each process loads its own share of every batch"
    assert "    model = MODELS[args.arch]()\n    model = wrap_model(model)\n    criterion" in text
    assert 'model.module.load_state_dict(bare_keys(checkpoint["state_dict"], "features"))' in text


def test_accelerate_prepares_the_whole():
    text = after(convert(TEXT, target="accelerate"))
    assert "    model = MODELS[args.arch]()\n    criterion" in text
    assert 'unwrap_model(model).load_state_dict(bare_keys(checkpoint["state_dict"], "features"))' in text


def test_a_branch_that_does_more_stays():
    text = after(convert(edited(("        model.cuda()\n    else", '        print("a part")\n    else'))))
    assert (
        '        model = wrap_model(model)\n        print("a part")\n    else:\n        model = wrap_model(model)\n'
        in text
    )


@pytest.mark.parametrize("more", ["", '            print("a part")\n'])
def test_below_another_choice_the_model_is_wrapped_once_behind_it(more: str):
    inner = "".join(f"    {line}\n" for line in BRANCHES.splitlines()).replace("        else", f"{more}        else")
    choice = f"    if args.gpu is not None:\n        model.cuda(args.gpu)\n    else:\n{inner}"
    gpu = (
        '    parser.add_argument("--resume"',
        '    parser.add_argument("--gpu", type=int)\n    parser.add_argument("--resume"',
    )
    text = after(convert(edited((BRANCHES, choice), gpu)))
    assert "\n    model = wrap_model(model)\n    criterion" in text and text.count(" wrap_model(model)\n") == 1


def test_two_models_in_the_same_branches_are_both_wrapped_whole():
    lines = [line.replace("model", "other") for line in BRANCHES.splitlines() if "model" in line]
    both = BRANCHES.splitlines()
    text = "\n".join([both[0], both[1], lines[0], both[2], lines[1], both[3], both[4], lines[2], ""])
    made = "    model = MODELS[args.arch]()\n"
    text = after(convert(edited((BRANCHES, text), (made, made + made.replace("model", "other")))))
    assert (
        f"{made.replace('model', 'other')}    model = wrap_model(model)\n    other = wrap_model(other)\n    criterion"
        in text
    )


def test_the_new_wrapper_has_the_place_of_the_parts():
    text = after(convert(edited((BRANCHES, PART))))
    assert (
        "    model = MODELS[args.arch]()\n    model = wrap_model(model)\n" in text
        and "DataParallel(model.f" not in text
    )


def test_new_keys_are_told_and_the_old_ones_can_be_had():
    told = [d.message for d in convert(TEXT).diagnostics if d.rule == "MG612" and d.level == "note"]
    assert len(told) == 1 and "--sampling call goes on with the old keys" in told[0]
    for options in ({"sampling": "call"}, {"target": "accelerate", "keep_prefix": True}):
        conversion = convert(TEXT, **options)
        assert conversion.way == "call" and "SplitDataParallel(model.features)" in after(conversion)


@pytest.mark.parametrize("target", TARGETS)
def test_dropout_beside_the_part_is_told(target: str):
    text = edited(DROPOUT)
    told = [d.message for d in convert(text, target=target).diagnostics if "dropout beside model.features" in d.message]
    assert len(told) == 1 and not [d for d in convert(TEXT, target=target).diagnostics if "dropout" in d.message]


@pytest.mark.parametrize("branches", [PART, BRANCHES])
def test_an_evaluation_reads_the_checkpoints_of_the_part_without_a_wrapper(branches: str):
    start, end = TEXT.index("    criterion = "), TEXT.index("\n\nif __name__")
    evaluation = '    model.load_state_dict(torch.load("old.pt"))\n    print(model.eval()(data[0][0][None].cuda()))\n'
    text = after(convert(TEXT[:start].replace(BRANCHES, branches) + evaluation + TEXT[end:]))
    assert 'model.load_state_dict(bare_keys(torch.load("old.pt"), "features"))' in text
    assert "DataParallel" not in text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("branches", [PART, BRANCHES])
def test_policies_for_the_model_are_followed_once(branches: str, target: str):
    text = after(convert(edited((BRANCHES, branches)), target=target, sync_bn=True, channels_last=True))
    assert (
        text.count("    model = sync_batch_norm(model)\n") == text.count("    model = use_channels_last(model)\n") == 1
    )


def test_the_ddp_form_converts_on_to_accelerate():
    form = after(convert(TEXT, inline_helpers=True))
    text = after(convert(form, target="accelerate"))
    assert 'accelerator.unwrap_model(model).load_state_dict(bare_keys(checkpoint["state_dict"], "features"))' in text
    assert " wrap_model(" not in text and "prepare(model, optimizer, loader)" in text


@pytest.mark.parametrize("target", TARGETS)
def test_a_second_run_changes_nothing(target: str):
    text = after(convert(TEXT, target=target))
    assert not [d for d in convert(text, target=target).diagnostics if d.fix]


# ---------------------------------------------------------------- what must stay
REFUSED = {
    "BatchNorm beside the part": (
        (HEAD, HEAD.replace("nn.ReLU(),", "nn.BatchNorm1d(8), nn.ReLU(),")),
        "statistics of the whole",
    ),
    "a layer of unknown kind beside the part": (
        (HEAD, HEAD.replace("nn.ReLU()", "nn.LSTM(8, 8)")),
        "keeps samples apart",
    ),
    "a layer that is not in sight": ((HEAD, HEAD.replace("nn.ReLU()", "make_layer()")), "keeps samples apart"),
    "layers from a list": (
        (HEAD, HEAD.replace("nn.Sequential(", "nn.Sequential(*[").replace("3))", "3)])")),
        "could not be found",
    ),
    "samples are compared": (
        (FORWARD, FORWARD.replace("return ", "x = x - x.mean(0)\n        return ")),
        "over the batch",
    ),
    "samples are compared by a product": (
        (FORWARD, FORWARD.replace("return ", "x = x.flatten(1)\n        x = x @ x.t() @ x\n        return ")),
        "not understood",
    ),
    "samples are weights": (
        (FORWARD, FORWARD.replace("return ", "x = nn.functional.linear(x.flatten(1), x.flatten(1))\n        return ")),
        "not understood",
    ),
    "the batch is counted": ((FORWARD, FORWARD.replace("-1))", "-1)) / x.size(0)")), "size of the batch"),
    "the last dimension may be the batch's": (
        (FORWARD, FORWARD.replace("return ", "x = x * x.mean([1, 2, 3]).softmax(-1)\n        return ")),
        "over the batch",
    ),
    "noise is drawn": (
        (FORWARD, FORWARD.replace("return ", "x = x + torch.randn(1)\n        return ")),
        "not understood",
    ),
    "something is kept": ((FORWARD, FORWARD.replace("return ", "self.seen = x\n        return ")), "kept beyond"),
    "the model comes from elsewhere": (("MODELS[args.arch]()", "hub.load(args.arch)"), "where the model is made"),
    "the part is called by itself": (
        (LOSS, LOSS.replace("model(x.cuda())", "model.classifier(model.features(x.cuda()).flatten(1))")),
        "past",
    ),
    "the rest is called by itself": ((LOSS, LOSS + "            model.classifier(torch.zeros(1, 16))\n"), "past"),
    "a layer is put into the rest": (
        (BRANCHES, "    model.classifier = nn.BatchNorm1d(16)\n" + BRANCHES),
        "statistics of the whole",
    ),
    "keys are looked at": ((SAVED, 'print([k for k in model.state_dict() if "features" in k])'), "looked at"),
    "the whole is saved as an object": ((SAVED, 'torch.save(model, "last.pt")'), "whole object"),
    "two parts are wrapped": (
        ("        model.cuda()\n    else", "        model.classifier = nn.DataParallel(model.classifier)\n    else"),
        "another part",
    ),
    "the part goes under another name": (("model.features = nn.Data", "model.wrapped = nn.Data"), "own place"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_split_at_the_part_with_the_reason_where(name: str):
    edit, reason = REFUSED[name]
    conversion = convert(edited(edit))
    assert conversion.way == "call" and "only a part of the model is wrapped; " in conversion.reason, conversion.reason
    assert reason in conversion.reason and "SplitDataParallel(model.features)" in after(conversion)


def test_it_is_split_where_a_step_leaves_parameters_beside_the_part_out():
    edit = (HEAD, HEAD + "        self.unused = nn.Linear(2, 2)\n")
    conversion = convert(edited(edit))
    assert conversion.way == "call" and "leaves parameters out" in conversion.reason


def test_another_obstacle_is_named_instead():
    conversion = convert(edited(("    for epoch", "    torch.set_rng_state(torch.get_rng_state())\n    for epoch")))
    assert conversion.way == "call" and "part" not in conversion.reason.partition("(")[2]


# ---------------------------------------------------------------- torchvision
TORCHVISION = (
    (
        "import torch\nfrom torch import nn\n",
        "import torch\nimport torchvision.models as models\nfrom torch import nn\n",
    ),
    ("MODELS[args.arch]()", "models.__dict__[args.arch]()"),
    ('startswith("small") or args.arch.startswith("tiny")', 'startswith("alexnet") or args.arch.startswith("vgg")'),
)


def test_models_of_torchvision_are_known_by_the_test_around_the_wrap():
    assert convert(edited(*TORCHVISION)).way == "distributed"
    other = convert(edited(*TORCHVISION[:2]))
    assert other.way == "call" and "torchvision's model" in other.reason


def test_a_model_of_the_program_that_is_added_to_torchvisions_is_read():
    added = 'def vgg_own():\n    return Small()\n\n\nmodels.__dict__["vgg_own"] = vgg_own\n'
    text = edited(*TORCHVISION, ('MODELS = {"small": Small, "plain": Plain}\n', added))
    assert convert(text).way == "distributed"
    assert convert(text.replace(HEAD, HEAD.replace("nn.ReLU(),", "nn.BatchNorm1d(8),"))).way == "call"


@pytest.mark.long
@pytest.mark.parametrize("part", SAMPLE_WISE_BESIDE)
def test_torchvisions_models_have_no_batch_norm_beside_the_parts(part: str):
    models = pytest.importorskip("torchvision.models")
    names = [name for name in models.list_models(module=models) if name.startswith(SAMPLE_WISE_BESIDE[part])]
    assert len(names) > 10
    for name in names:
        with torch.device("meta"):
            model = models.get_model(name, **({"init_weights": False} if name.startswith("vgg") else {}))
        kinds = {
            type(m).__name__
            for n, m in model.named_modules()
            if n and n.partition(".")[0] != part and not list(m.children())
        }
        assert kinds <= {"AdaptiveAvgPool2d", "Linear", "ReLU", "Dropout", "Conv2d"}, (name, kinds)


# ---------------------------------------------------------------- checkpoints
def test_every_kind_of_checkpoint_loads():
    def model() -> nn.Module:
        return nn.ModuleDict({"features": nn.Linear(2, 2), "classifier": nn.Linear(2, 2)})

    part, bare = model(), model()
    part["features"] = nn.DataParallel(part["features"])
    for old in (part, nn.DataParallel(part), nn.DataParallel(bare), bare):
        assert list(bare_keys(old.state_dict(), "features")) == list(bare.state_dict())


# ---------------------------------------------------------------- the same training
@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("accelerate",)) as server:
        yield server


EQUAL = {
    "two branches, the part": (),
    "two branches, the whole": (('default="small"', 'default="plain"'),),
    "the part alone": ((BRANCHES, PART),),
    "dropout beside the part": (DROPOUT,),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "name", [name if not EQUAL[name] else pytest.param(name, marks=pytest.mark.long) for name in EQUAL]
)
def test_the_whole_trains_as_the_part_did(
    name: str, target: str, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
):
    assert convert(edited(*EQUAL[name]), target=target).way == "distributed"
    check_equal(edited(*EQUAL[name]), tmp_path, server, monkeypatch, options=Options(target=target))


@pytest.mark.parametrize("target", ["ddp", pytest.param("accelerate", marks=pytest.mark.long)])
def test_training_goes_on_from_a_checkpoint_of_the_part(
    target: str, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
):
    namespace: dict[str, object] = {"__name__": "part"}
    exec(TEXT, namespace)
    model = namespace["Small"]()  # type: ignore[operator]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sum(p.square().sum() for p in model.parameters()).backward()
    optimizer.step()
    model.features = nn.DataParallel(model.features)
    assert "features.module.0.weight" in model.state_dict()
    torch.save({"state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "old.pt")
    text = edited(('"--resume", default=""', f'"--resume", default="{tmp_path / "old.pt"}"'))
    check_equal(text, tmp_path, server, monkeypatch, options=Options(target=target))


@pytest.mark.long
def test_another_dropout_beside_the_part_is_another_training(
    tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "train.py").write_text(edited(DROPOUT))
    changed = after(convert(edited(DROPOUT), inline_helpers=True)).replace("nn.Dropout()", "nn.Dropout(0.4)")
    (tmp_path / "train.py").write_text(changed)
    request = VerifyRequest(
        tmp_path / "before" / "train.py",
        tmp_path / "train.py",
        devices=2,
        float64=True,
        timeout=120,
        cwd=tmp_path / "before",
    )
    assert verify(request, server).status is Status.DIFFERENT
