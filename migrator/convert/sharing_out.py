"""How a program's batches are shared out, and which reading of the program that needs.

In: a program and options.  Out: the way, and the program as it was read for it.  Where only a part of the model is wrapped it is
read as one that wraps the whole, and stays so if its batches can be shared out; the split at the call needs the part as it is.
"""

from __future__ import annotations

from codemods.options import Options
from migrator.convert.accelerated import accelerated
from migrator.convert.hints import with_hints
from migrator.facts.model import PartWrap
from migrator.facts.program import Program
from migrator.facts.training.sharing import SPLIT_AT_CALL, Sharing, choose_sharing
from migrator.facts.wraps.part_wraps import part_wraps, with_wholes


def shared(program: Program, options: Options) -> tuple[Program, Sharing]:
    """The program with each partly wrapped model wrapped whole, where that can be, else as it is; and its way."""
    parts = part_wraps(program) if options.sampling != "call" else []
    if not parts or any(part.against for part in parts):
        return program, _way(program, options)
    if options.keep_prefix:
        return program, _split(parts[0], "--keep-prefix asks for the keys that the part's own wrapper gives")
    whole = with_hints(Program(with_wholes(program, parts)), options)
    whole.parts, whole.region = {part.at: part for part in parts}, program.region
    sharing = _way(whole, options)
    if sharing.training is not None and sharing.training.left_out:
        return program, _split(parts[0], "only a part of the model is wrapped, and a step leaves parameters out")
    return (whole, sharing) if sharing.way != "call" else (program, sharing)


def _way(program: Program, options: Options) -> Sharing:
    sharing = choose_sharing(
        program, options.sampling, options.loss, options.find_unused, options.seed_policy == "same"
    )
    return accelerated(program, options, sharing) if options.target == "accelerate" else sharing


def _split(part: PartWrap, why: str) -> Sharing:
    return Sharing("call", f"{SPLIT_AT_CALL} ({why}: {part.at.path}:{part.at.line})")
