"""What every process of a notebook does stands in one function, which `notebook_launcher` starts in each of them.

A notebook is one process and no command line starts it several times: torchrun cannot.  accelerate's `notebook_launcher`
forks the notebook's process, once per GPU, and calls a function in each; it also sets what torchrun would set, so the DDP
form is started in the same way.  The statements from the first that needs the processes or touches a GPU to the last move
into that function, in their order; a process that has used CUDA cannot be forked, so the cells are run from the top in a
fresh kernel.  Definitions, imports, data and magics stay in their cells.  What the function makes stays in the processes: a
cell that shows it afterwards has to read it from a file.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule


def check(context: Context) -> Iterator[Diagnostic]:
    region = context.program.region
    if region is None:
        return
    first = region.first
    name, imports = context.module(first, "accelerate.notebook_launcher")
    if name != "notebook_launcher":
        yield RULE.question(first, "the notebook uses the name `notebook_launcher` for something else: rename that")
        return
    _, torch = context.module(first, "torch")
    yield RULE.converted(first, "one function is what every process runs; the notebook launches it", *imports, *torch)
    yield RULE.note(
        first,
        "run the cells from the top in a fresh kernel, with accelerate installed: a process that has used a GPU cannot start"
        " others",
    )
    for at, made in region.left:
        yield RULE.question(
            at,
            f"this shows `{made}`, which is now made in the launched processes: let rank 0 save it there, and load it here",
        )


RULE = Rule("MG111", "launch-function", check, __doc__ or "", hazards=("H81",), keeps=("alone",))
