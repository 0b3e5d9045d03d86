"""Reductions in warp-specialised regions, whose warps are those of a partition, and in clusters, where each CTA
reduces what it has: taken apart, and run on data that tells each element from the others."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from cluster_marks import ordered, unordered
from reductions_support import BODIES, REGIONS, RETURNED, Array, expected, inputs, module, patterns, taken_apart

from bench.fuzz.warps import simulate_warps
from bench.whole_kernels import LoweredKernel, lower_kernel, registers_of, sink
from triton_linear.dialect.encodings import layout_of
from triton_linear.lowering.interpreter.assembly import GIVEN
from triton_linear.lowering.interpreter.verify import held_elements
from triton_linear.passes.analysis.partial import CALLS
from triton_linear.passes.options import PipelineOptions

OPTIONS = PipelineOptions(assign=False)
LANES = 32


def across(warps: int, rest: str = "") -> str:
    """A layout whose warps lie along the columns."""
    return (
        "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], "
        f"warpsPerCTA = [1, {warps}], order = [1, 0]{rest}}}>"
    )


@dataclass(frozen=True)
class Own:
    """A reduction along the columns of a region with so many warps."""

    operation: str
    warps: int
    shape: tuple[int, int] = (16, 256)
    rest: str = ""

    @property
    def encoding(self) -> str:
        return across(self.warps, self.rest)

    def lines(self, number: int) -> list[str]:
        """Its operands from inline assembly, and its results to it."""
        rows, columns = self.shape
        sliced = f"#ttg.slice<{{dim = 1, parent = {self.encoding}}}>"
        elements = REGIONS[self.operation]
        p = f"n{number}_"
        words = f"tensor<{rows}x{columns}xi32, {self.encoding}>"
        lines = [f"%{p}zero = arith.constant dense<0> : {words}"]
        names, given, results = [], [], []
        for k, element in enumerate(elements):
            type_ = words.replace("xi32", f"x{element}")
            asm = '{constraints = "=r,r", packed_element = 1 : i32, pure = false}'
            taken = f'"{GIVEN}{number}_{k}" {asm} %{p}zero : {words} -> {words}'
            lines.append(f"%{p}w{k} = tt.elementwise_inline_asm {taken}")
            lines.append(f"%{p}x{k} = tt.bitcast %{p}w{k} : {words} -> {type_}")
            names.append(f"%{p}x{k}")
            given.append(type_)
            results.append(f"tensor<{rows}x{element}, {sliced}>")
        many = f":{len(elements)}" if len(elements) > 1 else ""
        block = ", ".join(f"%{side}{i}: {e}" for side in "ab" for i, e in enumerate(elements))
        lines += [
            f'%{p}r{many} = "tt.reduce"({", ".join(names)}) <{{axis = 1 : i32}}> ({{',
            f"^bb0({block}):",
            BODIES[self.operation],
            f"tt.reduce.return {RETURNED.get(self.operation, '%c')} : {', '.join(elements)}",
            f"}}) : ({', '.join(given)}) -> ({', '.join(results)})",
        ]
        for k, type_ in enumerate(results):
            value = f"%{p}r#{k}" if many else f"%{p}r"
            lines.append(sink(value, type_, f"{number}_{k}"))
        return lines


def regions(own: list[Own], extra: str = "", ctas: int = 1) -> str:
    """A kernel that reduces in its default region and in partitions, at the same time."""
    default, *partitions = own
    registers = ", ".join(["24"] * len(partitions))
    parts = [f"ttg.warp_specialize() attributes {{requestedRegisters = array<i32: {registers}>}}", "default {"]
    parts += [*default.lines(0), "ttg.warp_yield", "}"]
    for index, each in enumerate(partitions):
        parts += [f"partition{index}() num_warps({each.warps}) {{", *each.lines(index + 1)]
        parts += ["ttg.warp_return", "}"]
    parts[-1] += " : () -> ()"
    body = "\n    ".join(parts)
    return (
        f'module attributes {{"ttg.num-ctas" = {ctas} : i32, "ttg.num-warps" = {default.warps} : i32, '
        f'ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32}} {{\n{extra}'
        f"  tt.func public @kernel() {{\n    {body}\n    tt.return\n  }}\n}}\n"
    )


def run(kernel: LoweredKernel, own: list[Own], arrays: list[list[Array]], cta: int = 0) -> dict[str, Array]:
    """What each sink is handed."""
    given = {}
    for number, each in enumerate(own):
        held = held_elements(layout_of(each.encoding, each.shape), LANES, each.warps, cta)
        for k, array in enumerate(arrays[number]):
            flat = patterns(array).transpose(0, 2, 1).reshape(1, -1)
            given[f"{number}_{k}"] = list(flat[:, held].swapaxes(0, 1))
    outcome = simulate_warps(kernel.text, kernel.name, given, kernel.target)
    assert not outcome.races
    assert not any(undefined.any() for _, undefined in outcome.sinks.values())
    return {name: values for name, (values, _) in outcome.sinks.items()}


OWN = [Own("sum", 4), Own("argmax", 8), Own("fsum", 2), Own("max", 4, (32, 128))]


def drawn(own: list[Own]) -> list[list[Array]]:
    return [inputs(each.operation, each.shape, 1, seed) for seed, each in enumerate(own)]


@pytest.mark.parametrize("gpu", ["cuda:90", "cuda:100"])
def test_reductions_in_regions_are_taken_apart_and_right(gpu: str) -> None:
    arrays, text = drawn(OWN), regions(OWN)
    _, said = taken_apart(text, gpu)
    remarks = [re.search(r"results of (\d+) warps converted", str(each)) for each in said]
    counts = sorted(int(each[1]) for each in remarks if each)
    ours = lower_kernel(text, "regions.ttgir", gpu, OPTIONS)
    assert counts and set(counts) <= {2, 4, 8}
    assert sum(conversion.partials for conversion in ours.conversions) >= len(counts)
    assert all(conversion.kind != "stock" for conversion in ours.conversions)
    found = run(ours, OWN, arrays)
    stock = run(lower_kernel(text, "regions.ttgir", gpu, None), OWN, arrays)
    assert found.keys() == stock.keys()
    assert all(np.array_equal(found[name], stock[name]) for name in found)
    for number, each in enumerate(OWN):
        wanted = expected(each.operation, arrays[number], 1)
        sliced = layout_of(f"#ttg.slice<{{dim = 1, parent = {each.encoding}}}>", each.shape[:1])
        held = held_elements(sliced, LANES, each.warps, 0)
        for k, array in enumerate(wanted or ()):
            assert np.array_equal(found[f"{number}_{k}"], patterns(array)[:, held].swapaxes(0, 1))


def test_the_warps_are_those_of_the_partition() -> None:
    """A partition of 8 of a kernel with 4 does as a kernel of 8 does, at the same price; one warp has none."""
    own = [Own("sum", 4, (16, 64)), Own("sum", 8), Own("sum", 1)]
    _, said = taken_apart(regions(own))
    whole = module("sum", across(8), (16, 256), 1).replace('"ttg.num-warps" = 4', '"ttg.num-warps" = 8')
    (alone,) = taken_apart(whole)[1]
    price = str(alone).partition("remark: ")[2]
    assert "results of 8 warps converted" in price
    assert [price in str(each) for each in said].count(True) == 1
    assert len(said) == 2


def test_what_would_be_tritons_stays() -> None:
    own = [Own("sum", 4), Own("sum", 4)]
    helper = "  tt.func private @f() attributes {noinline = true} {\n    tt.return\n  }\n"
    called = regions(own, helper).replace("@kernel() {", "@kernel() {\n    tt.call @f() : () -> ()")
    root, said = taken_apart(called)
    assert [CALLS in str(each) for each in said] == [True, True]
    assert str(root).count('"tt.reduce"') == 2


@ordered
def test_regions_in_clusters_are_taken_apart() -> None:
    own = [Own(operation, 4, (32, 256), ", CGALayout = [[1, 0]]") for operation in ("argmax", "fsum")]
    arrays, text = drawn(own), regions(own, ctas=2)
    _, said = taken_apart(text)
    assert ["results of 4 warps converted" in str(each) for each in said] == [True, True]
    ours = lower_kernel(text, "both.ttgir", "cuda:90", OPTIONS)
    stock = lower_kernel(text, "both.ttgir", "cuda:90", None)
    assert sum(conversion.partials for conversion in ours.conversions) >= 2
    assert all(conversion.kind != "stock" for conversion in ours.conversions)
    for cta in range(2):
        found, theirs = (run(kernel, own, arrays, cta) for kernel in (ours, stock))
        assert all(np.array_equal(found[name], theirs[name]) for name in (*found, *theirs))
    assert any(not np.array_equal(found[name], run(ours, own, arrays, 0)[name]) for name in found)


def clustered(operation: str, block: str, ctas: int) -> str:
    """A kernel of `ctas` CTAs that reduces along the columns."""
    text = module(operation, across(4, f", CGALayout = {block}"), (64, 256), 1)
    return text.replace('"ttg.num-ctas" = 1', f'"ttg.num-ctas" = {ctas}')


@ordered
@pytest.mark.parametrize(
    ("operation", "block", "ctas"),
    [
        ("sum", "[[1, 0]]", 2),
        ("argmax", "[[0, 0]]", 2),
        ("fsum", "[[1, 0], [0, 0]]", 4),
        ("mixed", "[[1, 0], [2, 0]]", 4),
    ],
)
def test_each_cta_of_a_cluster_reduces_what_it_has(operation: str, block: str, ctas: int) -> None:
    text = clustered(operation, block, ctas)
    encoding, shape = across(4, f", CGALayout = {block}"), (64, 256)
    _, said = taken_apart(text)
    assert any("results of 4 warps converted" in str(each) for each in said)
    arrays = inputs(operation, shape, 1, seed=ctas)
    ours, stock = (lower_kernel(text, "cluster.ttgir", "cuda:90", options) for options in (OPTIONS, None))
    assert any(conversion.partials for conversion in ours.conversions)
    assert "nvvm.mapa" not in ours.text  # so every CTA can be run by itself
    result = layout_of(f"#ttg.slice<{{dim = 1, parent = {encoding}}}>", shape[:1])
    for cta in range(ctas):
        given = [registers_of(patterns(array), layout_of(encoding, shape), ours, cta) for array in arrays]
        outcomes = [kernel.run(given) for kernel in (ours, stock)]
        assert not outcomes[0].races
        for number in range(len(REGIONS[operation])):
            (found, undefined), (theirs, _) = (outcome.sinks[f"result{number}"] for outcome in outcomes)
            assert not undefined.any()
            assert np.array_equal(found, theirs)
            wanted = expected(operation, arrays, 1)
            if wanted is not None:
                assert np.array_equal(found, registers_of(patterns(wanted[number]), result, ours, cta))


@ordered
def test_a_reduction_across_ctas_stays() -> None:
    _, said = taken_apart(clustered("sum", "[[0, 1]]", 2))
    assert not said


@unordered
def test_in_clusters_that_are_not_ordered_reductions_stay() -> None:
    _, said = taken_apart(clustered("sum", "[[1, 0]]", 2))
    assert ["2 CTAs share their memory" in str(each) for each in said] == [True]
