"""What a rule is, what it may know and what it gives back.

A rule is a file with a `RULE`, in the folder of its family.  Its docstring says what must be true of the converted program, then why.
`check(context)` yields diagnostics; a diagnostic carries a fix, or says what a person has to do.  Rules read facts through
`context.program`; they never print and never change anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from codemods.options import Options
from migrator.edits import AddHelper, AddImport, Edit
from migrator.facts.accelerate.handing import NAME, handed_name, has_function, needs_it_anyway
from migrator.facts.program import Program
from migrator.facts.python.syntax import Span
from migrator.facts.training.sharing import Sharing

Level = Literal["fix", "question", "note"]
Applicability = Literal["safe", "unsafe", "display-only"]
Invariant = Literal["trajectory", "metrics", "lock-step", "once", "memory", "compatibility", "alone"]
# What holds of every converted program, by number and in words (the eighth, no strings, no fix can break).
INVARIANTS: dict[Invariant, tuple[int, str]] = {
    "trajectory": (1, "loss, gradients and parameters follow the original"),
    "metrics": (2, "rank 0 reports the original's figures"),
    "lock-step": (3, "all processes take the same decisions and none waits for ever"),
    "once": (4, "files, folders, downloads and logs happen once"),
    "memory": (5, "no process uses another's GPU"),
    "compatibility": (6, "old checkpoints load, and new ones have the old keys"),
    "alone": (7, "the program runs as `python train.py`"),
}


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that are taken together or not at all, and the reason that stands beside them in the diff."""

    reason: str
    edits: tuple[Edit, ...]
    optional: bool = False  # where it is left out, time is lost and nothing else


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something recognised: converted (`fix`), a person's to decide (`question`), or worth knowing (`note`)."""

    rule: str
    at: Span
    message: str
    level: Level
    fix: Fix | None = None
    applicability: Applicability = "safe"


@dataclass(frozen=True, slots=True)
class Context:
    """A program, the chosen way to share its batches, and the user's options."""

    program: Program
    sharing: Sharing
    options: Options

    def dist(self, at: Span) -> tuple[str, tuple[Edit, ...]]:
        """How the module of `at` spells torch.distributed, with the import edit it needs."""
        name, needed = self.program.dist(at)
        return name, (AddImport(at, needed),) if needed else ()

    def module(self, at: Span, qualified: str, wanted: str | None = None) -> tuple[str, tuple[Edit, ...]]:
        """The same for any library name, for example `os`."""
        wanted = wanted or qualified.rpartition(".")[2]
        module = self.program.module_at(at)
        if "." not in qualified:
            if module.imports.get(qualified) == qualified and module.always_imports(qualified):
                return qualified, ()
            return qualified, (AddImport(at, f"import {qualified}"),)
        name, needed = self.program.name_for(module, wanted, qualified)
        return name, (AddImport(at, needed),) if needed else ()

    @property
    def accelerate(self) -> bool:
        """True when the converted program is to use accelerate."""
        return self.options.target == "accelerate"

    def accelerator(self, at: Span) -> str:
        """How the program's one Accelerator is spelled at a place; empty where it is not known there."""
        if at.path == self.program.entry_module.path:
            return self.program.free_name(NAME, at)
        return handed_name(self.program, at) if self.sharing.way in ("distributed", "batch") else ""

    def unwrapped(self, at: Span) -> tuple[str, tuple[Edit, ...]]:
        """What gives the network behind a prepared model, spelled for the module of `at`."""
        known = self.accelerator(at)
        if known:
            return f"{known}.unwrap_model", ()
        return self.module(at, "accelerate.utils.extract_model_from_parallel")

    def processes(self, at: Span) -> tuple[str, tuple[Edit, ...]]:
        """What knows the processes, spelled for the module of `at`: torch.distributed, the Accelerator or its state."""
        if not self.accelerate:
            return self.dist(at)
        if at.path == self.program.entry_module.path and self._is_made_by(at):
            return self.accelerator(at), ()
        if at.path != self.program.entry_module.path and self.accelerator(at):
            return self.accelerator(at), ()
        name, edits = self.module(at, "accelerate.PartialState")
        return f"{name}()", edits

    def _is_made_by(self, at: Span) -> bool:
        """True where the entry has its Accelerator; where importing the file runs it too, that is known of few functions."""
        if self.program.entry.kind != "early":
            return self.is_after_start(at)
        shared = self.sharing.way in ("distributed", "batch")
        return shared and needs_it_anyway(self.program, self.sharing.training, at)

    def is_after_start(self, at: Span) -> bool:
        """True when the processes have met before a place of the entry is run: in functions, and below that statement."""
        first = self.program.entry.first
        return has_function(self.program.module_at(at), at) or (first is not None and at.start >= first.start)

    def is_rank_zero(self, at: Span) -> tuple[str, tuple[Edit, ...]]:
        """A test that holds on one process only, spelled for the module of `at`."""
        name, edits = self.processes(at)
        if self.accelerate:
            return f"{name}.is_main_process", edits
        test = f"{name}.get_rank() == 0"
        return f"not {name}.is_initialized() or {test}" if self.program.is_shared(at) else test, edits

    def world_size(self, at: Span) -> tuple[str, tuple[Edit, ...]]:
        """The number of processes, spelled for the module of `at`."""
        name, edits = self.processes(at)
        return f"{name}.num_processes" if self.accelerate else f"{name}.get_world_size()", edits

    def share(self, at: Span, number: str) -> tuple[str, tuple[Edit, ...]]:
        """A process's part of a number (of workers, of samples), rounded up; `$0` in it stands for the number."""
        world, edits = self.world_size(at)
        ceil, more = self._ceil(at)
        return f"{ceil}({operand(number)} / {world})", (*edits, *more)

    def _ceil(self, at: Span) -> tuple[str, tuple[Edit, ...]]:
        module = self.program.module_at(at)
        taken = any(b.kind != "import" for scope in module.scopes.values() for b in scope.bindings.get("math", ()))
        if taken or "math.ceil" in module.imports.values():
            return self.module(at, "math.ceil")
        math, edits = self.module(at, "math")
        return f"{math}.ceil", edits

    def rank_zero_first(self, at: Span) -> tuple[str, tuple[Edit, ...]]:
        """What a `with` takes, so that one process goes through it before the others."""
        if not self.accelerate:
            return "rank_zero_first()", (self.helper(at, "rank_zero_first"),)
        name, edits = self.processes(at)
        return f"{name}.main_process_first()", edits

    def barrier(self, at: Span) -> str:
        """A statement that waits for all processes, spelled for the module of `at` (whose import of them is needed)."""
        name, _ = self.processes(at)
        if self.accelerate:
            return f"{name}.wait_for_everyone()\n"
        return (
            f"if {name}.is_initialized():\n    {name}.barrier()\n"
            if self.program.is_shared(at)
            else f"{name}.barrier()\n"
        )

    def helper(self, at: Span, name: str) -> AddHelper:
        return AddHelper(at, name)


