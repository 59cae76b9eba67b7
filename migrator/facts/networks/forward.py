"""What a model's forward pass does that DistributedDataParallel does otherwise than DataParallel.

In: a `Program`.  Out: places with what speaks against it: parts that no forward pass uses (zeros of gradients under DataParallel,
none here), branches by samples or by chance (other parts take part on another process), and state that the pass leaves on
the module (which DataParallel's replicas forget).  Only classes of the program itself are read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.model import Wrap
from migrator.facts.networks.branches import Branches, is_own
from migrator.facts.networks.covered import covers_others
from migrator.facts.networks.forward_passes import Forward, forward_passes
from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, dotted, walk
from migrator.facts.python.syntax import Module, Span
from migrator.facts.python.values import Value

Against = tuple[Module, ast.AST, str]
Reads = dict[str, list[tuple[Module, ast.Attribute]]]  # where attributes of each name are read
UNUSED = "no forward pass uses"
PARTIAL = "not every output of the model is always in the loss"

_WITHOUT_PARAMETERS = (
    *(
        "ReLU",
        "LeakyReLU",
        "ELU",
        "GELU",
        "SiLU",
        "Dropout",
        "MaxPool",
        "AvgPool",
        "Adaptive",
        "Sigmoid",
        "Tanh",
        "Softmax",
    ),
    *("LogSoftmax", "Flatten", "Unflatten", "Identity", "Upsample", "Pad", "ZeroPad", "Reflection", "Unfold", "Fold"),
    *("PixelShuffle", "Softplus", "Hard", "CosineSimilarity", "PairwiseDistance", "Threshold", "ReLU6"),
)
_ASIDE = frozenset(
    [
        "parameters",
        "named_parameters",
        "weight",
        "bias",
        "data",
        "apply",
        "state_dict",
        "load_state_dict",
        "requires_grad_",
    ]
)
_ALL_PARTS = frozenset(["children", "named_children", "modules", "named_modules", "_modules", "__dict__"])


def against_ddp(program: Program) -> Iterator[Against]:
    """Everything in the wrapped models' own classes that speaks against DistributedDataParallel."""
    yield from _partial_outputs(program)
    reads = _attribute_reads(program)
    classes = model_classes(program)
    branches = Branches(program, classes)
    for module, node in classes:
        if any(base.rpartition(".")[2].endswith("Module") for base in program.resolver.external_bases(module, node)):
            yield from _unused(program, module, node, reads)
            for owner, function in _forward_methods(program, module, node):
                yield from branches.of(owner, function)
                yield from _state(owner, function, reads)


def _attribute_reads(program: Program) -> Reads:
    reads: Reads = {}
    for module in program.modules:
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                reads.setdefault(node.attr, []).append((module, node))
    return reads


def model_classes(program: Program) -> list[tuple[Module, ast.ClassDef]]:
    """The program's classes that the wrapped models are made of; all of them where a model could not be found."""
    queue: list[tuple[Module, ast.AST]] = []
    for wrap in program.wraps:
        module = program.module_at(wrap.at)
        inner = next((n for n in module.nodes if isinstance(n, ast.expr) and module.span(n) == wrap.inner), None)
        for value in program.resolver.values(module, inner):
            if value.node is None or value.module is None or not _is_in_sight(value):
                queue += [
                    (m, n)
                    for m in program.modules
                    for n in m.nodes
                    if isinstance(n, ast.ClassDef) and not program.is_unreached(m, n)
                ]
            else:
                queue.append((value.module, value.node))
    found: dict[ast.AST, tuple[Module, ast.ClassDef]] = {}
    seen: set[ast.AST] = set()
    while queue:
        module, node = queue.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, ast.ClassDef):
            found[node] = (module, node)
            queue += program.resolver.bases(module, node)
        for part in walk(node):
            if isinstance(part, ast.Name | ast.Attribute):
                definition = program.resolver.definition(module.qualified(part), module)
                if definition is not None and isinstance(definition[1], ast.ClassDef | ast.FunctionDef):
                    queue.append(definition)
    return list(found.values())


def _is_in_sight(value: Value) -> bool:
    """True for an object of a class of the program or of a library, and not for what a table or a name leads to."""
    library = value.name.startswith(
        ("torch.", "torchvision.", "timm.", "transformers.", "segmentation_models_pytorch.")
    )
    return value.kind == "instance" or (value.kind == "call" and library)


def _forward_methods(program: Program, module: Module, node: ast.ClassDef) -> Iterator[tuple[Module, ast.FunctionDef]]:
    """`forward` as the class itself defines it, and its own methods that the pass goes through."""
    wanted, seen = ["forward"], set()
    while wanted:
        name = wanted.pop()
        method = next((s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == name), None)
        if method is None or name in seen:
            continue
        seen.add(name)
        yield module, method
        wanted += [
            n.func.attr
            for n in walk(method)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and is_own(n.func.value, method)
        ]


