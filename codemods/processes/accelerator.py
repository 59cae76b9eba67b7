"""How the Accelerator is constructed: its arguments, and handlers only where an option asks for them."""

from codemods.base import Context
from migrator.edits import Edit
from migrator.facts.python.syntax import Span

_LONG = 100  # characters; a longer call has its arguments one below the other


def construction(context: Context, at: Span) -> tuple[str, list[Edit]]:
    """The call of the constructor, with handlers only where an option asks for them."""
    options = context.options
    accelerator, edits = context.module(at, "accelerate.Accelerator")
    needed = list(edits)
    precision = options.amp if options.amp in ("bf16", "fp16") else "no"
    arguments = [f'mixed_precision="{precision}"']
    loading = ", ".join(_loading(context))
    if loading:
        name, edits = context.module(at, "accelerate.utils.DataLoaderConfiguration")
        needed += edits
        arguments.append(f"dataloader_config={name}({loading})")
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
    line = f"{accelerator}({', '.join(arguments)})"
    if len(line) <= _LONG:
        return line, needed
    return f"{accelerator}(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")", needed


def _loading(context: Context) -> list[str]:
    """How prepared loaders share batches out and order their samples.

    A seedable sampler's order follows from the seed and the epoch.  accelerate's default draws a number from torch's own
    stream when a loader is prepared, so that first weights and splits that are drawn further down would be others.
    """
    options, training = context.options, context.sharing.training
    if context.sharing.way != "distributed" or training is None:
        return []
    split = options.batch == "global" and not options.batch_of_process
    wanted = ["split_batches=True"] if split else []
    if any(loader.shuffled is not False for loader in training.loaders):
        if not options.batch_of_process:
            wanted.append("use_seedable_sampler=True")
        elif options.sampler_seed:
            wanted += ["use_seedable_sampler=True", f"data_seed={options.sampler_seed}"]
    return wanted
