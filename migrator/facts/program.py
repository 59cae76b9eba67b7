"""The program as the tool understands it: facts of all modules, linked.

In: a `Project`.  Out: a `Program`, which rules ask for facts.  Nothing is mutated after construction, and every list is
in source order, entry module first.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from migrator.facts import effects as effects_of
from migrator.facts.import_time import acting_calls, acting_import
from migrator.facts.model import Clock, DeviceLiteral, Effect, Entry, GuardFact, LookAlike, Place, Wrap
from migrator.facts.neighbours import used_by_others
from migrator.facts.reach import is_main_guard, other_programs, unreached
from migrator.facts.resolve import Resolver, Told, Value
from migrator.facts.shown_times import is_only_shown
from migrator.facts.syntax import FunctionNode, Module, Scope, Span, argument, dotted, names_in
from migrator.load.project import Project

if TYPE_CHECKING:
    from migrator.facts.region import Region

DATA_PARALLEL = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
        "torch.nn.modules.DataParallel",
    }
)
FUNCTIONAL = frozenset({"torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel"})
DISTRIBUTED = frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
        "apex.parallel.DistributedDataParallel",
    }
)
# Words of a condition that are no flag of the program.
_LIBRARY_WORD = re.compile(
    r"torch|cuda|is_available|device_count|len|not|and|or|is|None|True|False|self|args|opt\w*|config|cfg|hparams|params"
)
_SHARED = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader", "torch.cuda.device_count")
_PARSERS = ("argparse.", "optparse.")
_PRIVATE = re.compile(r"^(io\.(BytesIO|StringIO)|tempfile\.(Named|Spooled)?Temporary\w+)$")
# Definitions that an earlier conversion put there.
_OURS = frozenset(
    {"setup_distributed", "share_random_numbers", "wrap_model", "from_rank_zero", "NoWriter", "SplitDataParallel"}
)
_RANK_TEST = re.compile(r"get_rank\(\)|is_initialized\(\)|\.is_main_process\b")
_PARALLEL_TEST = re.compile(r"gpu|cuda|parallel|multi|device|distribut|\bdp\b|\bddp\b|world", re.IGNORECASE)
_NAMED_ALIKE = re.compile(r"(?!__)\w*(DataParallel\w*|data_parallel)")
_ROLE_TEST = re.compile(r"train|eval|test|phase|mode|resume|pretrain|arch|sync|finetune", re.IGNORECASE)


class Program:
    """Everything that rules may ask about one program."""

    def __init__(self, project: Project, told: Told | None = None):
        self.project = project
        self.modules = [m for m in project.modules.values() if m is project.entry or not _is_ours(m)]
        self.entry_module = project.entry
        self.resolver = Resolver(project.modules, told)
        self.region: Region | None = None  # of a notebook: what every process runs
        self.answers: dict[tuple[object, ...], str] = {}  # reasons that were found once, by who asks for what
        self._acting: dict[ast.AST, bool] = {}
        self._sharing: dict[ast.AST, bool] = {}
        self._external: dict[ast.Call, str] = {}
        self._by_path = {module.path: module for module in self.modules}

    # ---------------------------------------------------------------- helpers for rules
    def module_at(self, span: Span) -> Module:
        return self._by_path[span.path]

    def text(self, span: Span) -> str:
        return self.module_at(span).text[span.start : span.end]

    def name_for(self, module: Module, wanted: str, qualified: str) -> tuple[str, str | None]:
        """How a module can spell a library name: (expression, import to add or None).

        A name that the module binds to something else anywhere, also locally, is not used.
        """
        for name, target in module.imports.items():
            if target == qualified and module.always_imports(name) and self._only_import(module, name):
                return name, None
        if not any(wanted in scope.bindings for scope in module.scopes.values()):
            head, _, last = qualified.rpartition(".")
            return wanted, f"import {qualified} as {wanted}" if last != wanted else f"from {head} import {last}"
        return qualified, f"import {qualified}"

    def dist(self, at: Span) -> tuple[str, str | None]:
        """The spelling of `torch.distributed` in the module of a place, with the import it needs."""
        return self.name_for(self.module_at(at), "dist", "torch.distributed")

    @staticmethod
    def _only_import(module: Module, name: str) -> bool:
        return all(
            binding.kind == "import" for scope in module.scopes.values() for binding in scope.bindings.get(name, ())
        )

    def is_shared(self, at: Span) -> bool:
        """True when the place may be run without a process group: by another program of the project, or on import."""
        if at.path == self.entry_module.path:
            return False
        on_import = not self.module_at(at).line_text(at.line)[:1].isspace()
        return on_import or at.path in self._shared

    @cached_property
    def _shared(self) -> frozenset[str]:
        return used_by_others(self.project.modules, self.project.root)

    def free_name(self, wanted: str, at: Span) -> str:
        """The wanted name, or one like it that the module of `at` binds nowhere."""
        module = self.module_at(at)
        taken = {name for scope in module.scopes.values() for name in scope.bindings}
        return next(name for name in (wanted, *(f"{wanted}_{i}" for i in range(2, 1000))) if name not in taken)

    def device_name(self, at: Span) -> str | None:
        """The program's own variable for its device at a place, when it is bound to a `torch.device` before it."""
        module = self.module_at(at)
        node = next(n for n in module.nodes if isinstance(n, ast.expr) and module.span(n) == at)
        found = module.lookup("device", module.scope_of.get(node, module.scope))
        if found is None:
            return None
        values = [b.value for b in found[1] if b.kind == "assign"]
        if len(values) != len(found[1]) or not values:
            return None
        calls = [v for v in values if isinstance(v, ast.Call) and module.qualified(v.func) == "torch.device"]
        before = all(module.span(v).start < at.start for v in calls) or found[0] is module.scope
        return "device" if len(calls) == len(values) and before else None

    def is_name_free(self, name: str) -> bool:
        """True when no module of the program binds the name anywhere."""
        return not any(name in scope.bindings for module in self.modules for scope in module.scopes.values())

    def calls(self) -> Iterator[tuple[Module, ast.Call]]:
        """All calls that the program can make, in source order."""
        return iter(self._calls)

    @cached_property
    def _calls(self) -> list[tuple[Module, ast.Call]]:
        return [
            (module, node)
            for module in self.modules
            for node in module.nodes
            if isinstance(node, ast.Call) and not self._is_other_main(module, node)
        ]

    def _is_other_main(self, module: Module, node: ast.AST) -> bool:
        """Code under another module's `__main__` guard, or that only it calls, never runs in this program."""
        return module is not self.entry_module and any(
            a in self._other_programs or is_main_guard(a) for a in module.ancestors(node)
        )

    def is_unreached(self, module: Module, node: ast.AST) -> bool:
        """True inside of a definition that nothing in the program leads to."""
        return bool(self._unreached) and any(a in self._unreached for a in (node, *module.ancestors(node)))

    @cached_property
    def _unreached(self) -> frozenset[ast.AST]:
        return unreached(self.modules, self.entry_module)

    @cached_property
    def _other_programs(self) -> frozenset[ast.AST]:
        return other_programs(self.modules, self.entry_module)

    def external(self, module: Module, call: ast.Call) -> str:
        """Library name of what a call runs, or the empty text when it is the project's own or unknown."""
        name = self._external.get(call)
        if name is None:
            own = self.resolver.definition(module.qualified(call.func), module) is not None
            name = self._external[call] = "" if own else self.resolver.external_name(module, call.func) or ""
        return name

    # ---------------------------------------------------------------- roles
    @cached_property
    def trains(self) -> bool:
        """True when the program calls `backward`, or steps an optimizer."""
        starts = self.entry.kind != "library"  # of a file that only defines things nothing is called yet
        return any(
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "backward"
            and not (starts and self.is_unreached(module, call))
            for module, call in self.calls()
        )

    @cached_property
    def mentions(self) -> bool:
        """True when the text of any module holds `DataParallel` or `data_parallel`."""
        return any("DataParallel" in m.text or "data_parallel" in m.text for m in self.modules)

    @cached_property
    def existing_ddp(self) -> list[Place]:
        """Calls that already wrap with DistributedDataParallel or start a process group, where this program may get to."""
        places = []
        starts = self.entry.kind != "library"
        for module, call in self.calls():
            if starts and self.is_unreached(module, call):
                continue
            name = self.external(module, call)
            if (
                name in DISTRIBUTED
                or name == "torch.distributed.init_process_group"
                or name.endswith(".DistributedDataParallel")
            ):
                places.append(self._place(module, call, name.rpartition(".")[2]))
        return places

    def tests_around(self, statement: Span) -> list[str]:
        """The tests of all `if`s around a statement, innermost first, also around the calls of its function."""
        module = self.module_at(statement)
        node = next((n for n in module.nodes if isinstance(n, ast.stmt) and module.span(n) == statement), None)
        return self._tests(module, node, 0) if node is not None else []

    def _tests(self, module: Module, node: ast.AST, depth: int) -> list[str]:
        tests: list[str] = []
        child = node
        for ancestor in module.ancestors(node):
            if isinstance(ancestor, ast.If) and not is_main_guard(ancestor) and child is not ancestor.test:
                text = " ".join(module.segment(ancestor.test).split())
                tests.append(f"not ({text})" if child in ancestor.orelse else text)
            if isinstance(ancestor, FunctionNode):
                sites = self.resolver.call_sites(ancestor) if depth < 3 else []
                rest = [self._tests(caller, call, depth + 1) for caller, call in sites]
                return tests + (rest[0] if rest and all(rest) else [])
            child = ancestor
        return tests

    @cached_property
    def flags(self) -> frozenset[str]:
        """Options of the command line with a written default that no statement sets: equal in all processes."""
        given: set[str] = set()
        changing = {
            node.attr
            for module in self.modules
            for node in module.nodes
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }
        for _, call in self.calls():
            if not isinstance(call.func, ast.Attribute) or call.func.attr != "add_argument":
                continue
            names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            default = argument(call, "default", None)
            if names and argument(call, "dest", None) is None:
                name = next((n for n in names if n.startswith("--")), names[0]).lstrip("-").replace("-", "_")
                read = default is not None and any(isinstance(n, ast.Call | ast.Name) for n in ast.walk(default))
                (changing if read else given).add(name)
        return frozenset(given - changing)

    def _place(self, module: Module, node: ast.AST, note: str = "") -> Place:
        return Place(module.span(node), module.span(module.statement(node)), module.segment(node), note)

    @cached_property
    def seeds_itself(self) -> bool:
        """True when the program always seeds every source of random numbers that it uses."""
        seeded: set[str] = set()
        used = {"torch"}
        for module, call in self.calls():
            name = self.external(module, call)
            source = "numpy" if name.startswith("numpy.random.") else name.split(".")[0]
            if name in ("torch.manual_seed", "numpy.random.seed", "random.seed"):
                if self._always_runs(module, call, 0) and all(self._is_fixed(module, a, 0) for a in call.args):
                    seeded.add(source)
            elif name.startswith(("numpy.random.", "random.")):
                used.add(source)
        return used <= seeded

    def _always_runs(self, module: Module, node: ast.AST, depth: int) -> bool:
        """True when the program comes to this place in any case: under no condition, in a function that is called so."""
        for ancestor in module.ancestors(node):
            if isinstance(ancestor, ast.If | ast.Try | ast.For | ast.While | ast.IfExp) and not is_main_guard(ancestor):
                return False
            if isinstance(ancestor, FunctionNode):
                sites = self.resolver.call_sites(ancestor) if depth < 4 else []
                return any(self._always_runs(owner, site, depth + 1) for owner, site in sites)
        return True

    def _is_fixed(self, module: Module, node: ast.AST, depth: int) -> bool:
        """True when a seed is a constant or an option: nothing on the way to it is drawn, or read from a clock."""
        if depth > 4 or any(
            isinstance(n, ast.Call) and (dotted(n.func) or "") not in ("int", "hash", "abs") for n in ast.walk(node)
        ):
            return False
        for part in ast.walk(node):
            values: list[tuple[Module, ast.AST]] = []
            if isinstance(part, ast.Attribute):
                writes = self.resolver.attribute_writes.get(part.attr, ())
                values = [(owner, value) for owner, _, value, _ in writes if value is not None]
            elif isinstance(part, ast.Name):
                found = module.lookup(part.id, module.scope_of.get(part, module.scope))
                for binding in found[1] if found and not isinstance(module.parents.get(part), ast.Attribute) else []:
                    if binding.kind == "param" and found is not None and isinstance(found[0].node, FunctionNode):
                        position = binding.path[0] if binding.path else None
                        for owner, site in self.resolver.call_sites(found[0].node):
                            given = argument(site, binding.target, position)
                            values += [(owner, given)] if given is not None else []
                    elif binding.value is not None:
                        values.append((module, binding.value))
            if not all(self._is_fixed(owner, value, depth + 1) for owner, value in values):
                return False
        return True

    # ---------------------------------------------------------------- entry
    @cached_property
    def entry(self) -> Entry:
        """Where the program starts and ends."""
        module = self.entry_module
        for statement in reversed(module.tree.body):
            if is_main_guard(statement) and isinstance(statement, ast.If):
                first = next((s for s in statement.body if not self._is_quiet(module, s)), statement.body[-1])
                first = self._above_parser(module, statement.body, first)
                before = module.tree.body[: module.tree.body.index(statement)]
                early = next((s for s in before if self._is_early(module, s)), None)
                if early is not None:
                    first = self._below_imports(module, early)
                acting = acting_import(self)
                first = acting or first
                return Entry(
                    "guard" if not acting and (early is None or first is statement) else "early",
                    module.span(first),
                    module.span(statement.body[-1]),
                )
        executable = [s for s in module.tree.body if not _is_declaration(s)]
        loud = [s for s in executable if not self._is_quiet(module, s)]
        if not loud:
            return Entry("library", None, None)
        first = acting_import(self) or self._below_imports(module, loud[0])
        return Entry("flat", module.span(first), module.span(module.tree.body[-1]))

    @cached_property
    def is_joined(self) -> bool:
        """True when an earlier conversion has already made the entry join the processes."""
        called = {n.id for n in self.entry_module.nodes if isinstance(n, ast.Name)}
        if "Accelerator" in called:
            return True
        for name in called:
            if name.startswith("setup_distributed"):  # or with an ending, where the program has one of its own
                found = self.resolver.definition(self.entry_module.imports.get(name, name), self.entry_module)
                if found is not None and _is_our_setup(found[1]):
                    return True
        return False

    @cached_property
    def is_accelerated(self) -> bool:
        """True when the program makes an Accelerator."""
        return any(self.external(module, call) == "accelerate.Accelerator" for module, call in self.calls())

    def exit_status(self, statement: Span) -> Place | None:
        """The argument of a `sys.exit(...)` statement, the statement itself when it has none, or None for another one."""
        module = self.module_at(statement)
        for node in module.nodes:
            if isinstance(node, ast.Expr) and module.span(node) == statement and isinstance(node.value, ast.Call):
                call = node.value
                if self.external(module, call) in ("sys.exit", "exit", "quit", "os._exit"):
                    inner = call.args[0] if call.args and isinstance(call.args[0], ast.Call) else node
                    return Place(module.span(inner), statement, module.segment(inner))
        return None

    def _is_early(self, module: Module, statement: ast.stmt) -> bool:
        """A statement above the main guard that already seeds, draws, writes, asks the clock or uses a GPU."""
        if isinstance(statement, FunctionNode | ast.ClassDef | ast.Import | ast.ImportFrom) or is_main_guard(statement):
            return False
        return any(self._acts(module, node, 0) for node in ast.walk(statement) if isinstance(node, ast.Call))

    def _below_imports(self, module: Module, first: ast.stmt) -> ast.stmt:
        """The statement, or the one after the imports when it stands between them: names must be there before they are used.

        Imports below a statement that needs the processes are no longer at the top.
        """
        body, last = module.tree.body, -1
        for place, statement in enumerate(body):
            if isinstance(statement, FunctionNode | ast.ClassDef | ast.For | ast.While | ast.With):
                break
            if isinstance(statement, ast.Import | ast.ImportFrom):
                last = place
            elif place >= body.index(first) and self._needs_processes(module, statement):
                break
        return first if body.index(first) > last or last + 1 >= len(body) else body[last + 1]

    def _needs_processes(self, module: Module, statement: ast.stmt) -> bool:
        """A statement that loads, wraps, counts devices, or acts in another way than by a seed."""
        calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
        return any(
            self._shares(module, call, 0)
            or (self._acts(module, call, 0) and not effects_of.seeds(self.external(module, call)))
            for call in calls
        )

    def _shares(self, module: Module, call: ast.Call, depth: int) -> bool:
        """A call that makes a loader or a wrapper, or counts the devices, itself or in the functions that it runs."""
        if call in self._wrap_nodes or self.external(module, call) in _SHARED:
            return True
        return self._runs(module, call, depth, self._sharing, self._shares)

    def _acts(self, module: Module, call: ast.Call, depth: int) -> bool:
        if effects_of.acts_alone(module, call, self.external(module, call)):
            return True
        return self._runs(module, call, depth, self._acting, self._acts)

    def _runs(
        self,
        module: Module,
        call: ast.Call,
        depth: int,
        known: dict[ast.AST, bool],
        does: Callable[[Module, ast.Call, int], bool],
    ) -> bool:
        """True when a function of the project that the call runs has a call inside that `does` it."""
        callee = self.resolver.callee(module, call) if depth < 4 else None
        if callee is not None and isinstance(callee[1], ast.ClassDef):
            callee = self.resolver.method(callee[0], callee[1], "__init__")
        if callee is None:
            return False
        if callee[1] not in known:
            known[callee[1]] = False  # for functions that call themselves
            inner = (n for n in ast.walk(callee[1]) if isinstance(n, ast.Call))
            known[callee[1]] = any(does(callee[0], n, depth + 1) for n in inner)
        return known[callee[1]]

    @cached_property
    def acts_on_import(self) -> list[Place]:
        """Calls that imported modules make while they are imported, and that need the processes to have met."""
        if acting_import(self) is not None:
            return []  # the processes meet above it
        return [self._place(module, call) for module, call in acting_calls(self)]

    def _is_quiet(self, module: Module, statement: ast.stmt) -> bool:
        """Argument parsing, plain constants, and where to import from: they may come before the processes meet."""
        if isinstance(statement, ast.If) and _is_plain(statement.test):
            inside = [*statement.body, *statement.orelse]
            return all(isinstance(s, ast.Import | ast.ImportFrom) or self._is_quiet(module, s) for s in inside)
        if isinstance(statement, ast.Assign | ast.Expr) and _is_plain(statement.value):
            return True
        if isinstance(statement, ast.Assign | ast.Expr):
            value = statement.value
            if isinstance(value, ast.Call):
                name = module.qualified(value.func) or ""
                if name.startswith(("matplotlib.use", "warnings.")):
                    return True
                if name in ("os.path.join", "os.path.dirname", "os.path.abspath", "os.path.realpath"):
                    return True
                if name in ("sys.path.append", "sys.path.insert"):
                    return True
        return self._parses(module, statement)

    def _parses(self, module: Module, statement: ast.stmt) -> bool:
        """A call of argparse, or of a parser that it made."""
        if not isinstance(statement, ast.Assign | ast.Expr) or not isinstance(statement.value, ast.Call):
            return False
        function = statement.value.func
        if (module.qualified(function) or "").startswith(_PARSERS):
            return True
        if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
            return False
        return any(
            v.kind == "call" and v.name.startswith(_PARSERS) for v in self.resolver.values(module, function.value)
        )

    def _above_parser(self, module: Module, block: list[ast.stmt], first: ast.stmt) -> ast.stmt:
        """A place that is not between the lines which make a parser: above them, where the given one is."""
        lines = [place for place, statement in enumerate(block) if self._parses(module, statement)]
        return block[lines[0]] if lines and lines[0] < block.index(first) < lines[-1] else first

    # ---------------------------------------------------------------- wraps
    @cached_property
    def _wrap_nodes(self) -> dict[ast.AST, tuple[Module, ast.Call, str, str]]:
        found: dict[ast.AST, tuple[Module, ast.Call, str, str]] = {}
        for module, call in self.calls():
            kind_name = self._wrap_kind(module, call)
            if kind_name is not None and not self._is_saved(module, call):
                found[call] = (module, call, *kind_name)
        return found

    def _is_saved(self, module: Module, call: ast.Call) -> bool:
        """True for a wrapper that is made to be written to a file, and runs nothing."""
        outer = next((a for a in module.ancestors(call) if not isinstance(a, ast.Dict | ast.Tuple | ast.List)), None)
        if isinstance(outer, ast.Call) and self.external(module, outer) == "torch.save":
            return True
        # `state = {"net": nn.DataParallel(net.module)}`, as MG601 writes it where the dictionary has a name
        bare = len(call.args) == 1 and isinstance(call.args[0], ast.Attribute) and call.args[0].attr == "module"
        return bare and isinstance(module.parents.get(call), ast.Dict)

    def _wrap_kind(self, module: Module, call: ast.Call) -> tuple[str, str] | None:
        tail = (
            call.func.attr
            if isinstance(call.func, ast.Attribute)
            else call.func.id
            if isinstance(call.func, ast.Name)
            else ""
        )
        name = self.external(module, call)
        if name in DATA_PARALLEL:
            return "class", name
        if name in FUNCTIONAL:
            return "functional", name
        if isinstance(call.func, ast.Name) and "DataParallel" in module.text:
            found = module.lookup(tail, module.scope_of.get(call, module.scope))
            if found is not None and any(
                b.kind == "assign" and module.qualified(b.value) in DATA_PARALLEL for b in found[1] if b.value
            ):
                return "class", "torch.nn.DataParallel"
        if "Parallel" in tail or tail in self._subclasses:
            callee = self.resolver.callee(module, call)
            if callee is not None and isinstance(callee[1], ast.ClassDef):
                bases = self.resolver.external_bases(callee[0], callee[1])
                if bases & DATA_PARALLEL:
                    return "subclass", callee[1].name
        return None

    @cached_property
    def _subclasses(self) -> frozenset[str]:
        """Names of the project's classes that derive from torch's DataParallel, whatever they are called."""
        return frozenset(
            node.name
            for module, node in self.resolver.definitions.values()
            if isinstance(node, ast.ClassDef) and node.bases and not _is_ours(module)
            if self.resolver.external_bases(module, node) & DATA_PARALLEL
        )

    @cached_property
    def wraps(self) -> list[Wrap]:
        """Live DataParallel calls of torch, or of subclasses of it, in source order."""
        return [self._wrap(*row) for row in self._wrap_nodes.values()]

    def _wrap(self, module: Module, call: ast.Call, kind: str, name: str) -> Wrap:
        inner = argument(call, "module", self._module_position(module, call, kind)) or call
        outer: ast.AST = call
        while True:
            parent = module.parents.get(outer)
            grand = module.parents.get(parent) if parent is not None else None
            if (
                isinstance(parent, ast.Attribute)
                and parent.attr in ("cuda", "to")
                and isinstance(grand, ast.Call)
                and grand.func is parent
            ):
                outer = grand
            else:
                break
        statement = module.statement(call)
        conditional = module.parents.get(outer)
        dim_node = argument(call, "dim", 4 if kind == "functional" else 3)
        return Wrap(
            at=module.span(call),
            outer=module.span(outer),
            statement=module.span(statement),
            inner=module.span(inner),
            inner_text=module.segment(inner),
            target=", ".join(module.segment(t) for t in statement.targets) if isinstance(statement, ast.Assign) else "",
            kind=kind,
            name=name,
            dim=module.segment(dim_node) if dim_node is not None else None,
            guards=tuple(self._guards(module, statement, call)),
            conditional=self._conditional(module, conditional, outer),
            submodule=isinstance(inner, ast.Attribute)
            and not (isinstance(inner.value, ast.Name) and inner.value.id == "self"),
            scope=module.scope_of.get(call, module.scope).name,
            in_class=module.scope_of.get(call, module.scope).owner_class is not None,
        )

    def _module_position(self, module: Module, call: ast.Call, kind: str) -> int:
        """Where a wrap takes its module: first, or after a subclass's own parameters (`__init__(self, n, *args)`)."""
        callee = self.resolver.callee(module, call) if kind == "subclass" else None
        if callee is None or not isinstance(callee[1], ast.ClassDef):
            return 0
        init = self.resolver.method(callee[0], callee[1], "__init__")
        if init is None or not isinstance(init[1], ast.FunctionDef):
            return 0
        names = [a.arg for a in (*init[1].args.posonlyargs, *init[1].args.args)][1:]
        if "module" in names:
            return names.index("module")
        return len(names) if init[1].args.vararg is not None else 0

    def _conditional(self, module: Module, parent: ast.AST | None, outer: ast.AST) -> Span | None:
        """`nn.DataParallel(m) if multi else m`: the place of the whole conditional expression."""
        if (
            isinstance(parent, ast.IfExp)
            and outer in (parent.body, parent.orelse)
            and is_parallel_test(module.segment(parent.test))
        ):
            return module.span(parent)
        return None

    def _guards(self, module: Module, statement: ast.stmt, call: ast.Call) -> Iterator[GuardFact]:
        child: ast.AST = statement
        for ancestor in module.ancestors(statement):
            if isinstance(ancestor, FunctionNode | ast.ClassDef):
                return
            if isinstance(ancestor, ast.If):
                in_else = child in ancestor.orelse
                branch, other = (ancestor.orelse, ancestor.body) if in_else else (ancestor.body, ancestor.orelse)
                test = module.segment(ancestor.test)
                wraps_elsewhere = any(n in self._raw_wraps(module) for s in other for n in ast.walk(s))
                outer = module.parents.get(ancestor)
                in_chain = _is_elif(module, ancestor) or (isinstance(outer, ast.If) and _is_elif(module, outer))
                yield GuardFact(
                    at=module.span(ancestor),
                    test=test,
                    parallel=is_parallel_test(test) and not wraps_elsewhere and not is_main_guard(ancestor),
                    exclusive=not in_chain
                    and (
                        (
                            self._only_places(module, branch, call)
                            and self._only_places(module, other, call)
                            and (_moves_to_cuda(other) or not _moves_to_cuda(branch))
                        )
                        or self._calls_alike(module, branch, other, call)
                    ),
                    orelse=in_else,
                    wraps_elsewhere=wraps_elsewhere,
                    leaves=_leaves(module, branch[-1]),
                    is_entry=is_main_guard(ancestor),
                    alone=not other and not in_chain and branch == [statement],
                    lines=tuple(module.span(s) for s in branch),
                )
            child = ancestor

    def _calls_alike(self, module: Module, branch: list[ast.stmt], other: list[ast.stmt], call: ast.Call) -> bool:
        """True when one branch calls by a functional `data_parallel`, and the other one the module itself, alike."""
        if len(branch) != 1 or len(other) != 1 or not call.args or self._wrap_nodes[call][2] != "functional":
            return False
        told = self._functional_arguments(module, call)
        if told is None:
            return False
        text = re.sub(r"\$(\d+)", lambda hole: module.segment(told[1][int(hole[1]) - 1]), told[0])
        plain = f"({module.segment(call.args[0])})({text})"
        statement = module.segment(branch[0]).replace(module.segment(call), plain)
        return ast.dump(ast.parse(textwrap.dedent(statement))) == ast.dump(ast.Module([other[0]], []))

    def inlined_guard(self, wrap: Wrap) -> GuardFact | None:
        """The `if` around a wrap that goes, because the process group decides now.

        One whose flag also decides elsewhere what is done with the model (`.module` or not, a mean over replicas) stays, and
        so does one by which callers say that they want the model as it is.
        """
        return next(
            (
                guard
                for guard in wrap.guards
                if guard.parallel
                and guard.exclusive
                and not (self._decides_more(guard) or self._is_up_to_callers(guard))
            ),
            None,
        )

    def _is_up_to_callers(self, guard: GuardFact) -> bool:
        """True for a parameter of the function that nobody gives in this program, or somebody gives as false."""
        module = self.module_at(guard.at)
        node = next(n for n in module.nodes if isinstance(n, ast.If) and module.span(n) == guard.at)
        test = node.test
        found = module.lookup(test.id, module.scope_of.get(test, module.scope)) if isinstance(test, ast.Name) else None
        binding = next((b for b in found[1] if b.kind == "param"), None) if found else None
        if found is None or binding is None or not isinstance(found[0].node, FunctionNode):
            return False
        sites = self.resolver.call_sites(found[0].node)
        position = binding.path[0] if binding.path else None
        given = [argument(site, binding.target, position) or binding.value for _, site in sites]
        return not sites or any(isinstance(value, ast.Constant) and not value.value for value in given)

    def _decides_more(self, guard: GuardFact) -> bool:
        names = {name for name in re.findall(r"[A-Za-z_]\w*", guard.test) if not _LIBRARY_WORD.fullmatch(name)}
        names |= self._set_to_true(guard) | ({"device_count"} if "device_count" in guard.test else set())
        return any(
            place != guard.at and not any(place == g.at for w in self.wraps for g in w.guards) and names & flags
            for place, flags in self._flags_of_wrapped
        )

    def _set_to_true(self, guard: GuardFact) -> set[str]:
        """Names that the branch with the wrap sets to a constant: `parallel = True`."""
        return {
            name
            for node in self.module_at(guard.at).nodes
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and self.module_at(guard.at).span(node) in guard.lines
            for target in node.targets
            for name in names_in(target)
        }

    @cached_property
    def _flags_of_wrapped(self) -> list[tuple[Span, frozenset[str]]]:
        """Conditions that choose between a wrapped and a bare model, or average what replicas gave."""
        found = []
        for module in self.modules:
            for node in module.nodes:
                if not isinstance(node, ast.If | ast.IfExp) or self._is_other_main(module, node):
                    continue
                parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [*node.body, *node.orelse]
                if any(_treats_wrapped(n) for part in parts for n in ast.walk(part)):
                    words = set(re.findall(r"[A-Za-z_]\w*", module.segment(node.test)))
                    words |= {"device_count" for name in words if self._counts_devices(module, node, name)}
                    found.append((module.span(node), frozenset(words)))
        return found

    def _counts_devices(self, module: Module, place: ast.AST, name: str) -> bool:
        """True for a name that holds the number of devices where it is asked for."""
        found = module.lookup(name, module.scope_of.get(place, module.scope))
        values = [b.value for b in found[1] if b.kind == "assign" and b.value is not None] if found else []
        return any("device_count" in module.segment(value) for value in values)

    def _raw_wraps(self, module: Module) -> set[ast.AST]:
        return {node for node, row in self._wrap_nodes.items() if row[0] is module}

    def _only_places(self, module: Module, statements: list[ast.stmt], call: ast.Call) -> bool:
        """True when the statements only wrap, move or announce the model, or note that they did (`parallel = True`)."""
        for statement in statements:
            if isinstance(statement, ast.Pass):
                continue
            value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
            if isinstance(statement, ast.Assign) and isinstance(value, ast.Constant) and isinstance(value.value, bool):
                continue
            if (
                isinstance(statement, ast.Assign)
                and value is not None
                and names_in(statement.targets[0]) & names_in(value)
            ):
                continue
            if isinstance(value, ast.Call) and _is_announcement(value):
                continue
            if (
                isinstance(value, ast.Call)
                and isinstance(value.func, ast.Attribute)
                and value.func.attr in ("cuda", "to")
            ):
                continue
            if value is call or (value is not None and call in set(ast.walk(value))):
                continue
            return False
        return True

    @cached_property
    def look_alikes(self) -> list[LookAlike]:
        """Calls of things named like DataParallel that are not torch's."""
        found = []
        for module, call in self.calls():
            tail = (
                call.func.attr
                if isinstance(call.func, ast.Attribute)
                else call.func.id
                if isinstance(call.func, ast.Name)
                else ""
            )
            if not _NAMED_ALIKE.fullmatch(tail) or "Distributed" in tail or call in self._wrap_nodes:
                continue
            name = self.external(module, call)
            if name in DISTRIBUTED or name in DATA_PARALLEL:  # torch's own, made to be saved: no wrap, nor a look-alike
                continue
            callee = self.resolver.callee(module, call)
            if callee is not None and isinstance(callee[1], ast.ClassDef) and _is_converted(callee[1]):
                continue
            if callee is not None and any(n in self._wrap_nodes for n in ast.walk(callee[1])):
                continue  # a function that wraps: what is inside it is converted or reported
            where = (
                f"defined in {callee[0].path}"
                if callee is not None
                else f"imported as {name}"
                if name
                else "of unknown origin"
            )
            found.append(LookAlike(module.span(call), tail, where))
        return found

    def is_wrapped(self, module: Module, node: ast.AST) -> bool:
        """True when the expression may be a wrapped model."""
        return any(v.node in self._wrap_nodes for v in self.resolver.values(module, node))

    @property
    def wrap_values(self) -> list[Value]:
        """The wrapped models, as the resolver gives them."""
        return [Value("call", call, module, name) for module, call, _, name in self._wrap_nodes.values()]

    def wraps_behind(self, module: Module, node: ast.AST) -> list[Value]:
        return [v for v in self.resolver.values(module, node) if v.node in self._wrap_nodes]

    def functional_call(self, wrap: Wrap) -> tuple[str, tuple[Span, ...]] | None:
        """The arguments of a functional `data_parallel(module, inputs, ...)` call, as text with holes from `$1` on."""
        module, call, _, _ = next(row for node, row in self._wrap_nodes.items() if row[0].span(node) == wrap.at)
        found = self._functional_arguments(module, call)
        return found and (found[0], tuple(module.span(part) for part in found[1]))

    def _functional_arguments(self, module: Module, call: ast.Call) -> tuple[str, list[ast.expr]] | None:
        inputs = argument(call, "inputs", 1)
        if inputs is None:
            return None
        parts: list[tuple[str, ast.expr]] = []
        if isinstance(inputs, ast.Tuple):
            parts += [("*", e.value) if isinstance(e, ast.Starred) else ("", e) for e in inputs.elts]
        elif not (isinstance(inputs, ast.Constant) and inputs.value is None):
            parts.append(("*" if self._is_tuple(module, inputs) else "", inputs))
        named = argument(call, "module_kwargs", 5)
        if named is not None and not (isinstance(named, ast.Constant) and named.value is None):
            parts.append(("**", named))
        text = ", ".join(f"{stars}${place}" for place, (stars, _) in enumerate(parts, 1))
        return text, [part for _, part in parts]

    def functional_inputs(self, wrap: Wrap) -> Span | None:
        """The `inputs` expression of a functional call, when it is all that the call gives the module."""
        found = self.functional_call(wrap)
        return found[1][0] if found is not None and found[0] == "$1" else None

    def _is_tuple(self, module: Module, node: ast.expr) -> bool:
        """True for a tuple in a variable, and for the `args` of `def f(*args)`."""
        if isinstance(node, ast.Name):
            found = module.lookup(node.id, module.scope_of.get(node, module.scope))
            function = found[0].node if found else None
            if isinstance(function, ast.FunctionDef) and function.args.vararg is not None:
                if function.args.vararg.arg == node.id:
                    return True
        return any(isinstance(value.node, ast.Tuple) for value in self.resolver.values(module, node))

    @cached_property
    def wrapped_loads(self) -> list[Place]:
        """What is loaded into a wrapped model by `load_state_dict`."""
        found = []
        for module, call in self.calls():
            if isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict" and call.args:
                if self.is_wrapped(module, call.func.value) and not _ends_in_module(call.func.value):
                    found.append(self._place(module, call.args[0]))
        return found

    @cached_property
    def module_accesses(self) -> list[Place]:
        """`wrapped.module`; the note is the text of the wrapped model."""
        found = []
        for module in self.modules:
            for node in module.nodes:
                if isinstance(node, ast.Attribute) and node.attr == "module" and self.is_wrapped(module, node.value):
                    found.append(self._place(module, node, module.segment(node.value)))
        return found

    @cached_property
    def async_transfers(self) -> list[Place]:
        """Calls with an `async=` argument; the note is its value's text."""
        found = []
        for module, call in self.calls():
            for keyword in call.keywords:
                if keyword.arg == "asinc":
                    found.append(self._place(module, call, module.segment(keyword.value)))
        return found

    # ---------------------------------------------------------------- side effects
    @cached_property
    def effects(self) -> list[Effect]:
        """Writes, folders, sinks, removals, shell calls, prompts and downloads of the program."""
        found = []
        for module, call in self.calls():
            effect = effects_of.classify(module, call, self.external(module, call), self._saves_image(module, call))
            if effect is None or self._is_private(module, call, effect):
                continue
            if not (self._is_own_method(module, call) or is_settled(module, call)):
                found.append(effect)
        return found

    def _saves_image(self, module: Module, call: ast.Call) -> bool:
        """True for the `save` of a picture that a function of the project has given back."""
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "save" and call.args):
            return False
        made = self.resolver.values(module, call.func.value)
        return bool(made) and all(
            v.node is not None and v.module is not None and effects_of.is_image(v.module, v.node) for v in made
        )

    def _is_own_method(self, module: Module, call: ast.Call) -> bool:
        """`utils.mkdir(path)`: a function of the project that is only called like a library's method."""
        return self.external(module, call) == "" and self.resolver.callee(module, call) is not None

    def _is_private(self, module: Module, call: ast.Call, effect: Effect) -> bool:
        """True when what is written to is in memory, or a temporary file that every process has for itself."""
        values = (*call.args, *(keyword.value for keyword in call.keywords))
        for path in (value for value in values if module.span(value) == effect.path):
            base = path.value if isinstance(path, ast.Attribute) and path.attr == "name" else path
            if any(_PRIVATE.match(value.name) for value in self.resolver.values(module, base)):
                return True
        return False

    @cached_property
    def clocks(self) -> list[Clock]:
        """Values of the clock, the process id or the operating system's random numbers, and what they flow into."""
        found = []
        for module, call in self.calls():
            clock = effects_of.clock(module, call, self.external(module, call))
            if clock is None or is_settled(module, call):
                continue
            shown = clock.into == "name" and is_only_shown(self.resolver, module, call)
            found.append(replace(clock, into="log") if shown else clock)
        return found

    @cached_property
    def logs(self) -> bool:
        """True when the program logs through `logging`."""
        return any(self.external(module, call).startswith("logging.") for module, call in self.calls())

    # ---------------------------------------------------------------- devices
    @cached_property
    def device_literals(self) -> list[DeviceLiteral]:
        """Places that name a GPU by its index, or choose which GPUs are visible."""
        found = []
        for module in self.modules:
            for node in module.nodes:
                if self._is_other_main(module, node) or (self.is_joined and is_settled(module, node)):
                    continue
                literal = self._device_literal(module, node)
                if literal is not None:
                    found.append(literal)
        return found

    def _device_literal(self, module: Module, node: ast.AST) -> DeviceLiteral | None:
        def fact(kind: str) -> DeviceLiteral:
            return DeviceLiteral(kind, module.span(node), module.span(module.statement(node)), module.segment(node))

        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"cuda:\d+", node.value):
            return fact("string")
        if isinstance(node, ast.Call):
            name = self.external(module, node)
            if name == "torch.cuda.set_device":
                return fact("set_device")
            if (
                isinstance(node.func, ast.Attribute)
                and node.func.attr == "cuda"
                and (node.args or any(k.arg == "device" for k in node.keywords))
            ):
                first = node.args[0] if node.args else None
                own = [v.name for v in self.resolver.values(module, first)] if first is not None else []
                if own == ["torch.cuda.current_device"]:
                    return None
                if not (isinstance(first, ast.Constant) and (first.value is None or isinstance(first.value, bool))):
                    return fact("cuda_call")
            if name == "torch.device" and len(node.args) == 2:
                return fact("device_call")
        if isinstance(node, ast.Assign) and any(_is_visible_devices(module, t) for t in node.targets):
            return fact("visible")
        return None

    @cached_property
    def device_counts(self) -> list[Place]:
        """`torch.cuda.device_count()` where its value matters to the training."""
        gone = [wrap.at for wrap in self.wraps]
        gone += [
            Span(g.at.path, g.at.start, g.lines[0].start, g.at.line) for g in self._inlined_guards() if not g.orelse
        ]
        found = []
        for module, call in self.calls():
            if self.external(module, call) != "torch.cuda.device_count":
                continue
            statement = module.statement(call)
            announced = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            if announced and _is_announcement(statement.value):  # type: ignore[attr-defined]
                continue
            place = self._place(module, call)
            if any(span.contains(place.at) for span in gone) or _asks_for_any(module, call) or is_settled(module, call):
                continue
            last = _last_device(module, call)
            if last is not None:
                found.append(
                    self._place(module, last, f"{module.segment(call.func).rpartition('.')[0]}.current_device()")
                )
            elif not _is_of_this_machine(module, call):
                found.append(place)
        return found

    def _inlined_guards(self) -> list[GuardFact]:
        return [guard for wrap in self.wraps if (guard := self.inlined_guard(wrap)) is not None]

    @cached_property
    def type_tests(self) -> list[Place]:
        """Names of DataParallel used as a class: in `isinstance`, in comparisons of types."""
        found = []
        for module in self.modules:
            if "DataParallel" not in module.text:
                continue
            for node in module.nodes:
                if (
                    not isinstance(node, ast.Name | ast.Attribute)
                    or self.resolver.external_name(module, node) not in DATA_PARALLEL
                    or self._is_other_main(module, node)
                ):
                    continue
                parent = module.parents.get(node)
                if isinstance(parent, ast.Call) and parent.func is node:
                    continue
                if isinstance(parent, ast.Attribute | ast.ClassDef | ast.alias):
                    continue
                found.append(self._place(module, node))
        return found


