"""Which GPUs are used is said on the command line, not in the program.

A program that sets CUDA_VISIBLE_DEVICES itself hides GPUs from its own process: with one id in it all processes would
meet on that GPU.  torchrun starts one process per GPU that the caller makes visible.  A program that hides all of them
(`-1`) keeps that.
"""

import ast
import re
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Remove
from migrator.facts.syntax import argument


def check(context: Context) -> Iterator[Diagnostic]:
    for literal in context.program.device_literals:
        if literal.kind == "visible" and literal.text.rpartition("=")[2].strip(" \"'") not in ("", "-1"):
            whole = context.program.module_at(literal.statement).emptied_by(literal.statement)
            yield RULE.converted(
                literal.statement,
                "the launch command chooses the GPUs: a list set here would hide them from the processes that need them",
                Remove(whole),
            )
            chosen = re.search(r"""=\s*[rb]?["'](\d+(,\s*\d+)*)["']\s*$""", literal.text)
            if chosen and not context.options.nproc:
                yield RULE.note(
                    literal.statement,
                    f"to use the same GPUs, start it with CUDA_VISIBLE_DEVICES={chosen[1].replace(' ', '')}",
                )
    if not context.options.nproc:
        yield from _chosen_in_wraps(context)


def _chosen_in_wraps(context: Context) -> Iterator[Diagnostic]:
    """`device_ids=[0, 1]`: the launch line would use every GPU of the machine."""
    for wrap in context.program.wraps:
        module = context.program.module_at(wrap.at)
        call = next((n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == wrap.at), None)
        ids = argument(call, "device_ids", 1) if call is not None and wrap.kind == "class" else None
        if isinstance(ids, ast.List | ast.Tuple) and all(isinstance(e, ast.Constant) for e in ids.elts) and ids.elts:
            gpus = ",".join(str(e.value) for e in ids.elts if isinstance(e, ast.Constant))
            yield RULE.note(
                wrap.at, f"to use the same GPUs, start it with CUDA_VISIBLE_DEVICES={gpus} (or --nproc {len(ids.elts)})"
            )
            return


RULE = Rule("MG102", "visible-devices", check, __doc__ or "", hazards=("H75", "H76"), keeps=("memory",))
