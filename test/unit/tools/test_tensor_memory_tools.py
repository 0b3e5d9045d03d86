"""`verify`, `explain` and `fuzz` know tensor memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.fuzz.program import TensorMemory, all_steps, from_json
from bench.fuzz.run import TENSOR, FuzzPlan, fuzz, units
from triton_linear.dialect import encodings
from triton_linear.dialect.triton_versions import TENSOR_MEMORY_BY_LAYOUT
from triton_linear.lowering.interpreter import tensor_memory
from triton_linear.lowering.interpreter.verify import Verdict, Wrong
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.verify.stock import sink

pytest.importorskip("triton._C.libtriton")

from triton_linear.tools.explain.collect import explained
from triton_linear.tools.verify import command

pytestmark = pytest.mark.skipif(
    encodings.installed_release() not in TENSOR_MEMORY_BY_LAYOUT,
    reason="accesses by layout are of Triton 3.8 on",
)

ROWS = (
    "#ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], "
    "[8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>"
)
TILES = (
    "#ttg.linear<{register = [[0, 1], [8, 0], [0, 8], [16, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], "
    "[4, 0]], warp = [[32, 0], [64, 0]], block = []}>"
)
SPACE = "#ttng.tensor_memory_encoding<blockM = 128, blockN = 32, colStride = 1>, #ttng.tensor_memory, mutable"
WHOLE, PART = f"!ttg.memdesc<128x32xf32, {SPACE}>", f"!ttg.memdesc<128x16xf32, {SPACE}, 128x32>"
MODULE = f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100",
    "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @k(%x: tensor<128x32xf32, {ROWS}>) {{
    %true = arith.constant true
    %m = ttng.tmem_alloc : () -> {WHOLE}
    ttng.tmem_store %x, %m, %true : tensor<128x32xf32, {ROWS}> -> {WHOLE}
    %p = ttng.tmem_subslice %m {{N = 16 : i32, offset = 16 : i32}} : {WHOLE} -> {PART}
    %y = ttng.tmem_load %p : {PART} -> tensor<128x16xf32, {TILES}>
    {sink("%y", f"tensor<128x16xf32, {TILES}>", "result")}
    tt.return
  }}
}}
"""


def test_verify_runs_every_access_alone() -> None:
    found = command.verified(MODULE, "k.ttgir", "cuda:100")
    stored, loaded = found.tensor_accesses
    assert "1 instruction 32x32b.x32, 32 registers; 0 wrong of 4096, 0 races" in str(stored)
    assert "2 instructions 16x256b.x2, 16 registers; 0 wrong of 2048, 0 races" in str(loaded)
    assert found.ok
    assert [one.of.is_store for one in found.tensor_accesses] == [True, False]


def test_verify_fails_where_an_access_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    found = command.verified(MODULE, "k.ttgir", "cuda:100")
    first = found.tensor_accesses[0]
    assert isinstance(first.verdict, Verdict)
    broken = replace(first, verdict=replace(first.verdict, wrong=1, examples=(Wrong(0, 1, 2, False),)))
    assert not replace(found, tensor_accesses=(broken,)).ok
    command._show(replace(found, tensor_accesses=(broken,)))
    assert "1 wrong of 4096" in capsys.readouterr().out


def test_verify_notices_a_wrong_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    right = tensor_memory.places

    def other(shape: str, repeat: int, spread: bool) -> object:
        rows, columns = right(shape, repeat, spread)
        return (rows, columns) if shape == "32x32b" else (rows ^ 1, columns)

    monkeypatch.setattr(tensor_memory, "places", other)
    found = command.verified(MODULE, "k.ttgir", "cuda:100")
    assert [one.ok for one in found.tensor_accesses] == [True, False]
    assert not found.ok


def test_what_cannot_be_run_says_why() -> None:
    wide = MODULE.replace("128x32xf32", "128x1024xf32").replace("128x16xf32", "128x512xf32")
    for old, new in (
        ("blockN = 32", "blockN = 256"),
        ("128x32>", "128x1024>"),
        (" = 16 : i32", " = 512 : i32"),
    ):
        wide = wide.replace(old, new)
    more = ", ".join(f"[0, {1 << bit}]" for bit in range(5, 10))
    wide = wide.replace("[0, 16]]", f"[0, 16], {more}]").replace(
        "[0, 8], [16, 0]]", f"[0, 8], [0, 16], {more[:-10]}, [16, 0]]"
    )
    found = command.verified(wide, "k.ttgir", "cuda:100")
    assert found.tensor_accesses[0].verdict is None and "; not run: " in found.tensor_accesses[0].plan
    assert found.ok


def test_explain_says_which_instructions_serve() -> None:
    report = explained(MODULE, "k.ttgir", "cuda:100")
    stored, loaded = report.tensor_memory
    assert "128x32xf32 linear -> tensor memory: 1 instruction 32x32b.x32, 32 registers" in stored
    assert "128x16xf32 linear <- tensor memory: 2 instructions 16x256b.x2, 16 registers" in loaded
    assert report.as_json()["tensor_memory"] == (stored, loaded)


def test_fuzz_draws_programs_that_go_through_tensor_memory() -> None:
    totals = fuzz([FuzzPlan("cuda:100", 7, 24, kinds=(TENSOR,))], 0)["cuda:100"]
    assert totals.ok and not totals.stock, (totals.failures[:2], totals.stock)
    assert totals.conversions >= 24 and totals.steps["TensorMemory"] >= totals.programs
    (unit, *_) = units(FuzzPlan("cuda:100", 7, 24, kinds=(TENSOR,)))
    program = unit.programs[0]
    assert any(isinstance(step, TensorMemory) for step in all_steps(program.steps))
    from bench.fuzz.program import as_json

    assert from_json(as_json(program)) == program


def test_fuzz_finds_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that reaches the next row, as the interpreter is told; stock Triton's code is as wrong then."""
    right = tensor_memory._Access.load

    def other(self: tensor_memory._Access, machine: object, slots: object) -> None:
        right(replace(self, rows=self.rows ^ 1), machine, slots)  # type: ignore[arg-type]

    monkeypatch.setattr(tensor_memory._Access, "load", other)
    totals = fuzz([FuzzPlan("cuda:100", 7, 8, kinds=(TENSOR,))], 0)["cuda:100"]
    assert totals.stock["is wrong"] == totals.modules


def test_fuzz_refuses_other_gpus() -> None:
    for name in ("cuda:90", "hip:gfx942", "cuda:120"):
        with pytest.raises(ToolError, match="has no tensor memory"):
            fuzz([FuzzPlan(name, 7, 8, kinds=(TENSOR,))], 0)
