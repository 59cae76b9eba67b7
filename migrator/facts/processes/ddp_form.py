"""What a DistributedDataParallel program does on account of its processes: the places that one process has no use for.

In: a `Program` without DataParallel.  Out: a `DdpForm`: every such place by kind, and the places that are not understood.
Programs that people wrote by hand and programs that an earlier conversion made are both read; of the latter, the helpers are
known by their names and their module or docstring.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.processes.own_ddp import (
    DdpForm,
    Undone,
    helper_calls,
    inside_helper,
    read_helpers,
    read_silence,
    remove,
)
from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, dotted, has_unpacking
from migrator.facts.python.syntax import Module

DIST = "torch.distributed."
_LEFT_OUT = {
    "init_process_group": "the Accelerator joins the processes",
    "destroy_process_group": "the Accelerator lets them part",
}
_RESPELLED = {
    "get_rank": "process_index",
    "get_world_size": "num_processes",
    "barrier": "wait_for_everyone()",
}
_VARIABLES = {"RANK": "process_index", "LOCAL_RANK": "local_process_index", "WORLD_SIZE": "num_processes"}
_RANK_ZERO = re.compile(
    r"(not \S+\.is_initialized\(\) or )?(\S*get_rank\(\)|(args\.|self\.|opt\.)?(local_|global_)?rank) == 0"
)
_SAMPLER = "DistributedSampler"
_APEX = "apex.parallel.DistributedDataParallel"
_OF_DEVICES = frozenset(["module", "device_ids", "output_device", "process_group"])
_OF_APEX = frozenset(["module", "delay_allreduce", "message_size"])  # when gradients are sent, not what becomes of them
_HANDLED = frozenset(["dim", "broadcast_buffers", "bucket_cap_mb", "find_unused_parameters", "gradient_as_bucket_view"])


def is_ddp_form(program: Program) -> bool:
    """True when the program trains with DistributedDataParallel alone: not with DataParallel, and not with accelerate yet."""
    if program.wraps or program.is_accelerated:
        return False
    return bool(program.existing_ddp) or any(name == "setup_distributed" for _, _, name in helper_calls(program))


def read_ddp_form(program: Program) -> DdpForm:
    """Every place of the program that is there for its processes."""
    form = DdpForm(any(True for _ in helper_calls(program)))
    for module, call in program.calls():
        _read_call(program, form, module, call)
    read_helpers(program, form)
    for module in program.modules:
        _read_bare_calls(form, module)
        _read_guards(form, module)
        _read_environment(form, module)
    _read_samplers(program, form)
    _check_wrappers(program, form)
    form.places = [
        place for place in dict.fromkeys(form.places) if not any(_swallows(other, place) for other in form.places)
    ]
    return form


def _check_wrappers(program: Program, form: DdpForm) -> None:
    """Wrappers of other libraries, and programs that average gradients without one."""
    known = {place.at for place in form.places if place.kind == "wrap"} | {at for at, _ in form.problems}
    if form.own or not program.existing_ddp:
        return
    wrappers = [place.at for place in program.existing_ddp if place.note != "init_process_group"]
    for at in wrappers:
        if at not in known:
            form.problems.append(
                (at, "this is not torch's DistributedDataParallel: say what it does with the Accelerator")
            )
    if not wrappers:
        at = program.existing_ddp[0].at
        form.problems.append((at, "nothing is wrapped here: how gradients are averaged could not be read"))


def _swallows(outer: Undone, inner: Undone) -> bool:
    """True when nothing of the inner place is left after what becomes of the outer one."""
    if outer.at == inner.at or not outer.at.contains(inner.at):
        return False
    if outer.kind == "inline":
        return outer.holes[0].contains(inner.at)
    return outer.kind in ("remove", "expression") and not any(hole.contains(inner.at) for hole in outer.holes)


def _read_call(program: Program, form: DdpForm, module: Module, call: ast.Call) -> None:
    name = program.external(module, call)
    if name == _APEX and not inside_helper(module, call):
        _read_wrap(form, module, call, _OF_APEX)
    if not name.startswith("torch.") or inside_helper(module, call):
        return
    at, statement = module.span(call), module.statement(call)
    tail = name.rpartition(".")[2]
    alone = isinstance(statement, ast.Expr) and statement.value is call
    if tail == "DistributedDataParallel":
        _read_wrap(form, module, call)
    elif name == "torch.cuda.set_device" and alone:
        remove(form, module, statement, "the Accelerator binds the process to its GPU")
    elif name in ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes") and alone:
        _read_spawn(form, module, call)
    elif not name.startswith(DIST):
        return
    elif tail in _LEFT_OUT and alone:
        remove(form, module, statement, _LEFT_OUT[tail])
    elif tail in ("is_available", "is_initialized"):
        form.places.append(Undone("expression", at, "accelerate has always met", "True"))
    elif tail == "barrier" and form.own and alone:
        remove(form, module, statement, "where processes wait is decided anew")
    elif tail == "get_rank" and (test := _rank_test(module, call)) is not None:
        form.places.append(Undone("processes", module.span(module.parents[call]), "one process", test))
        if test.startswith("not ") and form.own:
            read_silence(form, module, module.statement(call))
    elif tail in _RESPELLED and not call.args:
        form.places.append(Undone("processes", at, "the Accelerator knows the processes", _RESPELLED[tail]))
    elif tail in ("all_reduce", "reduce") and alone and not _trains(module, call):
        remove(form, module, statement, "figures of an evaluation are added up by the conversion")
    else:
        form.problems.append((at, f"`{tail}` exchanges data between processes: say it with the Accelerator, by hand"))


def _rank_test(module: Module, call: ast.Call) -> str | None:
    """`get_rank() == 0` and `get_rank() != 0` in accelerate's words."""
    parent = module.parents.get(call)
    if not isinstance(parent, ast.Compare) or parent.left is not call or len(parent.ops) != 1:
        return None
    zero = parent.comparators[0]
    if not isinstance(zero, ast.Constant) or zero.value != 0:
        return None
    texts = {ast.Eq: "is_main_process", ast.NotEq: "not {processes}.is_main_process"}
    return texts.get(type(parent.ops[0]))