def _is_ours(module: Module) -> bool:
    """The module of helpers that an earlier conversion put beside the entry."""
    return ast.get_docstring(module.tree) == "What the processes of this program share." or any(
        b.kind == "def" and _is_our_setup(b.node) for b in module.scope.bindings.get("setup_distributed", ())
    )


def _is_our_setup(node: ast.AST) -> bool:
    """The helper that an earlier conversion put there; programs have functions of that name too."""
    told = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
    return (told or "").startswith("Join the process group that torchrun describes")


def _treats_wrapped(node: ast.AST) -> bool:
    """`model.module`, `loss.mean()`, `loss.sum()`."""
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("mean", "sum")
        and not node.args
        and "loss" in (dotted(node.func.value) or "")
    )


def is_settled(module: Module, node: ast.AST) -> bool:
    """True for what one process does already, or all of them take from rank 0."""
    if isinstance(node, ast.Call) and any(
        isinstance(n, ast.IfExp) and _RANK_TEST.search(module.segment(n.test)) for n in ast.walk(node)
    ):
        return True
    child = node
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.If | ast.IfExp) and child is not ancestor.test:
            if _RANK_TEST.search(module.segment(ancestor.test)):
                return True
        if isinstance(ancestor, ast.Call) and dotted(ancestor.func) == "from_rank_zero":
            return True
        if isinstance(ancestor, ast.FunctionDef | ast.ClassDef) and ancestor.name in _OURS:
            return True
        child = ancestor
    return False


