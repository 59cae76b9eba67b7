"""Batch norm looks at the whole batch where the user asks for it, and at each process's share otherwise.

DataParallel normalised each GPU's share by itself, and so does DistributedDataParallel; `--sync-bn` converts the layers before
the model is wrapped.  Synchronised layers of a library of the program's own tie threads of one process together and do
nothing between processes: with `--sync-bn` they become torch's, without it they are reported.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.model.wrapping import made_wraps, prepare_model
from migrator.edits import Remove, Replace
from migrator.facts.networks.sync_norms import own_sync_norms, replication_callbacks


def check(context: Context) -> Iterator[Diagnostic]:
    wanted, program = context.options.sync_bn, context.program
    if not program.wraps:
        return
    own = own_sync_norms(program)
    if own and not wanted:
        yield RULE.question(
            own[0].at,
            f"{own[0].text} synchronises threads, and is an ordinary batch norm between processes:"
            " run again with --sync-bn, for torch's own",
        )
    if not wanted:
        for call in () if own else replication_callbacks(program):
            yield RULE.question(
                call,
                "this makes threads of DataParallel wait for each other, which are processes now: run with --sync-bn",
            )
        return
    for one in own:
        nn, imports = context.module(one.at, "torch.nn")
        yield RULE.converted(
            one.at,
            "becomes torch's synchronised layer where the model is wrapped",
            *imports,
            Replace(one.at, f"{nn}.{one.note}"),
        )
    for call in replication_callbacks(program):
        yield RULE.converted(call, "there are no replicas in threads any more", Remove(call))
    for wrap in made_wraps(context):
        edits = prepare_model(context, wrap, "sync_batch_norm", first=True)
        if isinstance(edits, str):
            yield RULE.question(wrap.at, f"--sync-bn was not applied: {edits}")
        else:
            yield RULE.converted(wrap.at, "batch norm looks at the whole batch", *edits)


RULE = Rule(
    "MG321",
    "sync-batch-norm",
    check,
    __doc__ or "",
    applicability="unsafe",
    hazards=("H40", "H41"),
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html", "HobbitLong/SupContrast#18"),
    why="Statistics over the whole batch are not those over one GPU's share, so the model trains otherwise.",
    keeps=("trajectory",),
    together=True,
)
