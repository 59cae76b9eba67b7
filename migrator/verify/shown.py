"""What the runs showed, saved and evaluated, compared: numbers alone miss it.

In: the records of both sides and the files that each wrote.  Out: findings and notes.  Printed numbers are paired by the
template of their line and its occurrence; a number that follows a training loss is rank 0's share and only noted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .comparison import Comparison
from .matching import count_common
from .records import Record

NUMBER = re.compile(
    r"(?<![\w.])[-+]?\d+\.\d+(?:[eE][-+]?\d+)?|(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w])|\d+\.\d+(?:[eE][-+]?\d+)?"
)
TIMING = re.compile(
    r"(?:time\b|\btime|\beta\b|elapsed|speed|sec\b|secs\b|seconds?\b|\bms\b|ms/|s/it|it/s|/s\b|\bfps\b|\bdata\b|\bbatch\b"
    r"|\bhours?\b|\bminutes?\b|\bmin\b|\bmem|date|\bgpu\b|took|cost\b|duration|throughput|latency|remaining|\bpid\b|per[_ ]sec"
    r"|\b[wut]ps\b|runtime|(?:done|finished|completed|trained) in\b)",
    re.IGNORECASE,
)
# A timing word before one of these belongs to another number: "time 3 s - loss 0.5", "batch accuracy 0.9".
METRIC = re.compile(
    r"(?:loss|acc|err|prec|recall|iou|auc|score|psnr|ssim|bleu|rouge|ppl|perplexity|dice|kappa|(?<![a-z])(?:top|map|f1|mae|mse|rmse))",
    re.IGNORECASE,
)
UNIT = re.compile(
    r"^\s*(?:m?s|us|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|[kmg]i?b|fps|[wut]ps"
    r"|(?:m?s|seconds?) ?(?:/|per) ?(?:it|iter|iteration|step|batch|epoch|sample|image)"
    r"|(?:it|iter|step|batch|sample|example|img|im|image|token|tok|word|sent|sentence|frame|record)(?:e?s)? ?(?:/|per) ?(?:s|secs?|seconds?|min|minute|h|hour))\b",
    re.IGNORECASE,
)
MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?)"
)
CLOCK = re.compile(
    r"\b\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?=\D|$)T?|\b\d{1,2}[-/.]\d{1,2}[-/.]\d{4}\b"
    rf"|\b{MONTH}\.? +\d{{1,2}}(?![\d.]),?(?: +\d{{4}}\b)?|\b\d{{1,2}} +{MONTH}\b\.?(?: +\d{{4}}\b)?"
    r"|\d+:\d\d(?::\d\d)?(?:[.,]\d+)?(?: +20\d\d\b)?|\b1\d{9}(?:\.\d+)?\b",
    re.IGNORECASE,
)  # dates, times of day, seconds since 1970
SOURCE = re.compile(r"\b[\w./-]+\.pyx?:\d+\b")  # a place in a file, as log lines name it
WARNING = re.compile(r"\.py:\d+: \w*Warning\b")  # Python's own line, which every process may get
BAR = re.compile(r"\d+%\|[^|]*\| *(\d+)/(\d+) \[")  # tqdm's: its width and what it shows in between follow the clock
LETTERS = str.maketrans("0123456789", "abcdefghij")
TRAINING = re.compile(r"train", re.IGNORECASE)
RUN_NAME = re.compile(r"\d+|[0-9a-f]{6,}")
METRIC_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Number:
    text: str
    value: float
    label: str  # what stands before it on the line


def numbers_in(line: str) -> tuple[str, list[Number]]:
    """(template, numbers): the line with every number replaced, and the numbers that are no timings."""
    bar = BAR.search(line)
    if WARNING.search(line) or (bar is not None and bar[1] != bar[2]):
        return line, []
    if bar is not None:  # of another length, it is another bar
        line = f"{line[: bar.start()]}bar {bar[2].translate(LETTERS)} [{line[bar.end() :]}"
    line = SOURCE.sub("source", CLOCK.sub("clock", line))
    found: list[Number] = []
    last, label = 0, ""
    for match in NUMBER.finditer(line):
        between = line[last : match.start()][-40:]
        if last == 0 or any(c.isalpha() for c in between):
            label = between  # "Time 2.6 (2.7)": the second number has the first one's label
        unit = UNIT.match(line[match.end() :])
        last = match.end() + (unit.end() if unit else 0)
        if unit or is_timing(label):
            continue
        found.append(Number(match.group(), float(match.group()), label))
    return re.sub(r"\s+", " ", NUMBER.sub("#", line)).strip(), found


def is_timing(label: str) -> bool:
    """Whether what stands before a number says that it is a time, a speed or the machine's."""
    metrics = list(METRIC.finditer(label))
    return TIMING.search(label, metrics[-1].end() if metrics else 0) is not None


