"""The loaders of a loop and their arguments.

In: a `Reader` and a loop.  Out: `Loader` facts, and obstacles to sharing their batches out.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from migrator.facts.loaders.batch_loops import BatchLoop, draws_in, loaders_of, other_readers
from migrator.facts.loaders.collating import keeps_rows
from migrator.facts.loaders.glances import is_only_looked_at
from migrator.facts.loaders.loaders import is_endless, is_none, is_stream, iterated, loaders_at, unpacks_harmless
from migrator.facts.loaders.samplers import is_always_none, keeps_order, shuffling
from migrator.facts.python.nodes import argument, has_unpacking
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.random_draws import draws_random
from migrator.facts.randomness.worker_seeds import seeds_alike
from migrator.facts.training.reader import Reader
from migrator.facts.training.training import Loader


def read_loader(
    reader: Reader, module: Module, loop: BatchLoop, beside: Sequence[tuple[Module, BatchLoop]] = ()
) -> None:
    """The loaders of a training loop; `beside` are the program's other training loops, which may read them too."""
    found = loaders_of(reader.program, module, loop)
    if not found:
        anchor = loop.iter if isinstance(loop, ast.For) else loop.test
        reader.obstacle(module, anchor, "the loader of the training loop could not be found")
    elif draws_in(reader.program, module, loop) is not None:
        reader.order_obstacle(module, loop, "its batches are drawn from an iterator, which knows of no epochs")
        for owner, call in found:
            if _draws_one_by_one(reader, owner, argument(call, "sampler", 3)):
                reader.obstacle(owner, call, "its samples are drawn one by one, among the program's other draws")
    elif isinstance(loop, ast.For) and not loaders_at(
        reader.program, module, iterated(reader.program, module, loop.iter)
    ):
        reader.order_obstacle(module, loop.iter, "its batches come from an iterator, which knows of no epochs")
    for owner, call in found:
        loader = loader_of(reader, owner, call, training=True)
        if loader is not None and loader not in reader.training.loaders:
            reader.training.loaders.append(loader)
    calls = {call for _, call in found}
    for owner, other in other_readers(reader.program, [(module, loop), *beside], calls):
        if not isinstance(other, ast.For) and is_only_looked_at(reader.program, owner, other):
            continue
        where = "read in another loop too" if isinstance(other, ast.For) else "also read outside of the training loop"
        reader.obstacle(owner, other, f"the training loader is {where}")


