"""What the accelerate form costs: against an accelerate program that an expert writes by hand, and against the DDP form.

    python -m benchmarks.accelerate_cost [--pairs 20] [--world 2]

In: nothing but torch, accelerate and scipy.  Out: a table with the collective calls and operator calls of a step, and CPU time (of
all ranks, loading, evaluation and checkpoints included) as a ratio, with its 95 % interval over interleaved pairs.  Exit code 1
where the generated program needs more collective calls or operators than the expert's, or the interval ends above 1.06.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.generated_against_expert import COMMON, CPU, OPERATORS, ORIGINAL, Counts, count, paired_ratio
from codemods.options import Options
from migrator.convert.pipeline import convert_program

EXPERT = (
    COMMON.format(
        imports="from accelerate import Accelerator\nfrom accelerate.utils import DataLoaderConfiguration", samplers=""
    )
    + """

def evaluate(model, loader, accelerator):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for inputs, targets in loader:
            predicted, targets = accelerator.gather_for_metrics((model(inputs).argmax(1), targets))
            correct += (predicted == targets).sum().item()
            total += targets.size(0)
    return correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(mixed_precision="no", dataloader_config=DataLoaderConfiguration(split_batches=True))
    train_set, test_set = images(256), images(64)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=args.batch_size)
    model = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    model, optimizer, train_loader, test_loader = accelerator.prepare(model, optimizer, train_loader, test_loader)
    torch.manual_seed(accelerator.process_index)
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for inputs, targets in train_loader:
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            total += loss.item()
        scheduler.step()
        mean = torch.tensor(total / len(train_loader), dtype=torch.float64, device=accelerator.device)
        mean = accelerator.reduce(mean, reduction="mean").item()
        accuracy = evaluate(model, test_loader, accelerator)
        accelerator.print(f"epoch {epoch}: loss {mean:.4f}, accuracy {accuracy:.4f}")
        if accuracy >= best:
            best = accuracy
            if accelerator.is_main_process:
                torch.save(accelerator.unwrap_model(model).state_dict(), "best.pt")
    accelerator.end_training()


if __name__ == "__main__":
    main()
"""
)
# The other side of each comparison, whether it is a limit, and both programs: text, and how it is converted.
GENERATED, BY_HAND, DDP = "accelerate", "accelerate by hand", "ddp"
FORMS: dict[str, tuple[str, Options | None]] = {
    GENERATED: (ORIGINAL, Options(target="accelerate")),
    BY_HAND: (EXPERT, None),
    DDP: (ORIGINAL, Options()),
    "--sampling batch": (ORIGINAL, Options(target="accelerate", sampling="batch")),
    "--sampling call": (ORIGINAL, Options(target="accelerate", sampling="call")),
}


def write_programs(folder: Path) -> dict[str, Path]:
    """Each form in a folder of its own."""
    programs = {}
    for number, (form, (text, options)) in enumerate(FORMS.items()):
        place = folder / f"form{number}"
        place.mkdir()
        programs[form] = place / "train.py"
        programs[form].write_text(text)
        conversion = convert_program(programs[form], options) if options is not None else None
        if conversion is not None and (conversion.questions or not conversion.changes):
            raise RuntimeError(f"{form}: not converted: {[d.message for d in conversion.diagnostics]}")
        for change in conversion.changes if conversion is not None else ():
            Path(change.path).write_text(change.after)
    return programs


def failures(own: Counts, expert: Counts, high: float) -> list[str]:
    """What the generated program needs too much of, to the program by hand."""
    found = []
    if own.calls > expert.calls or own.sent > expert.sent:
        found.append(f"collectives of a step are {own.collectives}, by hand {expert.collectives}")
    if own.operators > OPERATORS * expert.operators:
        found.append(f"{own.operators:.1f} operator calls in a step, more than 1 % above {expert.operators:.1f}")
    if high >= CPU:
        found.append(f"the CPU time's interval ends at {high:.3f}, not below {CPU}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=20, help="pairs of generated and by hand (default: 20)")
    parser.add_argument("--other-pairs", type=int, default=5, help="pairs of each other comparison (default: 5)")
    parser.add_argument("--world", type=int, default=2)
    args = parser.parse_args()
    os.environ.update(CUDA_VISIBLE_DEVICES="", ACCELERATE_USE_CPU="true")
    import accelerate

    with tempfile.TemporaryDirectory(prefix="mgmigrate-bench-") as name:
        programs = write_programs(Path(name))
        counts = {form: count(program, args.world) for form, program in programs.items()}
        print(
            f"per step and rank, {args.world} gloo ranks, torch {torch.__version__}, accelerate {accelerate.__version__}"
        )
        print(f"{'form':20s} {'operators':>9s} {'collectives':>11s} {'KiB':>8s}")
        for form, own in counts.items():
            print(f"{form:20s} {own.operators:9.1f} {own.calls:11.2f} {own.sent / 1024:8.1f}", flush=True)
        print(f"\n{'CPU time of':20s} {'to that of':20s}  ms a step  ratio")
        found: list[str] = []
        compared = [(GENERATED, BY_HAND), (GENERATED, DDP), ("--sampling batch", BY_HAND), ("--sampling call", BY_HAND)]
        for number, (form, other) in enumerate(compared):
            pairs = args.other_pairs if number else args.pairs
            sides = {form: programs[form], "expert": programs[other]}
            milliseconds, ratio, low, high = paired_ratio(sides, form, pairs, args.world)
            told = f"{milliseconds:9.1f}  {ratio:.3f} [{low:.3f}, {high:.3f}], {pairs} pairs"
            print(f"{form:20s} {other:20s}  {told}", flush=True)
            if not number:
                found = failures(counts[form], counts[other], high)
    for failure in found:
        print(f"TOO MUCH: {failure}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