def _trains(module: Module, call: ast.Call) -> bool:
    """True when the function around a call runs a backward pass."""
    function = module.enclosing_function(call) or module.tree
    return any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in ast.walk(function))


def _read_wrap(form: DdpForm, module: Module, call: ast.Call, passed_over: frozenset[str] = _OF_DEVICES) -> None:
    inner = argument(call, "module", 0)
    if inner is None or has_unpacking(call):
        form.problems.append((module.span(call), "what this call wraps could not be read"))
        return
    for keyword in call.keywords:
        if keyword.arg in _HANDLED and isinstance(keyword.value, ast.Constant):
            if keyword.arg == "find_unused_parameters" and not keyword.value.value:
                continue  # what it is anyway
            form.arguments.append(f"{keyword.arg}={module.segment(keyword.value)}")
        elif keyword.arg not in passed_over:
            form.problems.append((module.span(call), f"`{keyword.arg}` has no place in accelerate's form"))
    form.places.append(Undone("wrap", module.span(call), "prepare() wraps the model", ")", (module.span(inner),)))


def _read_spawn(form: DdpForm, module: Module, call: ast.Call) -> None:
    function, arguments = argument(call, "fn", 0), argument(call, "args", 1)
    if function is None or (arguments is not None and not isinstance(arguments, ast.Tuple)):
        form.problems.append((module.span(call), "which function the processes run could not be read"))
        return
    handed = arguments.elts if isinstance(arguments, ast.Tuple) else []
    holes = (module.span(function), *(module.span(one) for one in handed))
    text = "$0({processes}.local_process_index" + "".join(f", ${place}" for place, _ in enumerate(handed, 1)) + ")"
    form.places.append(Undone("processes", module.span(call), "the launcher starts the processes", text, holes))


# -------------------------------------------------------------------- statements
def _read_bare_calls(form: DdpForm, module: Module) -> None:
    """An evaluation through `model.module(...)`: the conversion decides anew how it is shared out."""
    for node in module.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "module":
            continue
        if not inside_helper(module, node) and not _backward_around(module, node):
            kept = (module.span(node.func.value),)
            form.places.append(Undone("expression", module.span(node.func), "one model", "$0", kept))


def _backward_around(module: Module, node: ast.AST) -> bool:
    """True inside of a loop with a backward pass."""
    loops = [a for a in module.ancestors(node) if isinstance(a, ast.For | ast.While)]
    inner = loops[0] if loops else module.tree
    return any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in ast.walk(inner))


def _read_guards(form: DdpForm, module: Module) -> None:
    for node in module.nodes:
        if inside_helper(module, node):
            continue
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) and len(node.values) == 2:
            rest = [one for one in node.values if not _is_rank_zero(module, one)]
            if len(rest) == 1:
                left = (module.span(rest[0]),)
                form.places.append(Undone("expression", module.span(node), "which process is decided anew", "$0", left))
        if not isinstance(node, ast.If | ast.IfExp):
            continue
        if not _is_rank_zero(module, node.test):
            continue
        at = module.span(node)
        if isinstance(node, ast.IfExp):
            nothing = isinstance(node.orelse, ast.Constant) or "devnull" in module.segment(node.orelse)
            if nothing:
                form.places.append(Undone("expression", at, "one process", "$0", (module.span(node.body),)))
        elif not node.orelse and not _is_elif(module, node):
            test = (module.span(node.test),)
            form.places.append(Undone("inline", at, "which process writes is decided anew", "", test))


