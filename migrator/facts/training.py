"""The training loop of a program: loader, epoch loop, forward, loss, step, and what else its batches flow into.

In: a `Program`.  Out: a `Training` with the facts that a DistributedSampler conversion needs, and the `obstacles` that speak
against it.  The reading is a whitelist: a batch may be moved, given to the model once, compared with its targets by a plain
mean, and measured; whatever else happens to it is an obstacle, with its place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from migrator.facts.flow import Flow, draws_random, is_none, is_parameter
from migrator.facts.forward import PARTIAL, UNUSED
from migrator.facts.left_over import left_over, read_behind
from migrator.facts.loaders import (
    DATA_LOADER,
    for_loops,
    is_counting,
    is_endless,
    is_stream,
    loaders_of,
    unpacks_harmless,
)
from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.resolve import Value
from migrator.facts.syntax import FunctionNode, Module, Scope, Span, argument, dotted, has_unpacking, names_in
from migrator.facts.unfit import unfit
from migrator.facts.whole_batch import Step, WholeBatch, whole_batch

_RATE = re.compile(r"(^|[._])(base_)?lr$|learning_rate|warm", re.IGNORECASE)
_READING_METHODS = frozenset(
    [
        "state_dict",
        "load_state_dict",
        "parameters",
        "named_parameters",
        "children",
        "named_children",
        "modules",
        "named_modules",
        "buffers",
        "named_buffers",
        "train",
        "eval",
        "zero_grad",
        "cpu",
        "cuda",
        "to",
        "half",
        "float",
        "apply",
        "save_pretrained",
        "get_parameters",
        "register_forward_hook",
    ]
)


@dataclass(frozen=True, slots=True)
class Loader:
    """A DataLoader call and its arguments; spans are None where an argument is absent."""

    at: Span
    statement: Span
    name: str
    dataset: Span
    dataset_text: str
    dataset_is_call: bool
    batch: Span | None
    batch_text: str
    shuffle: Span | None
    shuffle_keyword: bool
    has_none_sampler: bool
    shuffled: bool | None
    drop_last: str | None
    workers: Span | None
    workers_text: str


@dataclass(frozen=True, slots=True)
class Meter:
    """Running figures of a loop: kind is object (sum, count, avg), sum or mean; `names` as spelled in the function."""

    kind: str
    names: tuple[str, ...]
    after: Span


@dataclass(frozen=True, slots=True)
class EvaluationLoop:
    """A loop over another loader without a backward pass; `share` says that every figure in it is recognised."""

    at: Span
    loader: Loader | None
    meters: tuple[Meter, ...]
    share: bool
    model_calls: tuple[Span, ...]
    why_not: str = ""


@dataclass(slots=True)
class Training:
    """What is known of the training; with obstacles the other fields may be missing."""

    loaders: list[Loader] = field(default_factory=list)
    loop: Span | None = None
    epoch_loop: Span | None = None
    epoch_first: Span | None = None
    epoch_name: str = ""
    loader_in_epoch_scope: str = ""
    meters: tuple[Meter, ...] = ()
    loss: str = ""
    whole: WholeBatch | None = (
        None  # where the loop goes on with the whole batch; without it, with this process's share
    )
    evaluations: list[EvaluationLoop] = field(default_factory=list)
    obstacles: list[Place] = field(default_factory=list)
    order_obstacles: list[Place] = field(default_factory=list)  # against a DistributedSampler only


def read_training(program: Program, loss: str = "auto", find_unused: bool = False) -> Training:
    """Read the program's one training loop.

    `loss` is `local` where the user vouches that it is a mean over samples, `global` where it is to see the whole batch; with
    `find_unused` parameters may go unused.
    """
    return _Reader(program, loss, find_unused).read()


class _Reader:
    def __init__(self, program: Program, loss: str = "auto", find_unused: bool = False):
        self.program, self.resolver = program, program.resolver
        self.local_loss, self.whole_loss, self.find_unused = loss == "local", loss == "global", find_unused
        self.training = Training()

    # ---------------------------------------------------------------- obstacles
    def obstacle(self, module: Module, node: ast.AST, note: str) -> None:
        """Something that speaks against loading shares of batches."""
        self._add(self.training.obstacles, module, node, note)

    def order_obstacle(self, module: Module, node: ast.AST, note: str) -> None:
        """Something that speaks against a DistributedSampler: which samples come, and in what order, is not its own."""
        self._add(self.training.order_obstacles, module, node, note)

    @staticmethod
    def _add(places: list[Place], module: Module, node: ast.AST, note: str) -> None:
        anchor = node if hasattr(node, "lineno") else module.tree.body[0]
        place = Place(module.span(anchor), module.span(module.statement(anchor)), module.segment(anchor), note)
        if place not in places:
            places.append(place)

    def read(self) -> Training:
        self._check_wraps()
        for module, node, note in unfit(self.program):
            if note == PARTIAL and not self.local_loss:
                self.whole_loss = True  # put together, what the loss leaves out gets zeros, as under DataParallel
            elif not (self.find_unused and note.startswith(UNUSED)):
                self.obstacle(module, node, note)
        backwards = [
            (m, c)
            for m, c in self.program.calls()
            if isinstance(c.func, ast.Attribute) and c.func.attr == "backward" and not self.program.is_unreached(m, c)
        ]
        if self.training.obstacles:
            return self.training
        loops: dict[ast.For, tuple[Module, ast.Call, Module, Step | None]] = {}
        for owner, call in backwards:
            module, loop, step = self._stepping(owner, call)
            if loop is None:
                self.obstacle(owner, call, "this backward pass is in no loop over a loader that could be found")
            else:
                loops[loop] = (owner, call, module, step)
        if len(loops) > 1:
            self.obstacle(*list(loops.values())[1][:2], "there is more than one training loop")
        if len(backwards) > 1 and len(loops) == 1:
            self.obstacle(*backwards[1], "there is more than one backward pass in a step")
        if self.training.obstacles or not loops:
            return self.training
        loop, (_, _, module, step) = next(iter(loops.items()))
        self.training.loop = module.span(loop)
        self._read_loader(module, loop)
        self._read_epochs(module, loop)
        self._read_body(module, loop, step)
        self._check_model_uses(module, loop)
        self._check_optimizers()
        self._check_batch_uses(module, loop)
        self._read_evaluations(module, loop)
        return self.training

    # ---------------------------------------------------------------- wraps
    def _check_wraps(self) -> None:
        program = self.program
        for wrap in program.wraps:
            module = program.module_at(wrap.at)
            node = self._node(module, wrap.at)
            if wrap.kind != "class":
                self.obstacle(module, node, "this is not a plain DataParallel of a whole model")
            elif wrap.submodule:
                self.obstacle(module, node, "only a part of the model is wrapped")
            elif wrap.dim not in (None, "0"):
                self.obstacle(module, node, "the batch is not the first dimension")
            elif not wrap.target:
                self.obstacle(module, node, "the wrapped model has no name of its own")
        for wrap in program.wraps:
            for guard in wrap.guards:
                if not (guard.parallel or guard.wraps_elsewhere or guard.leaves or guard.is_entry):
                    module = program.module_at(wrap.at)
                    self.obstacle(
                        module, self._node(module, wrap.at), f"whether the model is wrapped depends on `{guard.test}`"
                    )
        for place in program.existing_ddp:
            module = program.module_at(place.at)
            self.obstacle(module, self._node(module, place.at), "the program has a distributed branch of its own")
        for one in program.look_alikes:
            module = program.module_at(one.at)
            self.obstacle(module, self._node(module, one.at), f"{one.name} has rules of its own")

    def _node(self, module: Module, span: Span) -> ast.AST:
        return next(n for n in module.nodes if isinstance(n, ast.expr | ast.stmt) and module.span(n) == span)

    # ---------------------------------------------------------------- loader and loops
    def _batch_loop(self, module: Module, call: ast.Call) -> ast.For | None:
        """The nearest loop around a backward pass that goes over something that may be a loader."""
        for ancestor in module.ancestors(call):
            if isinstance(ancestor, FunctionNode | ast.ClassDef):
                return None
            if isinstance(ancestor, ast.For) and not is_counting(ancestor.iter):
                return ancestor
        return None

    def _stepping(self, module: Module, call: ast.Call) -> tuple[Module, ast.For | None, Step | None]:
        """The loop over batches around a backward pass, directly or around the one call of the function that makes a step."""
        loop = self._batch_loop(module, call)
        function = module.enclosing(call, ast.FunctionDef)
        if loop is not None or not isinstance(function, ast.FunctionDef):
            return module, loop, None
        sites = self.resolver.call_sites(function)
        if len(sites) != 1:
            return module, None, None
        caller, site = sites[0]
        return caller, self._batch_loop(caller, site), Step(module, function, site, _is_method(module, function))

    def _read_loader(self, module: Module, loop: ast.For) -> None:
        found = loaders_of(self.program, module, loop)
        if not found:
            self.obstacle(module, loop.iter, "the loader of the training loop could not be found")
        for owner, call in found:
            loader = self._loader(owner, call, training=True)
            if loader is not None:
                self.training.loaders.append(loader)
        calls = {call for _, call in found}
        for other in for_loops(self.program):
            if other[1] is not loop and any(c in calls for _, c in loaders_of(self.program, *other)):
                self.obstacle(other[0], other[1], "the training loader is read in another loop too")

    def _loader(self, module: Module, call: ast.Call, training: bool) -> Loader | None:
        before = len(self.training.obstacles)
        dataset = argument(call, "dataset", 0)
        batch = argument(call, "batch_size", 1)
        shuffle = argument(call, "shuffle", 2)
        sampler = argument(call, "sampler", 3)
        workers = argument(call, "num_workers", 5)
        drop_last = argument(call, "drop_last", 8)
        statement = module.statement(call)
        if training:
            if has_unpacking(call) and not unpacks_harmless(self.program, module, call):
                self.obstacle(module, call, "the loader's arguments are not all in sight")
            if self._is_made_on_import(module, call):
                self.obstacle(module, call, "the loader is made on import, before the processes have met")
            if self._draws_in_loop(module, call):
                self.obstacle(module, call, "its samples are drawn at random while the training runs")
            own_batches = argument(call, "batch_sampler", 4)
            if dataset is None or (batch is None and own_batches is None):
                self.obstacle(module, call, "the loader has no batch size of its own")
            if own_batches is not None:
                self.order_obstacle(module, call, "batches are made by a batch sampler of the program's own")
            if own_batches is not None and self._draws_batches(module, own_batches):
                self.obstacle(module, own_batches, "its batches are drawn one by one, among the program's other draws")
            for given in (sampler, own_batches):
                if given is not None and is_endless(self.program, module, given):
                    self.obstacle(module, given, "its sampler may never end")
            if sampler is not None and not self._is_always_none(module, sampler):
                self.order_obstacle(module, sampler, "samples are drawn by a sampler of the program's own")
            if argument(call, "collate_fn", 6) is not None:
                self.obstacle(module, call, "batches are put together by a function of the program's own")
            if argument(call, "generator", 13) is not None:
                self.order_obstacle(module, call, "the loader has a generator of its own")
            if isinstance(batch, ast.Constant) and batch.value in (1, None):
                self.obstacle(module, batch, "the loader gives one item at a time")
            elif isinstance(batch, ast.Constant) and isinstance(batch.value, int) and batch.value % 2:
                self.obstacle(module, batch, f"batches of {batch.value} samples cannot be divided")
            if shuffle is None or (isinstance(shuffle, ast.Constant) and not shuffle.value):
                self.order_obstacle(module, call, "the loader does not shuffle, so the order of its batches may matter")
            if dataset is not None and is_stream(self.program, module, dataset):
                self.obstacle(module, dataset, "the data set is a stream")
            if module.enclosing(call, ast.For, ast.While) is not None:
                self.order_obstacle(module, call, "the loader is made anew inside a loop")
            if not (
                isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1
            ) or not isinstance(statement.targets[0], ast.Name | ast.Attribute):
                self.order_obstacle(module, call, "the loader has no name of its own where it is made")
        if dataset is None or len(self.training.obstacles) > before:
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
            has_none_sampler=sampler is not None,
            shuffled=bool(shuffle.value) if isinstance(shuffle, ast.Constant) else None,
            drop_last=module.segment(drop_last) if drop_last is not None else None,
            workers=module.span(workers) if workers is not None else None,
            workers_text=module.segment(workers) if workers is not None else "",
        )

    def _is_made_on_import(self, module: Module, call: ast.Call) -> bool:
        """True on the top level of a module that another one imports; the entry runs, and what is only loaded by name is late."""
        if module is self.program.entry_module or module.enclosing_function(call) is not None:
            return False
        last = module.name.rpartition(".")[2]
        return any(name.rpartition(".")[2] == last for other in self.program.modules for name in other.imported_modules)

    def _draws_batches(self, module: Module, node: ast.expr) -> bool:
        """True for a batch sampler of the program's own that draws: a whole epoch of it at once would be another epoch."""
        for value in self.resolver.values(module, node):
            if value.kind == "instance" and isinstance(value.node, ast.Call) and value.module is not None:
                found = self.resolver.definition(value.module.qualified(value.node.func), value.module)
                owner = found[0] if found is not None else module
                functions = [n for n in owner.nodes if isinstance(n, ast.FunctionDef)]
                if any(draws_random(self.program, owner, function) for function in functions):
                    return True
        return False

    def _draws_in_loop(self, module: Module, call: ast.Call) -> bool:
        """True for a loader that a function makes anew for an epoch, of samples that are made with random numbers."""
        function = module.enclosing_function(call)
        if not isinstance(function, ast.FunctionDef):
            return False
        sites = self.resolver.call_sites(function)
        again = any(caller.enclosing(site, ast.For, ast.While) is not None for caller, site in sites)
        return again and draws_random(self.program, module, function)

    def _is_always_none(self, module: Module, node: ast.expr) -> bool:
        """`None`, or a name that is never anything else (`train_sampler = None` of an old template)."""
        values = self.resolver.values(module, node)
        return is_none(node) or (bool(values) and all(v.kind == "constant" and is_none(v.node) for v in values))

    def _read_epochs(self, module: Module, loop: ast.For) -> None:
        """The loop over epochs around the batch loop, directly or around the one call of its function."""
        current: tuple[Module, ast.AST] = (module, loop)
        for _ in range(4):
            owner, node = current
            for ancestor in owner.ancestors(node):
                if isinstance(ancestor, ast.While):
                    self.training.epoch_loop = owner.span(ancestor)
                    self.order_obstacle(owner, ancestor, "epochs are not counted by a for loop")
                    return
                if isinstance(ancestor, ast.For):
                    if not isinstance(ancestor.target, ast.Name) or not is_counting(ancestor.iter):
                        self.training.epoch_loop = owner.span(ancestor)
                        self.order_obstacle(owner, ancestor, "epochs are not counted by a for loop")
                        return
                    self._epoch_found(owner, ancestor, node)
                    return
                if isinstance(ancestor, FunctionNode):
                    sites = self.resolver.call_sites(ancestor)
                    if len(sites) != 1:
                        self.order_obstacle(
                            owner,
                            ancestor,
                            "the function of the training loop is called from several places"
                            if sites
                            else "the call of the training loop could not be found",
                        )
                        return
                    current = sites[0]
                    break
            else:
                break
        self.order_obstacle(module, loop, "no loop over epochs was found around the training loop")

    def _epoch_found(self, module: Module, epochs: ast.For, inner: ast.AST) -> None:
        assert isinstance(epochs.target, ast.Name)
        self.training.epoch_loop = module.span(epochs)
        self.training.epoch_first = module.span(epochs.body[0])
        self.training.epoch_name = epochs.target.id
        if any(
            epochs.target.id in names_in(t)
            for n in ast.walk(epochs)
            if isinstance(n, ast.AugAssign | ast.Assign)
            for t in ([n.target] if isinstance(n, ast.AugAssign) else n.targets)
            if isinstance(t, ast.Name)
        ):
            self.order_obstacle(module, epochs, "the number of the epoch is changed inside its loop")
        self._check_epoch_draws(module, epochs, inner)
        if not self.training.loaders:
            return
        name = self._visible_loader(module, epochs, self.training.loaders)
        if name is None:
            self.order_obstacle(module, epochs, "the training loader cannot be reached where epochs are counted")
        else:
            self.training.loader_in_epoch_scope = name

    def _check_epoch_draws(self, module: Module, epochs: ast.For, inner: ast.AST) -> None:
        """Random numbers that an epoch draws outside its batches: all processes would draw their own."""
        for statement in epochs.body:
            if inner is statement or inner in set(ast.walk(statement)):
                continue
            if draws_random(self.program, module, statement):
                self.obstacle(module, statement, "random numbers are drawn between the epochs")

    def _visible_loader(self, module: Module, epochs: ast.For, loaders: list[Loader]) -> str | None:
        """An expression for the training loader that holds inside the epoch loop."""
        places = {loader.at for loader in loaders}
        scope = module.scope_of.get(epochs, module.scope)
        candidates = [
            n for n in ast.walk(epochs) if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Load)
        ]
        for node in candidates:
            name = dotted(node)
            if name is None or module.scope_of.get(node) is not scope:
                continue
            values = [v for v in self.resolver.values(module, node) if v.kind != "constant"]
            if values and all(self._is_at(v, places) for v in values):
                return name
        # A global of a flat script, or an attribute of the trainer, is in sight without being mentioned.
        if len(loaders) == 1 and self._is_own_attribute(module, scope, loaders[0]):
            return loaders[0].name
        for loader in loaders:
            if len(loaders) == 1 and loader.at.path == module.path and loader.name.isidentifier():
                found = module.lookup(loader.name, scope)
                if found is not None and found[0] is module.scope and len(found[1]) == 1:
                    return loader.name
        return None

    def _is_own_attribute(self, module: Module, scope: Scope, loader: Loader) -> bool:
        """True when the loader is kept as `self.name`, once, by the class (or a relative) whose method counts epochs."""
        head, _, attribute = loader.name.partition(".")
        if not attribute.isidentifier() or head != scope.self_name or scope.owner_class is None:
            return False
        writes = [w for w in self.resolver.attribute_writes.get(attribute, ()) if w[2] is not None]
        return len(writes) == 1 and writes[0][0].scope_of[writes[0][1]].owner_class is scope.owner_class

    @staticmethod
    def _is_at(value: Value, places: set[Span]) -> bool:
        return (
            value.kind == "call"
            and value.node is not None
            and value.module is not None
            and value.module.span(value.node) in places
        )

    # ---------------------------------------------------------------- the body of the loop
    def _read_body(self, module: Module, loop: ast.For, step: Step | None) -> None:
        """Each process goes on with its share where that is known to be the same; else with the whole batch."""
        if not self.whole_loss and step is None:
            shares = _Reader(self.program, "local" if self.local_loss else "auto")
            shares.read_shares(module, loop)
            if not shares.training.obstacles or self.local_loss:
                self.training.loss, self.training.meters = shares.training.loss, shares.training.meters
                self.training.obstacles += shares.training.obstacles
                return
        self.training.whole = whole_batch(self, module, loop, step)

    def read_shares(self, module: Module, loop: ast.For) -> None:
        """Follow a share of the batch: whatever is not known to be right for a share is an obstacle."""
        flow = Flow(self, module, loop)
        flow.follow()
        self.training.loss = flow.loss_text
        self.training.meters = tuple(self._meters(module, loop, flow))
        self._check_figures(module, loop, flow)
        if flow.forwards == 0:
            self.obstacle(module, loop, "the wrapped model is not called in the training loop itself")
        elif flow.forwards > 1:
            self.obstacle(module, loop, "the model is called more than once in a step")

    def _meters(self, module: Module, loop: ast.For, flow: Flow) -> Iterator[Meter]:
        """Figures of the loop that can be put together over processes."""
        for kind in ("object", "sum", "mean"):
            names = tuple(
                name
                for name, known in flow.figures.items()
                if known == kind and (kind == "object" or read_behind(module, loop, name))
            )
            if names:
                yield Meter(kind, names, module.span(loop))

    def _check_figures(self, module: Module, loop: ast.For, flow: Flow) -> None:
        """A figure that cannot be put together must not be read after the loop, messages apart."""
        for node in left_over(module, loop, flow, _in_message):
            self.obstacle(module, node, f"{module.segment(node)} would cover this process's share only")

    # ---------------------------------------------------------------- the rest of the program
    def _check_model_uses(self, module: Module, loop: ast.For) -> None:
        program = self.program
        for owner in program.modules:
            for node in owner.nodes:
                if isinstance(node, ast.Call | ast.Assign) and program.is_unreached(owner, node):
                    continue
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    chain = node.func
                    inner = chain.value
                    through = chain.attr == "module" or (isinstance(inner, ast.Attribute) and inner.attr == "module")
                    if through and self._wrapped_base(owner, chain) and chain.attr not in _READING_METHODS:
                        self.obstacle(owner, node, "the model is also run past its wrapper")
                    if chain.attr == "add_param_group":
                        self.obstacle(owner, node, "parameters are given to an optimizer later")
                    if chain.attr in ("requires_grad_", "register_backward_hook") and self._after_wrap(owner, node):
                        self.obstacle(owner, node, "parameters are frozen or released after the model was wrapped")
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        if (
                            isinstance(target, ast.Attribute)
                            and target.attr == "requires_grad"
                            and self._after_wrap(owner, node)
                        ):
                            self.obstacle(owner, node, "parameters are frozen or released after the model was wrapped")
                        within = isinstance(target, ast.Attribute) and target.attr == "module"
                        if isinstance(target, ast.Attribute) and (
                            (within and program.is_wrapped(owner, target.value))
                            or (isinstance(target.value, ast.Attribute) and target.value.attr == "module")
                        ):
                            self.obstacle(owner, node, "a part of the wrapped model is replaced")
                if isinstance(node, ast.Call) and program.external(owner, node) == "torch.autograd.grad":
                    self.obstacle(owner, node, "gradients are taken by hand")
                if isinstance(node, ast.Call) and program.external(owner, node).startswith("torch.save") and node.args:
                    if program.is_wrapped(owner, node.args[0]):
                        self.obstacle(owner, node, "the wrapped model is saved as an object")

    def _wrapped_base(self, module: Module, chain: ast.Attribute) -> bool:
        base: ast.AST = chain.value
        while isinstance(base, ast.Attribute) and base.attr == "module":
            base = base.value
        return self.program.is_wrapped(module, base)

    def _after_wrap(self, module: Module, node: ast.AST) -> bool:
        """True when the statement may run after a wrap: behind it in its function, or in any other function."""
        scope = module.scope_of.get(node)
        for wrap in self.program.wraps:
            if wrap.at.path == module.path:
                wrap_scope = module.scope_of.get(self._node(module, wrap.at))
                if scope is wrap_scope:
                    return module.span(node).start > wrap.at.start
        return scope is not module.scope and not (
            scope is not None and scope.owner_class is not None and self._is_model_class(module, scope.owner_class.node)
        )

    def _is_model_class(self, module: Module, node: ast.AST) -> bool:
        return isinstance(node, ast.ClassDef) and any(
            "Module" in base for base in self.resolver.external_bases(module, node)
        )

    def _check_optimizers(self) -> None:
        program = self.program
        found = False
        for module, call in program.calls():
            name = program.external(module, call)
            if not (
                name.startswith(("torch.optim.", "apex.optimizers", "torch_optimizer", "timm.optim", "transformers."))
                and "lr_scheduler" not in name
            ):
                continue
            tail = name.rpartition(".")[2]
            if not (tail[:1].isupper() and (name.startswith("torch.optim.") or "Adam" in tail or "Optim" in tail)):
                continue
            found = True
            parameters = argument(call, "params", 0)
            if self.training.whole is not None:
                continue  # what is trained beside the model sees whole batches: see MG407
            sources = list(self._parameter_sources(module, parameters, set()))
            if not sources:
                self.obstacle(module, call, "what this optimizer trains could not be found")
            for owner, source in sources:
                if not self._is_trained_model(owner, source):
                    self.obstacle(owner, source, "the optimizer also trains something outside the wrapped model")
        if not found and self.training.whole is None:
            module = program.entry_module
            self.obstacle(module, module.tree.body[0], "no optimizer of torch was found")

    def _parameter_sources(
        self, module: Module, node: ast.AST | None, seen: set[ast.AST]
    ) -> Iterator[tuple[Module, ast.AST]]:
        """Receivers of `.parameters()` behind an optimizer's argument."""
        if node is None or node in seen:
            return
        seen.add(node)
        for inner in ast.walk(node):
            if (
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Attribute)
                and inner.func.attr in ("parameters", "named_parameters")
            ):
                yield module, inner.func.value
            elif isinstance(inner, ast.Call):
                callee = self.resolver.callee(module, inner)
                if callee is not None and isinstance(callee[1], ast.FunctionDef):
                    yield from self._parameter_sources(callee[0], callee[1], seen)
            elif is_parameter(self.program, module, inner):
                yield module, inner
            elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                found = module.lookup(inner.id, module.scope_of.get(inner, module.scope))
                for binding in found[1] if found else []:
                    if binding.kind in ("assign", "item") and binding.value is not None and binding.value is not node:
                        yield from self._parameter_sources(module, binding.value, seen)

    def _is_trained_model(self, module: Module, node: ast.AST) -> bool:
        """True for the wrapped model, the model inside it, and parts of it."""
        base = node
        while True:
            if self.program.is_wrapped(module, base):
                return True
            inner = {self.program.text(w.inner) for w in self.program.wraps}
            if isinstance(base, ast.Name | ast.Attribute) and dotted(base) in inner:
                return True
            if isinstance(base, ast.Attribute):
                base = base.value
            else:
                return False

    def _check_batch_uses(self, module: Module, loop: ast.For) -> None:
        """Second uses of the batch size that mean the size of this process's batches."""
        for loader in self.training.loaders:
            self._check_batch_text(loader)
        places = {loader.at for loader in self.training.loaders}
        for owner in self.program.modules:
            for node in owner.nodes:
                if isinstance(node, ast.Attribute) and node.attr == "batch_size" and not _in_message(owner, node):
                    if any(self._is_at(value, places) for value in self.resolver.values(owner, node.value)):
                        self.obstacle(owner, node, f"{owner.segment(node)} would be the size of this process's batches")
                if isinstance(node, ast.Call) and dotted(node.func) == "len" and not _in_message(owner, node):
                    asked = node.args[0] if node.args else node
                    if isinstance(asked, ast.Attribute) and asked.attr == "sampler":
                        if any(self._is_at(value, places) for value in self.resolver.values(owner, asked.value)):
                            self.order_obstacle(
                                owner, node, f"{owner.segment(node)} would be that of this process's share"
                            )

    def _check_batch_text(self, loader: Loader) -> None:
        if not re.fullmatch(r"[A-Za-z_][\w.]*", loader.batch_text):
            return
        module = self.program.module_at(loader.at)
        node = next(n for n in module.nodes if isinstance(n, ast.expr) and module.span(n) == loader.batch)
        for text, scope in self._same_value(module, node, 0):
            attribute = text.rpartition(".")[2]
            for owner in self.program.modules:
                for use in owner.nodes:
                    if not isinstance(use, ast.Name | ast.Attribute) or not isinstance(use.ctx, ast.Load):
                        continue
                    if isinstance(use, ast.Name):
                        found = owner.lookup(use.id, owner.scope_of.get(use, owner.scope)) if use.id == text else None
                        if found is None or found[0] is not scope:
                            continue
                    elif use.attr != attribute:
                        continue
                    if not self._is_behind_the_call(owner, use) and not self._is_global_use(owner, use):
                        self.obstacle(owner, use, f"{dotted(use)} is also used for something else than loading")

    def _is_behind_the_call(self, module: Module, node: ast.AST) -> bool:
        """True where a step goes on with the whole batch, whose size this is."""
        whole = self.training.whole
        if whole is None or module.path != whole.call.path:
            return False
        scope = module.scope_of.get(node)
        call = next(n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == whole.call)
        return scope is module.scope_of.get(call) and module.span(node).start > whole.call.end

    def _same_value(self, module: Module, node: ast.expr, depth: int) -> Iterator[tuple[str, Scope | None]]:
        """Spellings of the same number: the name, what it was assigned from, and what calls passed for it."""
        text = dotted(node)
        if text is None or depth > 3:
            return
        if not isinstance(node, ast.Name):
            yield text, None
            return
        found = module.lookup(node.id, module.scope_of.get(node, module.scope))
        yield text, found[0] if found else None
        for binding in found[1] if found else []:
            if binding.kind == "assign" and isinstance(binding.value, ast.Name | ast.Attribute):
                yield from self._same_value(module, binding.value, depth + 1)
            elif binding.kind == "param" and found is not None:
                bound = found[0].parent is not None and found[0].parent.is_class
                for caller, call in self.resolver.call_sites(found[0].node):
                    position = binding.path[0] - (1 if bound else 0) if binding.path else None
                    given = argument(call, binding.target, position)
                    if isinstance(given, ast.Name | ast.Attribute):
                        yield from self._same_value(caller, given, depth + 1)

    def _passed_on(self, module: Module, node: ast.AST) -> tuple[Module, list[ast.AST]] | None:
        """Where a function of the project uses the parameter that it is given this value for."""
        parent = module.parents.get(node)
        keyword = parent.arg if isinstance(parent, ast.keyword) else None
        call = module.parents.get(parent) if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call) or call.func is node:
            return None
        callee = self.resolver.callee(module, call)
        if callee is None or not isinstance(callee[1], ast.FunctionDef):
            return None
        owner, function = callee[0], callee[1]
        names = [a.arg for a in [*function.args.posonlyargs, *function.args.args]]
        bound = owner.scopes[function].self_name is not None
        if keyword is None:
            position = next((i for i, a in enumerate(call.args) if a is node), len(names)) + (1 if bound else 0)
            keyword = names[position] if position < len(names) else None
        uses: list[ast.AST] = [
            n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == keyword and isinstance(n.ctx, ast.Load)
        ]
        return owner, uses

    def _is_global_use(self, module: Module, node: ast.AST, depth: int = 0) -> bool:
        """Uses for which the size of the whole batch is the right one: loaders, arithmetic with lengths, text."""
        passed = self._passed_on(module, node)
        if passed is not None:
            owner, uses = passed
            return depth < 4 and all(self._is_global_use(owner, use, depth + 1) for use in uses)
        for ancestor in module.ancestors(node):
            if isinstance(ancestor, ast.Call):
                name = self.program.external(module, ancestor)
                if name in DATA_LOADER or name.rpartition(".")[2] in (
                    "print",
                    "format",
                    "str",
                    "DataLoader",
                    "info",
                    "join",
                ):
                    return True
                if isinstance(ancestor.func, ast.Attribute) and ancestor.func.attr in (
                    "format",
                    "info",
                    "add_argument",
                    "write",
                ):
                    return True
            if isinstance(ancestor, ast.JoinedStr):
                return True
            if isinstance(ancestor, ast.Compare) and all(isinstance(c, ast.Constant) for c in ancestor.comparators):
                return True
            if isinstance(ancestor, ast.keyword) and _RATE.search(ancestor.arg or ""):
                return True
            if isinstance(ancestor, ast.Assign) and all(_RATE.search(dotted(t) or "") for t in ancestor.targets):
                return True
            if isinstance(ancestor, ast.BinOp):
                if isinstance(ancestor.op, ast.Mod) and isinstance(ancestor.left, ast.Constant | ast.JoinedStr):
                    return True
                other = ancestor.left if node in set(ast.walk(ancestor.right)) else ancestor.right
                if any(isinstance(n, ast.Call) and dotted(n.func) == "len" for n in ast.walk(other)):
                    return True
            if isinstance(ancestor, ast.stmt):
                return isinstance(ancestor, ast.Assign) and _keeps_name(ancestor, node)
        return False

    # ---------------------------------------------------------------- evaluation
    def _read_evaluations(self, module: Module, training_loop: ast.For) -> None:
        for owner, loop in for_loops(self.program):
            if loop is training_loop:
                continue
            found = loaders_of(self.program, owner, loop)
            if len(found) != 1:
                continue
            if any(
                isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "backward"
                for n in ast.walk(loop)
            ):
                continue
            self.training.evaluations.append(self._evaluation(owner, loop, *found[0]))

    def _evaluation(self, module: Module, loop: ast.For, loader_module: Module, call: ast.Call) -> EvaluationLoop:
        probe = _Reader(self.program)
        flow = Flow(probe, module, loop, evaluation=True)
        flow.follow()
        uses = tuple(flow.model_calls)
        why = probe.training.obstacles[0].note if probe.training.obstacles else flow.uncountable
        loader = self._loader(loader_module, call, training=False)
        shuffle = argument(call, "shuffle", 2)
        if not why and (
            has_unpacking(call)
            or argument(call, "sampler", 3) is not None
            or argument(call, "batch_sampler", 4) is not None
        ):
            why = "its loader has a sampler of its own"
        if not why and shuffle is not None and not (isinstance(shuffle, ast.Constant) and not shuffle.value):
            why = "its loader shuffles"
        if not why and (loader is None or loader.batch is None):
            why = "its loader has no batch size"
        if not why and not flow.figures:
            why = "what it adds up was not recognised"
        if not why and not isinstance(
            module.statement(call) if loader_module is module else loader_module.statement(call), ast.Assign
        ):
            why = "its loader has no name of its own"
        others = [
            o
            for o in for_loops(self.program)
            if o[1] is not loop and any(c is call for _, c in loaders_of(self.program, *o))
        ]
        if not why and others:
            why = "its loader is read in several places"
        text = loader.dataset_text if loader else ""
        if not why and loader is not None and self._length_used(loader):
            why = f"the length of {text} is used beside it"
        meters = list(self._meters(module, loop, flow))
        return EvaluationLoop(module.span(loop), loader, tuple(meters), not why, uses, why)

    def _length_used(self, loader: Loader) -> bool:
        """`len(loader.dataset)`, `len(loader)`: a share would change what they say outside of messages."""
        for owner in self.program.modules:
            for node in owner.nodes:
                if not (isinstance(node, ast.Call) and dotted(node.func) == "len" and node.args):
                    continue
                target = node.args[0]
                if isinstance(target, ast.Attribute) and target.attr in ("dataset", "sampler", "batch_sampler"):
                    target = target.value
                if isinstance(target, ast.Name | ast.Attribute) and not _in_message(owner, node):
                    if any(self._is_at(v, {loader.at}) for v in self.resolver.values(owner, target)):
                        return True
        return False


def _keeps_name(node: ast.Assign, value: ast.AST) -> bool:
    """`x.size = x.size`, or one of several such: `epochs, size = config.epochs, config.size`."""
    if len(node.targets) != 1:
        return False
    target, name = node.targets[0], dotted(value) or ""
    if not isinstance(target, ast.Tuple):
        return dotted(target) == name
    given = node.value.elts if isinstance(node.value, ast.Tuple) else []
    pairs = zip(target.elts, given, strict=False)
    return any(one is value and dotted(to) == name.rpartition(".")[2] for to, one in pairs)


def _is_method(module: Module, function: ast.FunctionDef) -> bool:
    return module.scopes[function].self_name is not None and isinstance(module.parents[function], ast.ClassDef)


def _in_message(module: Module, node: ast.AST) -> bool:
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.Call):
            name = dotted(ancestor.func) or (ancestor.func.attr if isinstance(ancestor.func, ast.Attribute) else "")
            if name.rpartition(".")[2] in ("print", "format", "info", "write", "Bar", "progress_bar", "ProgressMeter"):
                return True
        if isinstance(ancestor, ast.JoinedStr):
            return True
    return False
