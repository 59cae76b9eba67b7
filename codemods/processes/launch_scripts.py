"""Scripts and pages that start the program start one process for each GPU.

A shell script, a Makefile or a README that still says `python train.py` starts one process, which then uses one GPU.  The
line that starts all of them is shown, and `--scripts` writes it: the interpreter and the script's name are replaced, and the
environment, the arguments and whatever else stands there stay.  Where `CUDA_VISIBLE_DEVICES=0,1` is written out, there or
above, it stays and gives the number of processes; a line for one GPU is right as it is.  Lines that give Python its own
options, or that hand a launcher options of another kind, are only shown.  `# mgmigrate: ignore` leaves a line alone.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import ReplaceText
from migrator.facts.python.syntax import Span
from migrator.launch.scripts import launch_lines


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    if program.is_joined or program.entry.first is None or program.region is not None:
        return
    for line in launch_lines(program.project, context.options):
        at = Span(line.at.path, 0, 0, line.at.line)
        if line.obstacle:
            yield RULE.note(at, f"this starts one process, and stays so: {line.obstacle}; write it by hand")
        elif context.options.scripts:
            yield RULE.converted(at, "this starts one process for each GPU", ReplaceText(line.at, line.text))
        else:
            yield RULE.note(at, f"this starts one process; for one on each GPU (--scripts writes it): {line.line}")


RULE = Rule("MG107", "launch-scripts", check, __doc__ or "", hazards=("H81",), needs=("MG101", "MG104"))
