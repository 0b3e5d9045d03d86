"""Code that only some warps of a CTA run, and the reasons to leave operations in it, or beside it, to
Triton."""

from __future__ import annotations

from collections.abc import Iterable

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.partitions import WARP_SPECIALIZE
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.flow import reached
from triton_linear.passes.operations.names import CALL, FUNCTION

CALLS = "it needs a barrier, and the module has both warp-specialised regions and functions that are called"
"""Only the callers of a function determine which warps arrive at a barrier in it."""
CALLED = "a warp-specialised region calls the function that it is in, and only some warps of the CTA run it"
_ONLY_NVIDIA = "it is in a warp-specialised region, which is known for NVIDIA GPUs alone"


@dataclass(frozen=True)
class PartialCode:
    """Code that only some warps of a CTA run: warp-specialised regions and the functions that they call.

    present: True if the module has warp-specialised regions. calls: True if it has calls as well. functions:
    the functions that the regions call, directly or through others.
    """

    present: bool
    calls: bool
    functions: frozenset[str]

    @classmethod
    def find(cls, ops: Iterable[Operation]) -> PartialCode:
        calls: dict[str, set[str]] = {}
        called: list[str] = []
        present = False
        for op in ops:
            present = present or op.name == WARP_SPECIALIZE
            if op.name != CALL:
                continue
            callee = op.attributes["callee"].value
            specialised, function = _surroundings(op)
            if specialised:
                called.append(callee)
            else:
                calls.setdefault(function, set()).add(callee)
        any_call = bool(called or calls)
        functions = reached(called, lambda function: calls.get(function, ()))
        return cls(present, present and any_call, frozenset(functions))

    def reason(self, op: Operation, gpu: Target) -> str | None:
        """Why this package must not lower code at the place of `op`; None if it may."""
        if not self.present:
            return None
        specialised, function = _surroundings(op)
        if function in self.functions:
            return CALLED
        return _ONLY_NVIDIA if specialised and gpu.vendor != "nvidia" else None


def _surroundings(op: Operation) -> tuple[bool, str]:
    """True if `op` is inside a warp-specialised region, and the name of its function."""
    specialised, function = False, ""
    at = op.parent
    while at is not None:
        specialised = specialised or at.name == WARP_SPECIALIZE
        if at.name == FUNCTION:
            function = at.attributes["sym_name"].value
        at = at.parent
    return specialised, function