def compare_shown(result: Comparison, before: Record, ranks: Sequence[Record]) -> None:
    _compare_evaluation(result, before, ranks)
    _compare_printed(result, before, ranks[0])
    _compare_scalars(result, before, ranks[0])
    _note_others(result, before, ranks)


# ---------------------------------------------------------------- evaluation
def _compare_evaluation(result: Comparison, before: Record, ranks: Sequence[Record]) -> None:
    """Samples that were evaluated between two optimizer steps: all of them on every rank, or each on one."""
    names: set[str] = set()
    for k in range(len(before.steps) + 1):
        theirs = _evaluated(before, k)
        ours = [_evaluated(r, k, before) for r in ranks]
        if not theirs or len({width for width, _ in theirs}) != 1:
            continue
        width = theirs[0][0]
        rows = [v for _, v in theirs]
        near = max(1e-5 * (sum(v * v for v in rows) / len(rows)) ** 0.5, 1e-12)
        own = [[v for w, v in o if w == width] for o in ours]
        together = [v for o in own for v in o]
        if all(count_common(rows, o, near) == len(rows) == len(o) for o in own):
            names.add("every rank evaluates everything")
        elif count_common(rows, together, near) == len(rows) == len(together):
            if all((r.end or {}).get("splitting") for r in ranks):
                names.add("every rank evaluates everything, and the calls of the model are shared out")
            elif len([o for o in own if o]) > 1:
                names.add("evaluation is shared out among the ranks")
            else:
                names.add("one rank evaluates alone")
        elif not together:
            continue  # evaluated at another place, or through a method: the printed metrics decide
        else:
            seen = count_common(rows, together, near)
            twice = len(together) - seen
            text = f"evaluation before step {k}: {seen} of {len(rows)} samples are evaluated"
            if seen == len(rows) and all((r.end or {}).get("accelerate") for r in ranks):
                names.add(
                    f"accelerate repeats {twice} samples to fill the last evaluation batch; the printed metrics decide"
                )
                continue
            if twice > 0:
                text += f", {twice} more often than once (by rank: {', '.join(str(len(o)) for o in own)})"
            result.find(
                "evaluation", text, hint="padding repeats samples (DistributedSampler), or shares are cut twice"
            )
            return
    for name in sorted(names):
        result.note(name)


def _evaluated(record: Record, k: int, original: Record | None = None) -> list[tuple[int, float]]:
    """(width, number) of each row; without those of an idle rank, if the original's calls are given to tell it by."""
    calls = _evaluations(record, k)
    if original is not None and (record.end or {}).get("splitting"):
        theirs = _evaluations(original, k)
        if len(theirs) == len(calls):
            # A batch of fewer chunks than ranks: a rank without one runs rank 0's once more, and its outputs are dropped.
            calls = [
                c for c, t in zip(calls, theirs, strict=True) if t["bare"] or record.rank < max(1, len(t["chunks"]))
            ]
    return [
        (chunk["width"], row)
        for call in calls
        for chunk in call["chunks"]
        for row in (chunk["rows"] if len(chunk["rows"]) == (chunk["n"] or 0) else [])
    ]


def _evaluations(record: Record, k: int) -> list[dict[str, Any]]:
    source = record.steps[k] if k < len(record.steps) else (record.end or {})
    return list(source.get("evals", []))


# ---------------------------------------------------------------- printed
def _grouped(record: Record) -> dict[str, list[tuple[list[Number], dict[str, Any]]]]:
    groups: dict[str, list[tuple[list[Number], dict[str, Any]]]] = defaultdict(list)
    for event in record.printed:
        template, numbers = numbers_in(event["line"])
        if numbers:
            groups[template].append((numbers, event))
    return groups


def _compare_printed(result: Comparison, before: Record, after: Record) -> None:
    theirs, ours = _grouped(before), _grouped(after)
    means = TrainingMeans(before)
    for template, lines in theirs.items():
        for (a, event), (b, _) in zip(lines, ours.get(template, []), strict=False):
            for x, y in zip(a, b, strict=False):
                if _near(x, y):
                    continue
                if means.explain(x) or TRAINING.search(x.label) or not event["evaluated"]:
                    result.note(
                        f"the line {event['line'].strip()[:80]!r} shows rank 0's share of the training numbers ({y.text})"
                    )
                    break
                result.find(
                    "metric",
                    f"printed after evaluation: {x.label.strip()[-30:]} {x.text} before, {y.text} on rank 0"
                    f" ({event['line'].strip()[:80]!r})",
                    hint="a metric of rank 0's share only: sum it over the ranks, or let every rank evaluate everything",
                )
                return