def _ends_in_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "module"


def _is_converted(node: ast.ClassDef) -> bool:
    """True for the wrapper that an earlier conversion put there."""
    names = {t.id for s in node.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)}
    return "splits_batch" in names


def _moves_to_cuda(statements: list[ast.stmt]) -> bool:
    """True when a statement calls `.cuda()` or `.to("cuda")`, which fails on a machine without a GPU."""
    for node in (n for s in statements for n in ast.walk(s)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            to = node.func.attr == "to" and any(
                isinstance(a, ast.Constant) and str(a.value).startswith("cuda") for a in node.args
            )
            if node.func.attr == "cuda" or to:
                return True
    return False


def _last_device(module: Module, call: ast.Call) -> ast.BinOp | None:
    """`device_count() - 1` and `int(device_count()) - 1`: the index of a GPU."""
    node: ast.AST = call
    parent = module.parents.get(node)
    if isinstance(parent, ast.Call) and dotted(parent.func) == "int":
        node, parent = parent, module.parents.get(parent)
    is_one = isinstance(parent, ast.BinOp) and isinstance(parent.right, ast.Constant) and parent.right.value == 1
    return parent if isinstance(parent, ast.BinOp) and is_one and isinstance(parent.op, ast.Sub) else None


def _is_of_this_machine(module: Module, call: ast.Call) -> bool:
    """True for `rank % device_count()`, and for a loop that only tells about each device."""
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, ast.BinOp) and isinstance(ancestor.op, ast.Mod):
            return True
        if isinstance(ancestor, ast.For) and call in set(ast.walk(ancestor.iter)):
            calls = [s.value for s in ancestor.body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)]
            return len(calls) == len(ancestor.body) and all(_is_announcement(c) for c in calls)
        if isinstance(ancestor, ast.stmt):
            return False
    return False


