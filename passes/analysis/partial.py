"""Code that some warps of a CTA run without the others, and why something in it, or beside it, is Triton's."""

from __future__ import annotations

from collections.abc import Iterable

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.partitions import WARP_SPECIALIZE
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.stubs import GATHER_PREFIX
from triton_linear.lowering.target.targets import Target

CALLS = "it needs a barrier, and the module has both warp-specialised regions and functions that are called"
"""Which warps come to a barrier in a function is then for its callers to say."""
IN_REGION = "it crosses CTAs in a warp-specialised region, whose warps meet at no barrier of the whole cluster"
"""Triton has barriers of its own for them. It puts these before scratch of ours as well, where other CTAs may
still load from its bytes, so what stays in its CTA is ours. Outside of regions it has all warps come to the
barrier of the cluster."""
CALLED = "a warp-specialised region calls the function that it is in, and only some warps of the CTA run it"
_ONLY_NVIDIA = "it is in a warp-specialised region, which is known for NVIDIA GPUs alone"


@dataclass(frozen=True)
class PartialCode:
    """Code that some warps of a CTA run without the others: warp-specialised regions and what they call.

    present: whether there is any. calls: whether there are calls beside it. functions: those that such regions
    reach.
    """

    present: bool
    calls: bool
    functions: frozenset[str]

    @classmethod
    def find(cls, ops: Iterable[Operation]) -> PartialCode:
        calls: dict[str, set[str]] = {}
        reached: list[str] = []
        present = False
        for op in ops:
            present = present or op.name == WARP_SPECIALIZE
            if op.name != "tt.call":
                continue
            callee = op.attributes["callee"].value
            if callee.startswith(GATHER_PREFIX):  # our code by then, in the place of the call
                continue
            specialised, function = _surroundings(op)
            if specialised:
                reached.append(callee)
            else:
                calls.setdefault(function, set()).add(callee)
        functions: set[str] = set()
        any_call = bool(reached or calls)
        while reached:
            function = reached.pop()
            if function not in functions:
                functions.add(function)
                reached += calls.get(function, ())
        return cls(present, present and any_call, frozenset(functions))

    def is_in_region(self, op: Operation) -> bool:
        """Whether only some warps of the CTA run an operation."""
        if not self.present:
            return False
        specialised, function = _surroundings(op)
        return specialised or function in self.functions

    def reason(self, op: Operation, gpu: Target) -> str | None:
        """Why code in the place of `op` cannot be ours because of where it is; None if it can."""
        if not self.present:
            return None
        specialised, function = _surroundings(op)
        if function in self.functions:
            return CALLED
        return _ONLY_NVIDIA if specialised and gpu.vendor != "nvidia" else None


def _surroundings(op: Operation) -> tuple[bool, str]:
    """Whether `op` is inside a warp-specialised region, and the name of its function."""
    specialised, function = False, ""
    at = op.parent
    while at is not None:
        specialised = specialised or at.name == WARP_SPECIALIZE
        if at.name == "tt.func":
            function = at.attributes["sym_name"].value
        at = at.parent
    return specialised, function
