"""What an earlier conversion to DistributedDataParallel put into a program: its helpers, known by module or docstring.

In: the modules of a program.  Out: the places that are there for its processes, by what becomes of them in one process.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module, Span

# Helpers of an earlier conversion: what is left of a call of each where there is one process.
_GONE = frozenset(["setup_distributed", "share_random_numbers", "vary_seed_by_rank", "sync_buffers"])
_GONE |= {"average_over_ranks", "keep_alike"}
_FIRST = frozenset(["wrap_model", "SplitDataParallel"])
_SAME = frozenset(["local_batch", "split_batches", "own_share", "from_rank_zero", "whole_batch", "in_shares"])
_SUMS = frozenset(["sum_over_ranks", "mean_over_ranks"])
_MODULE = re.compile(r"(^|\.)(ddp_utils|distributed_utils|multi_process|training_processes)(_\d+)?$")
_SAYS = {  # how their docstrings begin, in a file that holds them itself
    "setup_distributed": "Join the process group that torchrun describes",
    "share_random_numbers": "Continue on all processes with rank 0's random numbers",
    "vary_seed_by_rank": "From here on each process draws its own random numbers",
    "sync_buffers": "Give every process rank 0's BatchNorm statistics",
    "average_over_ranks": "Make each meter's average cover the samples of all processes",
    "sum_over_ranks": "Each number summed over all processes",
    "mean_over_ranks": "Each number averaged over all processes",
    "wrap_model": "Put the model on this process's device and average its gradients",
    "local_batch": "This process's part of a batch of",
    "split_batches": "The loader, with only this process's part of each batch",
    "SplitBatchSampler": "This process's chunk of each batch that rank 0 draws",
    "own_share": "This process's samples for evaluation",
    "from_rank_zero": "Rank 0's value, on every process",
    "NoWriter": "Takes the place of a log writer on processes other than rank 0",
    "whole_batch": "`value` with the rows of all processes",
    "GatherRows": "Concatenates the tensors of all processes",
    "zeros_for_unused": "The model, in whose steps parameters that no output depends on get gradients of zero",
    "TiedOutputs": "Copies of outputs; on the way back every parameter",
    "map_tensors": "`value` rebuilt with `function` applied",
    "keep_alike": "Let every step of the optimizer take rank 0's gradients",
    "in_shares": "The model for evaluation, as nn.DataParallel ran it",
    "count_parts": "Into how many parts the tensors in `value` are cut",
    "join_parts": "One output with the rows of all",
    "map_parts": "`value` rebuilt with `function` applied",
    "rank_zero_first": "Let rank 0 do what is inside first",
}
_HELPERS = _GONE | _FIRST | _SAME | _SUMS | {"NoWriter", "rank_zero_first", "zeros_for_unused"}


@dataclass(frozen=True, slots=True)
class Undone:
    """One place: `kind` says what becomes of it, `text` what is put there, `holes` which of its parts stay."""

    kind: str  # remove, keep, expression, sampler, wrap, inline, spawn, processes
    at: Span
    reason: str
    text: str = ""
    holes: tuple[Span, ...] = ()  # of inline: the test, which goes


@dataclass(slots=True)
class DdpForm:
    """`own`: an earlier conversion made it, so that its loaders name the batch over all processes."""

    own: bool
    places: list[Undone] = field(default_factory=list)
    problems: list[tuple[Span, str]] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)  # of DistributedDataParallel, as `name=value`
    seeds: set[str] = field(default_factory=set)  # of shuffling samplers; empty where it is no number
    tells_epochs: bool = False  # `set_epoch` is called


def read_helpers(program: Program, form: DdpForm) -> None:
    """The calls of helpers, and what else an earlier conversion wrote."""
    for module, call, name in helper_calls(program):
        _read_helper(form, module, call, name)
    for module in program.modules:
        if form.own:
            _read_shares(form, module)
        _read_definitions(form, module)


def remove(form: DdpForm, module: Module, statement: ast.stmt, reason: str) -> None:
    outer = module.parents.get(statement)
    test = dotted(outer.test.func) if isinstance(outer, ast.If) and isinstance(outer.test, ast.Call) else None
    only = isinstance(outer, ast.If) and outer.body == [statement] and not outer.orelse
    if only and (test or "").endswith(("cuda.is_available", "dist.is_initialized", "distributed.is_initialized")):
        statement = outer if isinstance(outer, ast.stmt) else statement
    form.places.append(Undone("remove", module.emptied_by(module.span(statement)), reason))


def helper_calls(program: Program) -> Iterator[tuple[Module, ast.Call, str]]:
    for module in program.modules:
        for node in module.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _HELPERS:
                if is_helper(module, node.func.id) and not inside_helper(module, node):
                    yield module, node, node.func.id


def is_helper(module: Module, name: str) -> bool:
    """True when a name of a module is the helper that an earlier conversion put there."""
    for binding in module.scope.bindings.get(name, ()):
        if binding.kind == "import" and _MODULE.search(binding.target.rpartition(".")[0]):
            return True
        if isinstance(binding.node, ast.FunctionDef | ast.ClassDef):
            return (ast.get_docstring(binding.node) or "").startswith(_SAYS.get(name, " "))
    return False


def helper_modules(program: Program) -> list[str]:
    """Files beside the entry that hold nothing but helpers of an earlier conversion."""
    return [m.path for m in program.modules if m is not program.entry_module and _MODULE.search(m.name)]


def inside_helper(module: Module, node: ast.AST) -> bool:
    if _MODULE.search(module.name):
        return True
    return any(
        isinstance(a, ast.FunctionDef | ast.ClassDef) and module.parents.get(a) is module.tree and _is_ours(module, a)
        for a in module.ancestors(node)
    )


def _is_ours(module: Module, node: ast.FunctionDef | ast.ClassDef) -> bool:
    return is_helper(module, node.name)


def _read_helper(form: DdpForm, module: Module, call: ast.Call, name: str) -> None:
    at, statement = module.span(call), module.statement(call)
    if name in _GONE:
        remove(form, module, statement, "one process needs no such thing")
    elif name in _SUMS:
        remove(form, module, statement, "the figures are added up by the conversion")
    elif name in _FIRST and call.args:
        dim = "".join(f", dim={module.segment(k.value)}" for k in call.keywords if k.arg == "dim")
        moved = '.to("cuda" if {torch}.cuda.is_available() else "cpu")' if name == "wrap_model" else ""
        kept = (module.span(call.args[0]),)
        form.places.append(Undone("wrap", at, "prepare() wraps the model", f"{dim}){moved}", kept))
    elif name == "whole_batch" and _gives_itself(module, statement, call):
        remove(form, module, statement, "the batch is whole again")
    elif name == "rank_zero_first":
        form.places.append(Undone("processes", at, "the main process goes first", "main_process_first()"))
    elif name == "zeros_for_unused" and len(call.args) == 1:
        form.arguments.append("find_unused_parameters=True")
        form.places.append(Undone("expression", at, "prepare() wraps the model", "$0", (module.span(call.args[0]),)))
    elif name in _SAME and len(call.args) == 1:
        form.places.append(
            Undone("expression", at, "the batch and the data set are whole again", "$0", (module.span(call.args[0]),))
        )
    elif name == "NoWriter" and isinstance(module.parents.get(call), ast.IfExp):
        choice = module.parents[call]
        assert isinstance(choice, ast.IfExp)
        log = (module.span(choice.body),)
        form.places.append(Undone("expression", module.span(choice), "one log", "$0", log))
    else:
        form.problems.append((at, f"`{name}` is for the processes of the DDP form: take it out by hand"))


def _gives_itself(module: Module, statement: ast.stmt, call: ast.Call) -> bool:
    """True for `x = whole_batch(x)`."""
    if not isinstance(statement, ast.Assign) or statement.value is not call or len(statement.targets) != 1:
        return False
    return module.segment(statement.targets[0]) == module.segment(call.args[0])


def _read_shares(form: DdpForm, module: Module) -> None:
    """`math.ceil(n / world_size)` of an earlier conversion is n."""
    for node in module.nodes:
        if not isinstance(node, ast.Call) or module.qualified(node.func) != "math.ceil" or inside_helper(module, node):
            continue
        share = node.args[0] if len(node.args) == 1 else None
        if isinstance(share, ast.BinOp) and isinstance(share.op, ast.Div):
            if "get_world_size()" in module.segment(share.right):
                kept = (module.span(share.left),)
                form.places.append(Undone("expression", module.span(node), "the whole number", "$0", kept))


def read_silence(form: DdpForm, module: Module, statement: ast.stmt) -> None:
    """`if get_rank() != 0: logging.disable(...)` of an earlier conversion."""
    if isinstance(statement, ast.If) and not statement.orelse and len(statement.body) == 1:
        if "logging.disable(" in module.segment(statement.body[0]):
            remove(form, module, statement, "which process speaks is decided anew")


def _read_definitions(form: DdpForm, module: Module) -> None:
    """Helpers of an earlier conversion that stand in the file itself."""
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and is_helper(module, node.name):
            form.places.append(Undone("remove", module.span(node), "a helper of the DDP form"))
