"""The passes by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.passes.assign import AssignLayouts
from triton_linear.passes.attach import AttachLayouts
from triton_linear.passes.await_operands import AwaitOperands
from triton_linear.passes.contract import PermuteContraction
from triton_linear.passes.fold import FoldConversions
from triton_linear.passes.free import FreeConversions
from triton_linear.passes.gather import LowerGathers
from triton_linear.passes.local import LowerLocal
from triton_linear.passes.narrow import NarrowOperands
from triton_linear.passes.outline import OutlineConversions
from triton_linear.passes.select import SelectLowering
from triton_linear.passes.split_reductions import SplitReductions
from triton_linear.passes.verifiers import Verifier
from triton_linear.passes.widen import WidenAccesses


class Pass(Protocol):
    """A frozen dataclass whose fields are the options, called with the module and MLIR's pass object."""

    name: ClassVar[str]
    summary: ClassVar[str]
    requires: ClassVar[tuple[Verifier, ...]]
    ensures: ClassVar[tuple[Verifier, ...]]

    def __call__(self, op: Operation, pass_: Any) -> None: ...


PASSES: Mapping[str, type[Pass]] = {
    "linear-assign-layouts": AssignLayouts,
    "linear-attach-layouts": AttachLayouts,
    "linear-await-operands": AwaitOperands,
    "linear-fold-conversions": FoldConversions,
    "linear-free-conversions": FreeConversions,
    "linear-lower-gathers": LowerGathers,
    "linear-lower-local": LowerLocal,
    "linear-narrow-operands": NarrowOperands,
    "linear-permute-contraction": PermuteContraction,
    "linear-select-lowering": SelectLowering,
    "linear-outline-conversions": OutlineConversions,
    "linear-split-reductions": SplitReductions,
    "linear-widen-accesses": WidenAccesses,
}
