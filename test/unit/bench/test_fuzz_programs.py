"""Random programs: what is drawn, what they must give, and that what is broken in them is found and shrunk."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.fuzz import command, examine, run
from bench.fuzz.draw import MOST_CONVERSIONS, draw_program
from bench.fuzz.evaluate import evaluate, inputs
from bench.fuzz.program import (
    STEPS,
    Add,
    Branch,
    Convert,
    Loop,
    Park,
    Program,
    Reduce,
    Reshaped,
    Scan,
    Shared,
    Steps,
    Transposed,
    all_steps,
    as_json,
    from_json,
    program_in,
)
from bench.fuzz.run import PROGRAMS, FuzzPlan, InProcesses, in_this_process, units
from bench.fuzz.shrink import shrink, size, smaller
from bench.fuzz.totals import Totals
from bench.fuzz.write import write
from bench.whole_kernels import LoweredKernel, lower_kernel
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.isolated import Lost

SWIZZLED = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"


def drawn(target: str, count: int, seed: int = 7) -> list[Program]:
    return [draw_program(random.Random(f"{seed} {number}"), target) for number in range(count)]


def blocked(rows: int, lanes: int = 32, warps: int = 2) -> str:
    return (
        f"#ttg.blocked<{{sizePerThread = [1, 2], threadsPerWarp = [{rows}, {lanes // rows}], "
        f"warpsPerCTA = [{warps}, 1], order = [1, 0]}}>"
    )


def program(*steps: Any, shape: tuple[int, ...] = (8, 16), element: str = "i16") -> Program:
    return Program("cuda:90", 2, shape, element, blocked(8), steps)


def test_programs_have_everything_in_them() -> None:
    programs = drawn("cuda:90", 150) + drawn("hip:gfx942", 50)
    steps = Counter(type(step) for p in programs for step in all_steps(p.steps))
    assert set(steps) == {*STEPS} and min(steps.values()) > 5
    assert {p.warps for p in programs} == {1, 2, 4, 8}
    texts = [write(p) for p in programs]
    assert all(1 <= written.conversions <= MOST_CONVERSIONS for written in texts)
    assert all(w.conversions == w.text.count("ttg.convert_layout") for w in texts)
    everything = "".join(written.text for written in texts)
    for kind in (
        "linear",
        "blocked",
        "slice",
        "nvidia_mma",
        "amd_mfma",
        "dot_op",
        "swizzled_shared",
        "nvmma_shared",
    ):
        assert f"#ttg.{kind}<" in everything, kind
    for operation in ("scf.for", "scf.while", "scf.if", "tt.reduce", "tt.scan", "tt.trans", "tt.reshape"):
        assert f"{operation}" in everything, operation
    for element in ("i1", "i8", "f8E4M3FN", "f64", "!tt.ptr<f16>"):
        assert any(p.element == element for p in programs), element


def test_a_program_survives_its_text() -> None:
    for one in drawn("hip:gfx950", 20):
        assert from_json(as_json(one)) == one
        assert program_in(write(one).text) == one
    with pytest.raises(ValueError, match="not a program"):
        from_json('{"target": "cuda:90"}')


def outcome_of(steps: Steps, x: Any, element: str = "i16") -> Any:
    x = np.asarray(x, np.uint64)
    one = Program("cuda:90", 1, x.shape, element, "", steps)
    return evaluate(one, x[None])[0].tolist()


def test_steps_do_what_they_say() -> None:
    x = [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert outcome_of((Convert(""), Shared("", "", "", False), Add(1)), x) == [[2, 3, 4, 5], [6, 7, 8, 9]]
    assert outcome_of((Reduce(1, "addi", ""),), x) == [[21, 22, 23, 24], [57, 58, 59, 60]]
    assert outcome_of((Reduce(0, "maxui", "", (Add(1),)),), x) == [[13, 16, 19, 22], [17, 20, 23, 26]]
    assert outcome_of((Scan(1, "", False),), x) == [[1, 3, 6, 10], [5, 11, 18, 26]]
    assert outcome_of((Scan(1, "", True),), x) == [[10, 9, 7, 4], [26, 21, 15, 8]]
    turned = (Scan(0, "", False),)
    assert outcome_of((Transposed((1, 0), "", "", turned),), x) == [[1, 3, 6, 10], [5, 11, 18, 26]]
    assert outcome_of((Reshaped((8,), "", "", turned),), x) == [[1, 3, 6, 10], [15, 21, 28, 36]]
    assert outcome_of((Loop("for", 3, "", (Add(2),)),), x) == [[7, 8, 9, 10], [11, 12, 13, 14]]
    parted = Branch("", (Add(1),), (Add(100),))
    assert outcome_of((Loop("for", 3, "", (parted,)),), [1]) == [103]
    assert outcome_of((parted,), [1]) == [2]
    assert outcome_of((Park("", "", "", (Add(1),)),), [1, 5]) == [4, 16]


def test_integers_wrap_as_wide_as_elements_are() -> None:
    assert outcome_of((Add(2),), [255], "i8") == [1]
    assert outcome_of((Add(1),), [1], "i1") == [0]


def test_inputs_tell_elements_apart() -> None:
    for element in ("i1", "i8", "f64"):
        found = inputs(program(element=element)).reshape(-1, 128)
        assert len({tuple(column) for column in found.T.tolist()}) == 128


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_stock_triton_gives_what_programs_must_give(target: str) -> None:
    """The expectation is not ours: without our passes registers are the same, where Triton compiles at all."""
    call, programs = InProcesses(seconds=20), drawn(target, 4, seed=3)
    found = [call(run.stock, command.unit_of(one)) for one in programs]
    ran = [totals for totals in found if not isinstance(totals, Lost)]
    assert len(ran) >= 2
    assert all(totals.ok for totals in ran), ran


@pytest.mark.parametrize("target", ["cuda:80", "cuda:90", "hip:gfx90a"])
def test_programs_are_lowered_right(target: str) -> None:
    conversions = 0
    for one in drawn(target, 5, seed=4):
        found = examine.examine_program(one, "ours.ttgir")
        assert found.ok, (found.failures, one)
        conversions += found.conversions
    assert conversions > 10


def ours_alone(function: Any, unit: run.Unit) -> Any:
    """In this process, where stock Triton must not hang."""
    return Totals() if function is run.stock else in_this_process(function, unit)


def first_failure(target: str, seed: int = 5) -> Any:
    for unit in units(FuzzPlan(target, seed, 200, kinds=(PROGRAMS,))):
        found = run.outcome(unit, ours_alone)
        if not found.ok:
            return found.failures[0]
    raise AssertionError("nothing was found")


def shrunk(failure: Any) -> Program:
    small = command.reduced(failure, ours_alone, seconds=60)
    assert size(small) < size(failure.program)
    return small


def break_text(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str]) -> None:
    def broken(text: str, name: str, target: str, options: PipelineOptions | None) -> LoweredKernel:
        if options is None:
            return lower_kernel(text, name, target, None)
        kernel = lower_kernel(text, name, target, replace(options, assign=False))  # conversions are to stay
        return replace(kernel, text=change(kernel.text))

    monkeypatch.setattr(examine, "lower_kernel", broken)


def test_a_dropped_barrier_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    break_text(monkeypatch, lambda text: re.sub(r"\n.*nvvm\.barrier.*", "", text, count=1))
    failure = first_failure("cuda:90", seed=6)
    assert failure.kind == "race" and "without a CTA barrier between" in failure.message
    small = shrunk(failure)
    assert len(list(all_steps(small.steps))) == 1
    assert 1 < small.warps <= 4 and np.prod(small.shape) <= 64
    assert write(small).text.count("ttg.convert_layout") == 1


def at_the_bottom(text: str) -> str:
    """All scratch at the beginning of shared memory, whatever is there."""
    memory = re.search(r"(%\w+) = llvm\.mlir\.addressof @global_smem", text)
    if memory is None:
        return text
    return re.sub(rf"(%__ll_\w+ = llvm\.getelementptr {memory[1]}\[)\d+\]", r"\g<1>0]", text)


def test_scratch_that_overlaps_a_live_buffer_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    break_text(monkeypatch, at_the_bottom)
    turned = blocked(8).replace("[1, 2]", "[2, 1]").replace("order = [1, 0]", "order = [0, 1]")
    inner = (Add(3), Convert(turned), Add(5), Convert(blocked(8)))
    one = program(Add(1), Park(SWIZZLED, blocked(8), blocked(8), inner), shape=(32, 32), element="f16")
    failure = command.totals_of(one, ours_alone).failures[0]
    assert failure.kind == "wrong"
    small = shrunk(failure)
    # What is kept in memory, and the conversion that writes over it, are still there.
    kinds = [type(step) for step in all_steps(small.steps)]
    assert kinds[0] is Park and len(kinds) <= 3
    assert small.steps[0].memory  # type: ignore[union-attr]
    assert "ttg.convert_layout" in write(small).text


def test_smaller_programs_are_programs() -> None:
    for one in drawn("cuda:90", 25, seed=11):
        for candidate in smaller(one):
            assert from_json(as_json(candidate)) == candidate
    long = program(*(Add(n) for n in range(1, 9)), Convert(blocked(4)))
    assert shrink(long, lambda p: Convert(blocked(4)) in p.steps, seconds=20).steps == (Convert(blocked(4)),)
