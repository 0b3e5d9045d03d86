"""What `planner.diff` brings: exchanges through memory inside a warp, right and with a proof."""

from triton.experimental.gluon import language as gl

from triton_linear.dialect.gluon import linear_layout
from triton_linear.lowering.emit.bodies import emit
from triton_linear.lowering.interpreter.verify import verify_conversion
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.prove.plans import refuted
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target

gpu, element = target("cuda:90"), element_type("f16")
source = linear_layout(gl.NVMMADistributedLayout([2, 0], [1, 1], [16, 8]), (16, 16))
wanted = linear_layout(gl.BlockedLayout([1, 8], [16, 2], [1, 1], [1, 0]), (16, 16))
plan = select(source, wanted, element, Situation.on(gpu)).plan
print(plan.summary())
verdict = verify_conversion(emit(plan, element, gpu), source, wanted, element, gpu, 1, plan.scratch_bytes)
print(verdict.wrong, "wrong of", verdict.checked, "refuted by", refuted(plan, source, wanted, element, gpu))
