"""What the user says about a program that its text does not tell: where the loader comes from, under which name the model goes.

In: a linked program and the options.  Out: the program linked anew with what was said.  Raises `SourceError` when a name that was
given is nowhere in the program.
"""

from __future__ import annotations

import ast
from pathlib import Path

from codemods.options import Options
from migrator.facts.links import inner_loader, links
from migrator.facts.program import Program
from migrator.facts.python.values import Told, Value
from migrator.load.project import load_project
from migrator.load.source import SourceError


def with_hints(program: Program, options: Options) -> Program:
    """The same program when nothing was said."""
    if not (options.model_name or options.train_loader):
        return program
    project = program.project
    home = options.train_loader.rpartition(".")[0]
    if home and program.resolver.find_module(home, program.entry_module) is None:
        project = load_project(Path(project.entry.path), project.entry.source, project.overlay, (home,))
        program = Program(project)
    nodes = _loader_nodes(program, options.train_loader) if options.train_loader else {}
    names = {options.model_name: tuple(program.wrap_values)} if options.model_name else {}
    return Program(project, Told(nodes, names))


def _loader_nodes(program: Program, name: str) -> dict[ast.AST, tuple[Value, ...]]:
    """What every loop that reads something unknown reads."""
    home, _, last = name.rpartition(".")
    entry = program.entry_module
    module = program.resolver.find_module(home, entry) if home else entry
    bindings = module.scope.bindings.get(last, ()) if module is not None else ()
    values = [v for b in bindings if module is not None for v in program.resolver.bound(module, module.scope, b)]
    for value in [v for v in values if v.kind == "function"]:
        assert value.module is not None and value.node is not None
        for owner, returned in program.resolver.returns(value.module, value.node):
            values += program.resolver.values(owner, returned)
    made = tuple(dict.fromkeys(v for v in values if v.is_call))
    if not made:
        raise SourceError(entry.path, f"--train-loader {name}: no loader is made under this name in the program")
    return {
        inner_loader(program, link): made
        for link in links(program)
        if link.role == "loader" and link.state == "unresolved" and link.is_read
    }