def loader_of(reader: Reader, module: Module, call: ast.Call, training: bool) -> Loader | None:
    before = len(reader.training.obstacles)
    dataset = argument(call, "dataset", 0)
    batch = argument(call, "batch_size", 1)
    shuffle = argument(call, "shuffle", 2)
    sampler = argument(call, "sampler", 3)
    workers = argument(call, "num_workers", 5)
    drop_last = argument(call, "drop_last", 8)
    random = shuffling(reader.program, module, call) if sampler is not None else None
    statement = module.statement(call)
    if training:
        if has_unpacking(call) and not unpacks_harmless(reader.program, module, call):
            reader.obstacle(module, call, "the loader's arguments are not all in sight")
        if _is_made_on_import(reader, module, call):
            reader.obstacle(module, call, "the loader is made on import, before the processes have met")
        if _draws_in_loop(reader, module, call):
            reader.obstacle(module, call, "its samples are drawn at random while the training runs")
        own_batches = argument(call, "batch_sampler", 4)
        if dataset is None or (batch is None and own_batches is None):
            reader.obstacle(module, call, "the loader has no batch size of its own")
        if own_batches is not None:
            reader.order_obstacle(module, call, "batches are made by a batch sampler of the program's own")
        if own_batches is not None and _draws_batches(reader, module, own_batches):
            reader.obstacle(module, own_batches, "its batches are drawn one by one, among the program's other draws")
        for given in (sampler, own_batches):
            if given is not None and random is None and is_endless(reader.program, module, given):
                reader.obstacle(module, given, "its sampler may never end")
        if sampler is not None and random is None and not is_always_none(reader.program, module, sampler):
            reader.order_obstacle(module, sampler, "samples are drawn by a sampler of the program's own")
        collate = argument(call, "collate_fn", 6)
        if collate is not None and not is_none(collate) and not keeps_rows(reader.program, module, collate):
            reader.obstacle(module, call, "batches are put together by a function of the program's own")
        started = argument(call, "worker_init_fn", 10)
        alike = seeds_alike(reader.program, module, started) if started is not None else False
        if alike:
            reader.obstacle(module, started or call, "its workers are seeded by the same numbers in every process")
        elif alike is None:
            reader.obstacle(module, started or call, "what its workers are seeded by could not be found")
        if argument(call, "generator", 13) is not None:
            reader.order_obstacle(module, call, "the loader has a generator of its own")
        if isinstance(batch, ast.Constant) and batch.value in (1, None):
            reader.obstacle(module, batch, "the loader gives one item at a time")
        elif isinstance(batch, ast.Constant) and isinstance(batch.value, int) and batch.value % 2:
            reader.obstacle(module, batch, f"batches of {batch.value} samples cannot be divided")
        if random is None and (shuffle is None or (isinstance(shuffle, ast.Constant) and not shuffle.value)):
            reader.order_obstacle(module, call, "the loader does not shuffle, so the order of its batches may matter")
        if dataset is not None and is_stream(reader.program, module, dataset):
            reader.obstacle(module, dataset, "the data set is a stream")
        if _outlives_its_loader(reader, module, module.enclosing(call, ast.For, ast.While)):
            reader.order_obstacle(module, call, "the loader is made anew inside a loop")
        if not (
            isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1
        ) or not isinstance(statement.targets[0], ast.Name | ast.Attribute):
            reader.order_obstacle(module, call, "the loader has no name of its own where it is made")
    if dataset is None or len(reader.training.obstacles) > before:
        return None
    return Loader(
        at=module.span(call),
        statement=module.span(statement),
        name=module.segment(statement.targets[0]) if isinstance(statement, ast.Assign) else "",
        dataset=module.span(dataset),
        dataset_text=module.segment(dataset),
        dataset_is_call=any(isinstance(n, ast.Call) for n in ast.walk(dataset)),
        batch=module.span(batch) if batch is not None else None,
        batch_text=module.segment(batch) if batch is not None else "",
        shuffle=module.span(shuffle) if shuffle is not None else None,
        shuffle_keyword=any(k.arg == "shuffle" for k in call.keywords),
        has_none_sampler=sampler is not None and random is None,
        shuffled=bool(shuffle.value) if isinstance(shuffle, ast.Constant) else None,
        sampler=random,
        keeps_order=sampler is not None and keeps_order(reader.program, module, call),
        drop_last=module.segment(drop_last) if drop_last is not None else None,
        workers=module.span(workers) if workers is not None else None,
        workers_text=module.segment(workers) if workers is not None else "",
    )


def _is_made_on_import(reader: Reader, module: Module, call: ast.Call) -> bool:
    """True on the top level of a module that another one imports; the entry runs, and what is only loaded by name is late."""
    if module is reader.program.entry_module or module.enclosing_function(call) is not None:
        return False
    last = module.name.rpartition(".")[2]
    return any(last in name.split(".") for other in reader.program.modules for name in other.imported_modules)


def _outlives_its_loader(reader: Reader, module: Module, loop: ast.AST | None) -> bool:
    """True where one model is trained with a loader that each turn of the loop makes anew, so that each begins with the
    order of the first; false where the turns (folds, settings to be compared) have a model of their own as well."""
    if loop is None:
        return False
    turn = module.span(loop)
    return not all(turn.path == wrap.at.path and turn.contains(wrap.at) for wrap in reader.program.wraps)


def _draws_batches(reader: Reader, module: Module, node: ast.expr) -> bool:
    """True for a batch sampler of the program's own that draws: a whole epoch of it at once would be another epoch."""
    for value in reader.resolver.values(module, node):
        if value.kind == "instance" and isinstance(value.node, ast.Call) and value.module is not None:
            found = reader.resolver.definition(value.module.qualified(value.node.func), value.module)
            owner = found[0] if found is not None else module
            functions = [n for n in owner.nodes if isinstance(n, ast.FunctionDef)]
            if any(draws_random(reader.program, owner, function) for function in functions):
                return True
    return False


def _draws_one_by_one(reader: Reader, module: Module, sampler: ast.expr | None) -> bool:
    """True for a sampler of the program's own that draws when the next sample is asked for: an iterator may be left early."""
    for value in reader.resolver.values(module, sampler):
        owner = reader.resolver.class_of(value)
        method = reader.resolver.method(*owner, "__iter__") if owner is not None else None
        if method is not None and any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(method[1])):
            if draws_random(reader.program, *method):
                return True
    return False


def _draws_in_loop(reader: Reader, module: Module, call: ast.Call) -> bool:
    """True for a loader that a function makes anew for an epoch, of samples that are made with random numbers."""
    function = module.enclosing_function(call)
    if not isinstance(function, ast.FunctionDef):
        return False
    sites = reader.resolver.call_sites(function)
    again = any(caller.enclosing(site, ast.For, ast.While) is not None for caller, site in sites)
    return again and draws_random(reader.program, module, function)