def _is_elif(module: Module, node: ast.If) -> bool:
    parent = module.parents.get(node)
    return isinstance(parent, ast.If) and parent.orelse == [node]


def _is_rank_zero(module: Module, test: ast.expr) -> bool:
    return _RANK_ZERO.fullmatch(" ".join(module.segment(test).split())) is not None


def _read_environment(form: DdpForm, module: Module) -> None:
    """`int(os.environ["LOCAL_RANK"])` and its kin: alone, no launcher sets them."""
    for node in module.nodes:
        variable = _variable(module, node)
        if variable is None or inside_helper(module, node):
            continue
        outer = module.parents.get(node)
        whole = outer if isinstance(outer, ast.Call) and dotted(outer.func) == "int" else node
        statement = module.statement(node)
        if isinstance(outer, ast.Assign | ast.Compare) or (isinstance(statement, ast.If) and whole is node):
            continue
        form.places.append(
            Undone("processes", module.span(whole), "the Accelerator knows the processes", _VARIABLES[variable])
        )


def _variable(module: Module, node: ast.AST) -> str | None:
    if isinstance(node, ast.Subscript) and module.qualified(node.value) == "os.environ":
        key = node.slice
    elif isinstance(node, ast.Call) and module.qualified(node.func) in ("os.getenv", "os.environ.get") and node.args:
        key = node.args[0]
    else:
        return None
    return key.value if isinstance(key, ast.Constant) and key.value in _VARIABLES else None


# -------------------------------------------------------------------- samplers
def _read_samplers(program: Program, form: DdpForm) -> None:
    """Samplers that deal out samples go; their loaders shuffle by themselves, as they say (H15)."""
    gone: set[tuple[str, str]] = set()
    for module, call in program.calls():
        if not program.external(module, call).endswith(_SAMPLER) or inside_helper(module, call):
            continue
        statement = module.statement(call)
        shuffle = argument(call, "shuffle", 3)
        text = module.segment(shuffle) if shuffle is not None else "True"
        if text != "False":
            form.seeds.add(_seed(argument(call, "seed", 4)))
        name = dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else None
        if name is not None and isinstance(statement, ast.Assign) and statement.value is call:
            remove(form, module, statement, "accelerate deals out the samples")
            gone.add((module.path, name))
            _read_loaders(program, form, module, name, text)
        elif isinstance(module.parents.get(call), ast.keyword):
            loader = module.parents[module.parents[call]]
            form.places.append(Undone("sampler", module.span(loader), "accelerate deals out the samples", text))
        else:
            form.problems.append((module.span(call), "this sampler's loader could not be read: let the loader shuffle"))
    for module in program.modules:
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and node.attr == "set_epoch" and not inside_helper(module, node):
                statement = module.statement(node)
                form.tells_epochs = True
                if isinstance(statement, ast.Expr):
                    remove(form, module, statement, "prepared loaders count their epochs themselves")
                    gone.discard((module.path, ""))
            elif isinstance(node, ast.Name | ast.Attribute) and (module.path, dotted(node) or "") in gone:
                _check_use(form, module, node)


def _seed(node: ast.expr | None) -> str:
    """A sampler's seed as text; empty where it is not written out."""
    if node is None:
        return "0"
    return str(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, int) else ""


def _read_loaders(program: Program, form: DdpForm, module: Module, name: str, shuffle: str) -> None:
    for where, call in program.calls():
        sampler = argument(call, "sampler", 3)
        if where is module and sampler is not None and dotted(sampler) == name:
            if program.external(module, call).endswith("DataLoader"):
                form.places.append(Undone("sampler", module.span(call), "accelerate deals out the samples", shuffle))


def _check_use(form: DdpForm, module: Module, node: ast.Name | ast.Attribute) -> None:
    if not isinstance(node.ctx, ast.Load):
        return
    parent = module.parents.get(node)
    known = isinstance(parent, ast.keyword) and parent.arg in ("sampler", "shuffle")
    known = known or (isinstance(parent, ast.Attribute) and parent.attr == "set_epoch")
    if not known and not isinstance(parent, ast.Compare):
        form.problems.append((module.span(node), "the sampler is used here as well, and is gone in accelerate's form"))
