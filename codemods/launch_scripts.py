"""Scripts and pages that start the program start it with torchrun.

A shell script or a README that still says `python train.py` starts one process, which then uses one GPU.  Such lines hold
variables, loops and schedulers of all kinds, so they are shown and not changed.  (`python -m torch.distributed.launch` hands
over an option that the converted program does not read: torchrun does not.)
"""

import re
from collections.abc import Iterator
from pathlib import Path

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.syntax import Span

_FILES = ("*.sh", "*.bash", "*.slurm", "*.sbatch", "Makefile", "README*", "scripts/*.sh", "scripts/*.bash")
_MOST, _LONGEST = 40, 200_000


def check(context: Context) -> Iterator[Diagnostic]:
    entry = Path(context.program.entry_module.path)
    if context.program.is_joined:
        return
    start = re.compile(rf"\bpython[\d.]*\s+(?!-c)(-\w+\s+|-m\s+[\w.]+\s+|--\S+\s+)*(\S*/)?{re.escape(entry.name)}\b")
    found = [path for pattern in _FILES for path in sorted(entry.parent.glob(pattern))]
    for path in found[:_MOST]:
        if not path.is_file() or path.stat().st_size > _LONGEST:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if start.search(line):
                yield RULE.note(
                    Span(str(path), 0, 0, number),
                    "this still starts one process: start the program with torchrun here too",
                )
                break


RULE = Rule("MG107", "launch-scripts", check, __doc__ or "", applicability="display-only", hazards=("H81",))
