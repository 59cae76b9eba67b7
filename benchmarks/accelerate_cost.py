"""What the accelerate form costs: against an accelerate program that an expert writes by hand, and against the DDP form.

    python -m benchmarks.accelerate_cost [--pairs 20] [--world 2]

In: nothing but torch, accelerate and scipy.  Out: the table of `step_cost`.  Exit code 1 where the generated program makes more
collective calls than the expert's, or needs more operators or time.
"""

from __future__ import annotations

import sys

from benchmarks.original import COMMON, ORIGINAL
from benchmarks.step_cost import Compared, Form, main
from codemods.options import Options

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
GENERATED, BY_HAND, DDP = "accelerate", "accelerate by hand", "ddp"
FORMS: dict[str, Form] = {
    GENERATED: (ORIGINAL, Options(target="accelerate")),
    BY_HAND: (EXPERT, None),
    DDP: (ORIGINAL, Options()),
    "--loss global": (ORIGINAL, Options(target="accelerate", loss="global")),
    "--sampling batch": (ORIGINAL, Options(target="accelerate", sampling="batch")),
    "--sampling call": (ORIGINAL, Options(target="accelerate", sampling="call")),
}
COMPARED = (
    Compared(GENERATED, BY_HAND, "most"),
    Compared(GENERATED, DDP),
    *(Compared(form, BY_HAND) for form in ("--loss global", "--sampling batch", "--sampling call")),
)

if __name__ == "__main__":
    sys.exit(main(__doc__ or "", FORMS, COMPARED))
