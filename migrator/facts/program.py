"""The program as the tool understands it: facts of all modules, linked.

In: a `Project`.  Out: a `Program`, which rules ask for facts.  Each kind of fact has a module of its own and is looked for when
it is first asked for.  Nothing is mutated after construction, and every list is in source order, entry module first.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property

from migrator.facts.code import Code
from migrator.facts.devices import devices
from migrator.facts.effects import side_effects
from migrator.facts.model import (
    Clock,
    DeviceLiteral,
    Effect,
    Entry,
    GuardFact,
    LookAlike,
    PartWrap,
    Place,
    Region,
    Wrap,
)
from migrator.facts.processes import converted, entry
from migrator.facts.processes.import_time import acting_calls, acting_import
from migrator.facts.python import flags, spelling
from migrator.facts.python.conditions import tests_around
from migrator.facts.python.out_of_sight import given_away
from migrator.facts.python.syntax import Module, Span
from migrator.facts.python.values import Told, Value
from migrator.facts.randomness import seeds
from migrator.facts.wraps import other_wrappers, wrapped_uses
from migrator.facts.wraps.inlined_guards import InlinedGuards
from migrator.facts.wraps.wrap_calls import WrapCalls
from migrator.facts.wraps.wraps import find_wraps
from migrator.load.project import Project


class Program(Code):
    """Everything that rules may ask about one program."""

    def __init__(self, project: Project, told: Told | None = None):
        super().__init__(project, told)
        self.region: Region | None = None  # of a notebook: what every process runs
        self.parts: Mapping[Span, PartWrap] = {}  # wraps of a part that are read as wraps of the whole, by their calls
        self.answers: dict[tuple[object, ...], str] = {}  # reasons that were found once, by who asks for what

    # ---------------------------------------------------------------- names
    def name_for(self, module: Module, wanted: str, qualified: str) -> tuple[str, str | None]:
        """How a module can spell a library name: (expression, import to add or None)."""
        return spelling.name_for(module, wanted, qualified)

    def dist(self, at: Span) -> tuple[str, str | None]:
        """The spelling of `torch.distributed` in the module of a place, with the import it needs."""
        return spelling.name_for(self.module_at(at), "dist", "torch.distributed")

    def free_name(self, wanted: str, at: Span) -> str:
        """The wanted name, or one like it that the module of `at` binds nowhere."""
        return spelling.free_name(wanted, self.module_at(at))

    def device_name(self, at: Span) -> str | None:
        """The program's own variable for its device at a place, when it is bound to a `torch.device` before it."""
        return spelling.device_name(self.module_at(at), at)

    def is_name_free(self, name: str) -> bool:
        """True when no module of the program binds the name anywhere."""
        return not any(name in scope.bindings for module in self.modules for scope in module.scopes.values())

    # ---------------------------------------------------------------- what the program is for
    @cached_property
    def trains(self) -> bool:
        """True when the program calls `backward`, or gives an optimizer to code that is not in sight."""
        starts = self.entry.kind != "library"  # of a file that only defines things nothing is called yet
        return bool(self.optimizers_given_away) or any(
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "backward"
            and not (starts and self.is_unreached(module, call))
            for module, call in self.calls()
        )

    @cached_property
    def optimizers_given_away(self) -> list[tuple[Module, ast.Call]]:
        """Calls of code that is not in sight which are given an optimizer: it trains, in a way that cannot be read."""
        return given_away(self)

    @cached_property
    def mentions(self) -> bool:
        """True when the text of any module holds `DataParallel` or `data_parallel`."""
        return any("DataParallel" in m.text or "data_parallel" in m.text for m in self.modules)

    @cached_property
    def logs(self) -> bool:
        """True when the program logs through `logging`."""
        return any(self.external(module, call).startswith("logging.") for module, call in self.calls())

    @cached_property
    def seeds_itself(self) -> bool:
        """True when the program always seeds every source of random numbers that it uses."""
        return seeds.seeds_itself(self)

    @cached_property
    def flags(self) -> frozenset[str]:
        """Options of the command line with a written default that no statement sets: equal in all processes."""
        return flags.flags(self)

    # ---------------------------------------------------------------- where it starts and ends
    @cached_property
    def entry(self) -> Entry:
        """Where the program starts and ends."""
        return entry.find_entry(self, self.wrap_calls)

    @cached_property
    def is_joined(self) -> bool:
        """True when an earlier conversion has already made the entry join the processes."""
        return converted.is_joined(self.resolver, self.entry_module)

    @cached_property
    def is_accelerated(self) -> bool:
        """True when the program makes an Accelerator."""
        return any(self.external(module, call) == "accelerate.Accelerator" for module, call in self.calls())

    @cached_property
    def acts_on_import(self) -> list[Place]:
        """Calls that imported modules make while they are imported, and that need the processes to have met."""
        if acting_import(self) is not None:
            return []  # the processes meet above it
        return [self.place(module, call) for module, call in acting_calls(self)]

    def exit_status(self, statement: Span) -> Place | None:
        """The argument of a `sys.exit(...)` statement, the statement itself when it has none, or None for another one."""
        return entry.exit_status(self, statement)

    def tests_around(self, statement: Span) -> list[str]:
        """The tests of all `if`s around a statement, innermost first, also around the calls of its function."""
        return tests_around(self, statement)

    # ---------------------------------------------------------------- wrappers
    @cached_property
    def wrap_calls(self) -> WrapCalls:
        """The live calls of DataParallel, as nodes."""
        return WrapCalls(self)

    @cached_property
    def wraps(self) -> list[Wrap]:
        """Live DataParallel calls of torch, or of subclasses of it, in source order."""
        return find_wraps(self.wrap_calls)

    @cached_property
    def wrap_values(self) -> list[Value]:
        """The wrapped models, as the resolver gives them."""
        return self.wrap_calls.values

    def is_wrapped(self, module: Module, node: ast.AST) -> bool:
        """True when the expression may be a wrapped model."""
        return self.wrap_calls.is_wrapped(module, node)

    def functional_call(self, wrap: Wrap) -> tuple[str, tuple[Span, ...]] | None:
        """The arguments of a functional `data_parallel(module, inputs, ...)` call, as text with holes from `$1` on."""
        return self.wrap_calls.functional_call(wrap)

    @cached_property
    def _inlined_guards(self) -> InlinedGuards:
        return InlinedGuards(self, self.wraps)

    def inlined_guard(self, wrap: Wrap) -> GuardFact | None:
        """The `if` around a wrap that goes, because the process group decides now."""
        return self._inlined_guards.of(wrap)

    @cached_property
    def wrapped_loads(self) -> list[Place]:
        """What is loaded into a wrapped model by `load_state_dict`."""
        return wrapped_uses.wrapped_loads(self, self.wrap_calls)

    @cached_property
    def module_accesses(self) -> list[Place]:
        """`wrapped.module`; the note is the text of the wrapped model."""
        return wrapped_uses.module_accesses(self, self.wrap_calls)

    @cached_property
    def existing_ddp(self) -> list[Place]:
        """Calls that already wrap with DistributedDataParallel or start a process group, where this program may get to."""
        return other_wrappers.existing_ddp(self, self.entry.kind != "library")

    @cached_property
    def look_alikes(self) -> list[LookAlike]:
        """Calls of things named like DataParallel that are not torch's."""
        return other_wrappers.look_alikes(self, self.wrap_calls)

    @cached_property
    def type_tests(self) -> list[Place]:
        """Names of DataParallel used as a class: in `isinstance`, in comparisons of types."""
        return other_wrappers.type_tests(self)

    # ---------------------------------------------------------------- side effects
    @cached_property
    def effects(self) -> list[Effect]:
        """Writes, folders, sinks, removals, shell calls, prompts and downloads of the program."""
        return side_effects.effects(self)

    @cached_property
    def clocks(self) -> list[Clock]:
        """Values of the clock, the process id or the operating system's random numbers, and what they flow into."""
        return side_effects.clocks(self)

    # ---------------------------------------------------------------- devices
    @cached_property
    def device_literals(self) -> list[DeviceLiteral]:
        """Places that name a GPU by its index, or choose which GPUs are visible."""
        return devices.device_literals(self, self.is_joined)

    @cached_property
    def device_counts(self) -> list[Place]:
        """`torch.cuda.device_count()` where its value matters to the training."""
        return devices.device_counts(self, self.wraps, self._inlined_guards.all())

    @cached_property
    def async_transfers(self) -> list[Place]:
        """Calls with an `async=` argument; the note is its value's text."""
        found = []
        for module, call in self.calls():
            for keyword in call.keywords:
                if keyword.arg == "asinc":
                    found.append(self.place(module, call, module.segment(keyword.value)))
        return found