def _near(x: Number, y: Number) -> bool:
    """Equal up to one unit of the last printed digit."""
    digits = len(x.text.rpartition(".")[2]) if "." in x.text and "e" not in x.text.lower() else 0
    unit = 1.01 * 10.0**-digits if "." in x.text else 0.0
    return abs(x.value - y.value) <= max(unit, METRIC_TOLERANCE * abs(x.value) if "." in x.text else 0.0)


class TrainingMeans:
    """Whether a printed number is a training loss or a mean of the last ones."""

    def __init__(self, record: Record) -> None:
        self.values: list[float] = []
        losses = [v for s in record.steps for v in s["losses"] if v is not None]
        for end in range(1, len(losses) + 1):
            total = 0.0
            for count, value in enumerate(reversed(losses[:end]), 1):
                total += value
                self.values += [total / count, total]
                if count > 64:
                    break

    def explain(self, number: Number) -> bool:
        if "." not in number.text:
            return False
        digits = len(number.text.rpartition(".")[2]) if "e" not in number.text.lower() else 4
        return digits >= 3 and any(abs(v - number.value) <= 0.51 * 10.0**-digits for v in self.values)


def _compare_scalars(result: Comparison, before: Record, after: Record) -> None:
    theirs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    ours: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for source, groups in ((before, theirs), (after, ours)):
        for event in source.scalars:
            groups[event["tag"]].append(event)
    for tag, events in theirs.items():
        if is_timing(tag):
            continue
        for a, b in zip(events, ours.get(tag, []), strict=False):
            if abs(a["value"] - b["value"]) <= METRIC_TOLERANCE * max(abs(a["value"]), 1e-6):
                continue
            if TRAINING.search(tag) or not a["evaluated"]:
                result.note(f"the logged scalar {tag!r} shows rank 0's share of the training numbers")
                break
            result.find(
                "metric", f"logged after evaluation: {tag!r} is {a['value']:.6g} before, {b['value']:.6g} on rank 0"
            )
            return


def _note_others(result: Comparison, before: Record, ranks: Sequence[Record]) -> None:
    known = set(_grouped(before))
    loud = [r.rank for r in ranks[1:] if any(template in known for template in _grouped(r))]
    if loud and known:
        result.note(f"rank {', '.join(map(str, loud))} prints the program's lines too")


# ---------------------------------------------------------------- files
def compare_files(
    result: Comparison, before: Record, ranks: Sequence[Record], written: tuple[Sequence[str], Sequence[str]]
) -> None:
    """Same names, written by one rank, and the same keys in checkpoints."""
    theirs, ours = ({template_name(n): n for n in names} for names in written)
    missing = [n for t, n in theirs.items() if t not in ours]
    extra = [n for t, n in ours.items() if t not in theirs]
    if missing:
        result.find("files", f"not written after the conversion: {', '.join(missing[:3])}")
    if extra:
        result.note(f"written only after the conversion: {', '.join(extra[:3])}")
    writers: dict[str, set[int]] = defaultdict(set)
    for record in ranks:
        for name in record.wrote:
            writers[name].add(record.rank)
    several = [name for name, by in writers.items() if len(by) > 1]
    if several:
        by = ", ".join(map(str, sorted(writers[several[0]])))
        result.find("files", f"{several[0]} is written by ranks {by}", hint="files belong to rank 0")
    saved = {template_name(s["file"]): s for s in ranks[0].saved}
    for event in before.saved:
        other = saved.get(template_name(event["file"]))
        if other is None:
            continue
        lost = sorted(set(event["keys"]) - set(other["keys"]))
        new = sorted(set(other["keys"]) - set(event["keys"]))
        if lost or new:
            if any("<" in k for k in (*lost, *new)):
                text = f"{event['file']} holds whole objects: {', '.join(lost[:2])} before, {', '.join(new[:2])} after"
                result.find(
                    "files", text, hint="save a state_dict: what holds the wrapper needs its class to be loaded"
                )
                return
            bare = {k.replace("module.", "") for k in event["keys"]} == {
                k.replace("module.", "") for k in other["keys"]
            }
            text = f"keys of {event['file']} differ: {', '.join(lost[:2]) or 'none'} before, {', '.join(new[:2]) or 'none'} after"
            if bare:
                result.note(text + " (the wrapper's prefix)")
            else:
                result.find("files", text)
            return


def template_name(name: str) -> str:
    """A file's name without the numbers that time, losses and process ids put into it."""
    return RUN_NAME.sub("#", name)
