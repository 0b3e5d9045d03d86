"""Which warps run which operations, and what is known of all values, whoever runs them.

A *scope* is what the same warps of a CTA run: the kernel's own warps everything but partitions, those of a
partition its region. No tensor goes from one scope to another but as a capture of `ttg.warp_specialize`, which
keeps its layout on both sides, so each scope is a problem of its own, with its own number of warps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.partitions import PARTITIONS, WARP_SPECIALIZE, warps_of_partitions
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.axis import AxisAnalysis
from triton_linear.passes.analysis.frequencies import Frequencies
from triton_linear.passes.analysis.partial import PartialCode
from triton_linear.passes.assignment.nodes import BlockNode, OpNode, ValueNode
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.planning import NUM_WARPS, ctas_of
from triton_linear.passes.reductions.region import SCAN


@dataclass(eq=False)
class Scope:
    """What some warps run. warps: how many. name: empty for the kernel's own. arguments: what its region
    captures."""

    warps: int
    name: str = ""
    ops: list[OpNode] = field(default_factory=list)
    arguments: list[ValueNode] = field(default_factory=list)

    @property
    def place(self) -> Operation:
        """The operation at which decisions about it are reported: the module for the kernel's own warps."""
        return self.ops[0].op


def scopes_of(nodes: Sequence[OpNode]) -> list[Scope]:
    """The scopes of a module, the first that of the kernel's own warps. An operation is in one, or in none if
    it is in a function that warp-specialised regions call.

    Requires: the nodes are those of a module that says its number of warps.
    """
    module = nodes[0].op
    home = Scope(module.attributes[NUM_WARPS].value)
    if not any(node.name == WARP_SPECIALIZE for node in nodes):
        home.ops.extend(nodes)
        return [home]
    called = PartialCode.find(node.op for node in nodes).functions
    scopes, nowhere, of_block = [home], Scope(home.warps), dict[BlockNode, Scope]()
    for node in nodes:
        scope = home if node.block is None else of_block[node.block]
        warps: Sequence[int] = ()
        if node.name == PARTITIONS and scope is home:
            assert node.parent is not None  # the operation stands nowhere else
            warps = warps_of_partitions(node.parent.op)
        elif node.name == "tt.func" and node.attributes["sym_name"].value in called:
            diagnostics.remark(
                node.op, "layouts of the function are not assigned: a warp-specialised region calls it"
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
    """What is known of the values of a module.

    producers: the operation of each result. scans: the blocks that have scans. clusters: whether kernels have
    several CTAs a cluster.
    """

    producers: Mapping[ValueNode, OpNode]
    scans: frozenset[BlockNode | None]
    axis: AxisAnalysis
    frequencies: Frequencies
    clusters: bool

    @classmethod
    def of(cls, nodes: Sequence[OpNode], unknown_trips: int) -> Facts:
        """Those of the nodes of a module; `unknown_trips` as `Frequencies` has it."""
        producers = {result: op for op in nodes for result in op.results}
        axis = AxisAnalysis(producers)
        scans = frozenset(op.block for op in nodes if op.name == SCAN)
        clusters = ctas_of(nodes[0].op) > 1
        return cls(producers, scans, axis, Frequencies(axis, unknown_trips), clusters)
