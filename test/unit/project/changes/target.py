"""What `target.diff` brings: a GPU, and a conversion for it that is right."""

from triton.experimental.gluon import language as gl

from triton_linear.dialect.gluon import linear_layout
from triton_linear.lowering.emit.bodies import emit
from triton_linear.lowering.interpreter.verify import verify_conversion
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import TARGETS, target

print("cuda:87 is known:", "cuda:87" in TARGETS)
if "cuda:87" in TARGETS:
    orin, element = target("cuda:87"), element_type("f16")
    print(orin.max_shared_bytes, "bytes,", orin.resident_warps, "warps, stmatrix:", bool(orin.store_matrix))
    source = linear_layout(gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0]), (64, 64))
    wanted = linear_layout(gl.BlockedLayout([2, 1], [32, 1], [1, 4], [0, 1]), (64, 64))
    plan = select(source, wanted, element, Situation.on(orin)).plan
    code = emit(plan, element, orin)
    verdict = verify_conversion(code, source, wanted, element, orin, 4, plan.scratch_bytes)
    print(plan.summary())
    print(verdict.wrong, "wrong of", verdict.checked)
