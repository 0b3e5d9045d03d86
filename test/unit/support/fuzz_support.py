"""Code that is wrong on purpose, for what is to find it; programs of regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.fuzz.program import Add, Convert, Loop, Program
from triton_linear.lowering.emit import calls
from triton_linear.lowering.emit.text import FunctionWriter
from triton_linear.lowering.plan.plans import Plan


def break_code(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[str], str],
    change_plan: Callable[[Plan], Plan] = lambda plan: plan,
) -> None:
    """Let the code of each conversion be that of a changed plan, and its text be changed then."""
    emit_body, body = calls.emit_body, FunctionWriter.body

    def broken(plan: Plan, element: Any, target: Any, writer: FunctionWriter, *others: Any) -> str:
        writer.body = lambda: change(body(writer))  # type: ignore[method-assign]
        return emit_body(change_plan(plan), element, target, writer, *others)

    monkeypatch.setattr(calls, "emit_body", broken)


def inside_warps(warps: int, region: int) -> Program:
    """Sums between exchanges inside the warps, in a loop."""
    low, high = [[1 << n] for n in range(5)], [[32 << n] for n in range(5)]
    own = [[1024 << n] for n in range(warps.bit_length() - 1)]
    rows, columns = (
        f"#ttg.linear<{{register = {registers}, lane = {lanes}, warp = {own}, block = []}}>"
        for registers, lanes in ((low, high), (high, low))
    )
    steps = (Convert(columns), Add(3), Convert(rows), Add(5))
    loop = Loop("for", 3, rows, steps)
    return Program("cuda:90", warps, (1024 * warps,), "i32", rows, (loop,), region)
