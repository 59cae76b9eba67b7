"""What is known at a place of a step of its forward and backward passes, along one way that leads there."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

Network = ast.AST  # a network is told by the call that wraps it
Pass = tuple[Network, int]  # of a network, and which of its calls in the order of time
Graph = frozenset[Pass]


@dataclass(frozen=True, slots=True)
class State:
    """One way through a step up to some place."""

    graphs: tuple[tuple[str, Graph], ...] = ()  # what the names' values were computed by
    calls: tuple[tuple[Network, int], ...] = ()  # how often each network was called
    armed: frozenset[Network] = frozenset()
    frozen: frozenset[Network] = frozenset()
    left: str = ""  # `continue`, or what else ended the step or an inner loop

    def graph(self, name: str) -> Graph:
        return dict(self.graphs).get(name, frozenset())

    def bound(self, name: str, graph: Graph) -> State:
        known = {n: g for n, g in self.graphs if n != name} | ({name: graph} if graph else {})
        return replace(self, graphs=tuple(sorted(known.items(), key=lambda row: row[0])))

    def called(self, network: Network) -> int:
        return dict(self.calls).get(network, 0)
