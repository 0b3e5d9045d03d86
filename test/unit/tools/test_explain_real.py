"""`triton-linear explain` on real kernels: accesses to shared memory, reductions, and what layouts save."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from explain_support import SCHEMA, shared_bytes

from triton_linear.tools.explain.collect import explained
from triton_linear.tools.explain.records import ModuleReport
from triton_linear.tools.support.compile import LOWERING, Compilation, compile_text

DATA = Path(__file__).parents[2] / "data" / "ttgir"
MODULES = sorted([*(DATA / "attention").glob("*.ttgir"), *(DATA / "kernels").glob("*.ttgir")])[::3]


@pytest.fixture(scope="module")
def real() -> list[tuple[ModuleReport, Compilation]]:
    """Real modules, each explained and compiled with the layouts and reductions that it has."""
    found = []
    for path in MODULES:
        text, name = path.read_text(), str(path)
        compilation = compile_text(text, name, None, "llvm", LOWERING)
        found.append((explained(text, name, None, options=LOWERING), compilation))
    assert len(found) >= 10
    return found


def test_everything_has_a_place_and_the_schema_holds(real: list[tuple[ModuleReport, Compilation]]) -> None:
    accesses = reductions = 0
    for report, _ in real:
        jsonschema.validate({"modules": [json.loads(json.dumps(report.as_json()))]}, SCHEMA)
        for one in (*report.conversions, *report.accesses, *report.reductions):
            assert one.place.line > 0
        for access in report.accesses:
            assert access.registers_words
            assert access.memory_words
            assert access.figures is not None or access.detail, access
        assert all(one.spread for one in report.reductions)
        accesses, reductions = accesses + len(report.accesses), reductions + len(report.reductions)
    assert accesses >= 25
    assert reductions >= 5


def test_shared_memory_is_what_triton_allocates(real: list[tuple[ModuleReport, Compilation]]) -> None:
    for report, compilation in real:
        for memory, kernel in zip(report.shared_memory, compilation.kernels, strict=True):
            assert memory.bytes == shared_bytes(kernel.lowered.text("llvm"))
    assert sum(memory.bytes > 0 for report, _ in real for memory in report.shared_memory) >= 8


def test_what_layouts_save_is_said_by_line() -> None:
    path = DATA / "emb_sum-0.ttgir"
    said = explained(path.read_text(), str(path), "cuda:90").assignment
    head = next(number for number, line in enumerate(said) if line.startswith("layouts are assigned: "))
    lines = said[head + 1 :]
    assert lines[0].startswith("  emb_sum-0.ttgir:") and re.search(
        r":\d+: saves [\d.]+ other clocks: reduce of", lines[0]
    )
    assert any(": costs " in line for line in lines)
    for line in lines:
        number = int(line.split(":")[1])
        assert re.search(r"tt\.|ttg\.|arith\.|math\.", path.read_text().splitlines()[number - 1])


def test_loops_that_load_ahead_are_said_by_line() -> None:
    path = Path(__file__).parents[2] / "lit" / "passes" / "load-ahead.mlir"
    text = path.read_text().split("// -----")[0]
    said = explained(text, str(path), "cuda:90").assignment
    number = next(n for n, line in enumerate(text.splitlines(), 1) if "scf.for %i" in line)
    assert said[-1].startswith(f"load-ahead.mlir:{number}: 1 load of the loop an iteration ahead, with ")
