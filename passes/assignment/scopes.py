"""Which warps run which operations, and what is known about all values of a module.

A *scope* is the operations that the same warps of a CTA run. The warps of a partition run its region; the
kernel's own warps run everything else. A tensor passes from one scope to another only as a capture of
`ttg.warp_specialize`, which keeps its layout on both sides. So each scope is a problem of its own, with its own
number of warps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from triton_linear.dialect.mlir_adapter import Block, Operation
from triton_linear.dialect.partitions import PARTITIONS, WARP_SPECIALIZE, warps_of_partitions
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.axis import AxisAnalysis
from triton_linear.passes.assignment.nodes import BlockNode, OpNode, ValueNode
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.planning import NUM_WARPS, ctas_of
from triton_linear.passes.operations.names import CALL, FOR, FUNCTION, MODULE


class Frequencies:
    """How often each block of a module runs if its function is called once. Branches count as taken; loops
    whose bounds are not constant count `unknown_trips` iterations."""

    def __init__(self, axis: AxisAnalysis, unknown_trips: int) -> None:
        self._axis = axis
        self._unknown_trips = unknown_trips
        self._known: dict[Block, float] = {}

    def of(self, block: Block) -> float:
        """How often the operations of `block` run."""
        known = self._known.get(block)
        if known is None:
            owner = block.owner.operation
            known = 1.0
            if owner.name not in (MODULE, FUNCTION):
                known = self.of(owner.block)
                if owner.name == FOR:
                    known *= self._trips(owner)
            self._known[block] = known
        return known

    def _trips(self, loop: Operation) -> float:
        low, high, step = (self._axis.of(loop.operands[i]).constant for i in range(3))
        if low is None or high is None or not step:
            return self._unknown_trips
        return float(max(0, -((low - high) // step)))


@dataclass(eq=False)
class Scope:
    """The operations that the same warps run. warps: their number. name: empty for the kernel's own warps.
    arguments: what the region captures."""

    warps: int
    name: str = ""
    ops: list[OpNode] = field(default_factory=list)
    arguments: list[ValueNode] = field(default_factory=list)

    @property
    def place(self) -> Operation:
        """The operation at which remarks about the scope are reported: the module for the kernel's own
        warps."""
        return self.ops[0].op


def scopes_of(nodes: Sequence[OpNode]) -> list[Scope]:
    """The scopes of a module, first the one of the kernel's own warps. Each operation is in one scope, or in
    none if it is in a function that is called in a module with warp-specialised regions.

    Requires: the nodes are those of a module that states its number of warps.
    """
    module = nodes[0].op
    home = Scope(module.attributes[NUM_WARPS].value)
    if not any(node.name == WARP_SPECIALIZE for node in nodes):
        home.ops.extend(nodes)
        return [home]
    # Which warps run a function depends on its callers, and a new layout may need a barrier of all of them.
    called = {node.attributes["callee"].value for node in nodes if node.name == CALL}
    scopes, nowhere, of_block = [home], Scope(home.warps), dict[BlockNode, Scope]()
    for node in nodes:
        scope = home if node.block is None else of_block[node.block]
        warps: Sequence[int] = ()
        if node.name == PARTITIONS and scope is home:
            assert node.parent is not None  # the operation is only valid inside ttg.warp_specialize
            warps = warps_of_partitions(node.parent.op)
        elif node.name == FUNCTION and node.attributes["sym_name"].value in called:
            diagnostics.remark(
                node.op,
                "layouts of the function are not assigned: it is called in a module with warp-specialised "
                "regions, and its callers say which warps run it",
            )
            scope = nowhere
        scope.ops.append(node)
        for number, region in enumerate(node.regions):
            inner = scope
            if warps:
                inner = Scope(warps[number], f"partition {number}", arguments=region.blocks[0].arguments)
                scopes.append(inner)
            of_block.update(dict.fromkeys(region.blocks, inner))
    return scopes


@dataclass
class Facts:
    """What is known about the values of a module.

    producers: the operation of each result. scans: the blocks that contain scans. clusters: True if a cluster
    has several CTAs.
    """

    producers: Mapping[ValueNode, OpNode]
    axis: AxisAnalysis
    frequencies: Frequencies
    clusters: bool

    @classmethod
    def of(cls, nodes: Sequence[OpNode], unknown_trips: int) -> Facts:
        """The facts of the nodes of a module; `unknown_trips` as for `Frequencies`."""
        producers = {result: op for op in nodes for result in op.results}
        axis = AxisAnalysis(producers)
        clusters = ctas_of(nodes[0].op) > 1
        return cls(producers, axis, Frequencies(axis, unknown_trips), clusters)