# ---------------------------------------------------------------- parts that are never used
def _unused(program: Program, module: Module, node: ast.ClassDef, reads: Reads) -> Iterator[Against]:
    init = next((s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
    if init is None or not any(isinstance(s, ast.FunctionDef) and s.name == "forward" for s in node.body):
        return
    for part in walk(node):
        if isinstance(part, ast.Attribute) and part.attr in _ALL_PARTS and is_own(part.value, init):
            return
        if isinstance(part, ast.Call) and dotted(part.func) in ("getattr", "setattr"):
            return
    for statement in walk(init):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        for target in statement.targets:
            if isinstance(target, ast.Attribute) and is_own(target.value, init):
                if _has_parameters(program, module, statement.value) and not _is_used(target, reads):
                    yield module, statement, f"{UNUSED} {dotted(target)}"


def _has_parameters(program: Program, module: Module, call: ast.Call) -> bool:
    name = program.external(module, call)
    owner, _, made = name.rpartition(".")
    if owner.startswith("torch.nn") and made[:1].isupper():
        if made == "Parameter":
            needs = argument(call, "requires_grad", 1)
            return not (isinstance(needs, ast.Constant) and needs.value is False)
        if made in ("Sequential", "ModuleList", "ModuleDict"):
            return any(
                _has_parameters(program, module, n) for n in walk(call) if isinstance(n, ast.Call) and n is not call
            )
        return not made.startswith(_WITHOUT_PARAMETERS) and not made.endswith(("Loss", "Pad1d", "Pad2d", "Pad3d"))
    callee = program.resolver.callee(module, call)
    if callee is None or not isinstance(callee[1], ast.ClassDef):
        return False
    inside = (n for n in walk(callee[1]) if isinstance(n, ast.Call) and n is not call)
    return any(
        program.external(callee[0], n).startswith("torch.nn.") and _has_parameters(program, callee[0], n)
        for n in inside
    )


def _is_used(target: ast.Attribute, reads: Reads) -> bool:
    """True when the part is read anywhere for more than its parameters."""
    for module, node in reads.get(target.attr, ()):
        parent = module.parents.get(node)
        if not (isinstance(parent, ast.Attribute) and parent.attr in _ASIDE):
            return True
    return False


# ---------------------------------------------------------------- state
def _state(module: Module, function: ast.FunctionDef, reads: Reads) -> Iterator[Against]:
    for node in walk(function):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute) and is_own(target.value, function):
                if isinstance(node, ast.AugAssign) or _is_read(module, target, module.span(node), reads):
                    yield module, node, f"the forward pass keeps {dotted(target)}, which DataParallel's replicas forget"


def _is_read(module: Module, target: ast.Attribute, writing: Span, reads: Reads) -> bool:
    return any(m is not module or not writing.contains(m.span(n)) for m, n in reads.get(target.attr, ()))


# ---------------------------------------------------------------- outputs that may not reach the loss
def _partial_outputs(program: Program) -> Iterator[Against]:
    """Training calls that leave out, at least sometimes, one of several outputs of the program's own model."""
    if not _gives_several(program):
        return
    for module, call in program.calls():
        loop = module.enclosing(call, ast.For, ast.While)
        if loop is None or not program.is_wrapped(module, call.func) or not _has_backward(loop):
            continue
        statement = module.statement(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is call else None
        names = [dotted(e) for e in target.elts] if isinstance(target, ast.Tuple) else [None]
        rest = module.block(statement)[module.block(statement).index(statement) + 1 :]
        always = [s for s in rest if not isinstance(s, ast.If | ast.For | ast.While)]
        read = {dotted(n) for s in always for n in walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        used = {place for place, name in enumerate(names) if name in read}
        if len(used) < len(names) and not _is_covered(program, module, call, used, len(names)):
            yield module, call, PARTIAL


def _is_covered(program: Program, module: Module, call: ast.Call, used: set[int], count: int) -> bool:
    """True when each output that the step leaves out is a value that the others are made of, in every class it may be."""
    found = [one for wrap in program.wraps for one in _forwards(program, wrap)] if used else []
    return bool(found) and all(isinstance(one, tuple) and covers_others(call, *one, used, count) for one in found)


def _forwards(program: Program, wrap: Wrap) -> list[Forward]:
    module = program.module_at(wrap.at)
    inner = next(n for n in module.nodes if isinstance(n, ast.expr) and module.span(n) == wrap.inner)
    return forward_passes(program, module, inner)


def _has_backward(loop: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in walk(loop))


def _gives_several(program: Program) -> bool:
    """True when the forward pass of a wrapped class of the program's own gives more than one thing."""
    for wrap in program.wraps:
        module = program.module_at(wrap.at)
        inner = next((n for n in module.nodes if isinstance(n, ast.expr) and module.span(n) == wrap.inner), None)
        for value in program.resolver.values(module, inner):
            if value.kind != "instance" or value.module is None or not isinstance(value.node, ast.Call):
                continue
            found = program.resolver.callee(value.module, value.node)
            if found is None or not isinstance(found[1], ast.ClassDef):
                continue
            method = program.resolver.method(found[0], found[1], "forward")
            for node in walk(method[1]) if method else ():
                if isinstance(node, ast.Return) and _is_several(node.value):
                    return True
    return False


def _is_several(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Tuple):
        return len(node.elts) > 1
    if isinstance(node, ast.Dict):
        return len(node.keys) > 1
    if isinstance(node, ast.Call) and len(node.args) + len(node.keywords) > 1:
        return dotted(node.func) == "dict" or (isinstance(node.func, ast.Name) and node.func.id[:1].isupper())
    return False
