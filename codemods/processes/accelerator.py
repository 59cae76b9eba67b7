"""How the Accelerator is constructed: its arguments, and handlers only where an option asks for them."""

from codemods.base import Context
from migrator.edits import Edit
from migrator.facts.syntax import Span


def construction(context: Context, at: Span) -> tuple[str, list[Edit]]:
    """The call of the constructor, with handlers only where an option asks for them."""
    options = context.options
    accelerator, edits = context.module(at, "accelerate.Accelerator")
    needed = list(edits)
    precision = options.amp if options.amp in ("bf16", "fp16") else "no"
    arguments = [f'mixed_precision="{precision}"']
    if context.sharing.way == "distributed" and options.batch == "global" and not options.batch_of_process:
        name, edits = context.module(at, "accelerate.utils.DataLoaderConfiguration")
        needed += edits
        arguments.append(f"dataloader_config={name}(split_batches=True)")
    handlers = []
    wanted = dict.fromkeys([*(["find_unused_parameters=True"] if options.find_unused else []), *options.ddp_arguments])
    if context.sharing.way != "call" and wanted:
        name, edits = context.module(at, "accelerate.utils.DistributedDataParallelKwargs")
        needed += edits
        handlers.append(f"{name}({', '.join(wanted)})")
    if options.pg_timeout:
        name, edits = context.module(at, "accelerate.utils.InitProcessGroupKwargs")
        delta, more = context.module(at, "datetime.timedelta")
        needed += (*edits, *more)
        handlers.append(f"{name}(timeout={delta}(seconds={options.pg_timeout}))")
    if handlers:
        arguments.append(f"kwargs_handlers=[{', '.join(handlers)}]")
    return f"{accelerator}({', '.join(arguments)})", needed