def operand(text: str) -> str:
    """A hole for a value in front of an operator: in parentheses where the text is more than a name."""
    return "$0" if text.replace(".", "").replace("_", "").isalnum() else "($0)"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule's identity, its check, where its document comes from, and what its fixes mean to each other."""

    id: str
    name: str
    check: Callable[[Context], Iterator[Diagnostic]]
    document: str
    applicability: Applicability = "safe"
    hazards: tuple[str, ...] = ()
    sources: tuple[str, ...] = field(default=())
    why: str = ""  # why the fix is not safe: what it changes
    evaluation: bool = False  # also for programs that only evaluate
    keeps: tuple[Invariant, ...] = ()  # what does not hold any more where its fix is left out
    needs: tuple[str, ...] = ()  # ids of rules: without any of their fixes, this one's would be wrong
    together: bool = False  # its fixes in a program are one
    parallel: bool = True  # its fixes serve several processes, and nothing in one

    @property
    def summary(self) -> str:
        """The first line of the document: what must be true."""
        return self.document.strip().splitlines()[0]

    def converted(self, at: Span, reason: str, *edits: Edit, message: str = "", optional: bool = False) -> Diagnostic:
        """A diagnostic with a fix."""
        fix = Fix(reason, tuple(edits), optional)
        return Diagnostic(self.id, at, message or reason, "fix", fix, self.applicability)

    def question(self, at: Span, message: str) -> Diagnostic:
        """A diagnostic without which training would differ or fail, and that a person must answer."""
        return Diagnostic(self.id, at, message, "question", None, "display-only")

    def note(self, at: Span, message: str) -> Diagnostic:
        """A diagnostic that is worth knowing and asks for nothing."""
        return Diagnostic(self.id, at, message, "note", None, "display-only")


def negated(test: str) -> str:
    """The opposite of a test that `is_rank_zero` gave."""
    alone, _, rank = test.partition(" or ")
    if rank:
        return f"{alone.removeprefix('not ')} and {rank.replace('==', '!=')}"
    return test.replace("==", "!=") if "==" in test else f"not {test}"
