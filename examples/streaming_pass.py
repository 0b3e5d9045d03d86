"""A user's pass over TritonGPU IR: data that is loaded once need not stay in the L1 cache.

    triton_linear.install(passes=["examples/streaming_pass.py"])
    triton-linear-opt --pass-plugin examples/streaming_pass.py kernel.ttgir

A load outside of loops runs once in each program, so its cache lines are the first to evict: NVIDIA's PTX has
`ld.global.L1::evict_first`. The pass does not change loads that already have a cache modifier or policy.
"""

from __future__ import annotations

from mlir.ir import Attribute, Module, Operation, WalkOrder, WalkResult

from triton_linear import ttgir_pass

LOOPS = ("scf.for", "scf.while")
EVICT_FIRST = 2


@ttgir_pass(when="before")
def stream_loads(module: Module) -> None:
    """Set `evict_first` on loads outside of loops."""

    def visit(op: Operation) -> WalkResult:
        if op.name in LOOPS:
            return WalkResult.SKIP
        if op.name == "tt.load" and "evict" in op.attributes:  # Triton 3.6 to 3.8: two attributes
            if (op.attributes["cache"].value, op.attributes["evict"].value) == (1, 1):
                op.attributes["evict"] = Attribute.parse(f"{EVICT_FIRST} : i32")
        elif op.name == "tt.load" and "cachePolicy" not in op.attributes:  # Triton 3.9: one, absent by default
            policy = "#tt.cache_policy<cache_modifier = none, eviction_policy = evict_first>"
            op.attributes["cachePolicy"] = Attribute.parse(policy)
        return WalkResult.ADVANCE

    module.operation.walk(visit, WalkOrder.PRE_ORDER)
