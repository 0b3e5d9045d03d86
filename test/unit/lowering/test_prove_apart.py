"""The proof of a plan knows by itself what transposing loads move: a planner that errs about it is refuted.

`docs/builders/testing.md` says so: the proof shares no code with the planners, and its table of what
such instructions move is its own.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_cases import blocked

from triton_linear.dialect.encodings import layout_of
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.planners import transposing
from triton_linear.lowering.planners.conversion import Hardware
from triton_linear.lowering.planners.exchange import exchange_plans
from triton_linear.lowering.planners.placement import Exchange
from triton_linear.lowering.prove.plans import refuted
from triton_linear.lowering.target.targets import target

WRONG = {
    ("ds_read_b64_tr_b16", "f16"): ("r0", "r1", "l2", "l3", "l4", "l5"),
    ("ds_read_b64_tr_b8", "i8"): ("r0", "r1", "r2", "l3", "l4", "l5"),
}


@pytest.mark.parametrize(("name", "element_name"), WRONG, ids=str)
def test_rows_that_a_planner_takes_for_others_are_refuted(
    name: str, element_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, element = target("hip:gfx950"), element_type(element_name)
    wrong = replace(transposing.FORMS[name], lanes=WRONG[name, element_name])
    monkeypatch.setitem(transposing.FORMS, name, wrong)  # type: ignore[arg-type]
    mfma = "#ttg.amd_mfma<{version = 4, warpsPerCTA = [1, 1], instrShape = [16, 16, 32], isTransposed = true}>"
    operand = f"#ttg.dot_op<{{opIdx = 1, parent = {mfma}, kWidth = 8}}>"
    wide = 16 // element.memory_bytes
    rows = layout_of(blocked([1, wide], [wide, 64 // wide], [1, 1], [1, 0]), (64, 64))
    wanted = layout_of(operand, (64, 64))
    a, b = Hardware.of(rows), Hardware.of(wanted)
    exchange = Exchange(a.register, a.lane, a.warp, b.register, b.lane, b.warp)
    plans = [
        plan for plan in exchange_plans("cta", exchange, element, gpu, 1 << 20) if plan.load.matrix == name
    ]
    assert plans
    assert all(refuted(plan, rows, wanted, element, gpu) is not None for plan in plans)
