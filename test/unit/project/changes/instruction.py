"""What `instruction.diff` brings: a conversion of halves from rows to columns, planned, proved, emitted and
run for all threads of a block, and priced in an assignment."""

from triton.experimental.gluon import language as gl

from triton_linear.dialect.gluon import linear_layout
from triton_linear.lowering.emit.bodies import emit
from triton_linear.lowering.interpreter.verify import verify_conversion
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.planners.shared_access import Kind
from triton_linear.lowering.prove.plans import refuted
from triton_linear.lowering.target.phases import STORE
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target

hopper, element = target("cuda:90"), element_type("f16")
source = linear_layout(gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0]), (64, 64))
wanted = linear_layout(gl.BlockedLayout([2, 1], [32, 1], [1, 4], [0, 1]), (64, 64))
choice = select(source, wanted, element, Situation.on(hopper))
plan, cost = choice.plan, choice.cost
code = emit(plan, element, hopper)
verdict = verify_conversion(code, source, wanted, element, hopper, 4, plan.scratch_bytes)
print(plan.summary())
print(f"{cost.clocks:.1f} clocks, {cost.alu} permutes, {verdict.wrong} wrong of {verdict.checked}")
print("refuted:", refuted(plan, source, wanted, element, hopper))
print("matrix stores in an assignment:", len(Kind(STORE, 2, hopper, 5).matrices))