def _asks_for_any(module: Module, call: ast.Call) -> bool:
    """True for `device_count() >= 1`, `> 0` and the like: a question for CUDA, not for the number of devices."""
    parent = module.parents.get(call)
    if isinstance(parent, ast.Compare) and parent.left is call and len(parent.ops) == 1:
        bound = parent.comparators[0]
        if not isinstance(bound, ast.Constant):
            return False
        if bound.value == 0:
            return isinstance(parent.ops[0], ast.Gt | ast.Eq | ast.NotEq | ast.LtE)
        return bound.value == 1 and isinstance(parent.ops[0], ast.GtE | ast.Lt)
    return isinstance(parent, ast.BoolOp | ast.UnaryOp) or (
        isinstance(parent, ast.If | ast.IfExp | ast.While) and parent.test is call
    )


def is_parallel_test(test: str) -> bool:
    """True when a condition asks for several devices (a count, a flag, CUDA) and for nothing else that trains."""
    names = re.findall(r"[A-Za-z_]\w*", test)
    roles = [name for name in names if _ROLE_TEST.search(name) and not _PARALLEL_TEST.search(name)]
    return bool(_PARALLEL_TEST.search(test)) and not roles


def _leaves(module: Module, last: ast.stmt) -> bool:
    """True when the statement ends the function or the program."""
    if isinstance(last, ast.Return | ast.Raise):
        return True
    value = last.value if isinstance(last, ast.Expr) else None
    return isinstance(value, ast.Call) and module.qualified(value.func) in ("sys.exit", "exit", "quit", "os._exit")


def _is_declaration(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom | FunctionNode | ast.ClassDef):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return True
    if isinstance(statement, ast.Try):
        return all(
            _is_declaration(s) or isinstance(s, ast.Pass)
            for s in [*statement.body, *(b for h in statement.handlers for b in h.body)]
        )
    if isinstance(statement, ast.If):
        return all(_is_declaration(s) for s in [*statement.body, *statement.orelse])
    return False


def _is_plain(node: ast.expr) -> bool:
    """Constants and displays of constants."""
    return not any(isinstance(n, ast.Call | ast.Attribute | ast.Subscript) for n in ast.walk(node))


def _is_announcement(call: ast.Call) -> bool:
    name = dotted(call.func) or ""
    return name == "print" or bool(
        re.search(r"(^|\.)(log|logger|logging|info|warning|warn|debug|write|print_\w*|print)$", name)
    )


def _is_elif(module: Module, node: ast.If) -> bool:
    """True when the else branch of the `if` is spelled `elif`."""
    if len(node.orelse) != 1 or not isinstance(node.orelse[0], ast.If):
        return False
    return module.text[module.span(node.orelse[0]).start :].startswith("elif")


def _is_visible_devices(module: Module, target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Subscript)
        and module.qualified(target.value) == "os.environ"
        and isinstance(target.slice, ast.Constant)
        and target.slice.value == "CUDA_VISIBLE_DEVICES"
    )


def scope_name(scope: Scope) -> str:
    return scope.name or "<module>"
