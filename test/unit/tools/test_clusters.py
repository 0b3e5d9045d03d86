"""Kernels with several CTAs a cluster: what stays in each CTA is converted by our code, what crosses by
Triton's, and nobody stores over what another CTA still reads."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import pytest
from cluster_marks import ordered, unordered

from bench.fuzz.partitions import partitions_text
from bench.fuzz.program import Convert, Program
from triton_linear.lowering.emit.embed import Embedded
from triton_linear.passes import attempts
from triton_linear.tools.support.compile import LOWERING, Compilation, compile_text
from triton_linear.tools.verify.command import check

GPUS = ("cuda:90", "cuda:100")
BY_ROW, BY_COLUMN = (1, 0), (0, 1)


def blocked(columns_first: bool, ctas: list[tuple[int, int]]) -> str:
    """A layout of 32 lanes and 4 warps along the columns or the rows, its CTAs as their basis vectors say."""
    sizes, lanes, warps, order = (
        ([4, 1], [4, 8], [1, 4], [0, 1]) if columns_first else ([1, 4], [8, 4], [4, 1], [1, 0])
    )
    return (
        f"#ttg.blocked<{{sizePerThread = {sizes}, threadsPerWarp = {lanes}, warpsPerCTA = {warps}, "
        f"order = {order}, CGALayout = {[list(basis) for basis in ctas]}}}>"
    )


def kernel(encodings: list[str], ctas: int, element: str = "f32") -> str:
    """A kernel that loads a tensor in the first layout, converts it to each of the others in turn, and stores
    it in the last; additions keep conversions from folding."""
    types = [f"tensor<64x64x{element}, {encoding}>" for encoding in encodings]
    first, last = (f"tensor<64x64x!tt.ptr<{element}>, {encodings[end]}>" for end in (0, -1))
    lines = [f"%x0 = tt.load %p : {first}"]
    for step, (before, after) in enumerate(itertools.pairwise(types)):
        lines.append(f"%y{step} = ttg.convert_layout %x{step} : {before} -> {after}")
        lines.append(f"%x{step + 1} = arith.addf %y{step}, %y{step} : {after}")
    lines.append(f"tt.store %q, %x{len(types) - 1} : {last}")
    body = "\n    ".join(lines)
    return (
        f'module attributes {{"ttg.num-ctas" = {ctas} : i32, "ttg.num-warps" = 4 : i32, '
        'ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {\n'
        f"  tt.func public @k(%p: {first}, %q: {last}) {{\n    {body}\n    tt.return\n  }}\n}}\n"
    )


def compiled(text: str, gpu: str, stage: str = "ptx") -> Compilation:
    """A module through the whole pipeline for a GPU."""
    return compile_text(text.replace("cuda:90", gpu), "k.ttgir", None, stage, LOWERING)


def steps(ptx: str) -> str:
    """What happens to shared memory, a letter each: stores, loads, remote loads, barriers of the CTA and of the
    cluster; repetitions once."""
    kinds = (
        (r"(st\.shared|stmatrix)", "s"),
        (r"ld\.shared::cluster", "R"),
        (r"(ld\.shared|ldmatrix)", "l"),
        (r"bar\.sync", "b"),
        (r"barrier\.cluster\.wait", "C"),
    )
    found = ""
    for line in ptx.splitlines():
        letter = next((letter for text, letter in kinds if re.search(rf"^\s*{text}", line)), "")
        if letter and not found.endswith(letter):
            found += letter
    return found


def ptx_of(compilation: Compilation) -> str:
    (found,) = compilation.kernels
    return found.lowered.text("ptx")


@ordered
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("ctas", [2, 4, 8, 16])
@pytest.mark.parametrize("element", ["f32", "f16"])
def test_what_stays_in_its_cta_is_ours_and_right_in_every_cta(gpu: str, ctas: int, element: str) -> None:
    bases = [BY_ROW, BY_COLUMN, (2, 0), (0, 0)][: ctas.bit_length() - 1]
    text = kernel([blocked(True, bases), blocked(False, bases)], ctas, element)
    compilation = compiled(text, gpu)
    (found,) = check(compilation)
    assert found.of.kind == "cta-shared"
    assert found.verdict is not None and found.ok
    # Every CTA was run, each register of each of its threads compared.
    (stub,) = compilation.stubs.values()
    registers = stub.destination.in_dim_size("register")
    assert found.verdict.checked == ctas * 4 * 32 * registers
    # A store, the CTA's barrier and a load. What Triton has at the end of a cluster's kernel comes behind.
    assert steps(ptx_of(compilation)).removesuffix("C") == "sbl"
    assert f".reqnctapercluster {ctas}" in ptx_of(compilation)


def test_what_crosses_ctas_is_left() -> None:
    (found,) = check(compiled(kernel([blocked(True, [BY_ROW]), blocked(False, [BY_COLUMN])], 2), "cuda:90"))
    assert found.verdict is None
    assert found.of.kind == "stock" and "the conversion crosses CTAs" in found.plan


@ordered
@pytest.mark.parametrize("gpu", GPUS)
def test_our_stores_wait_for_loads_of_other_ctas(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A barrier of the cluster stands between Triton's remote loads, here of a reduction, and our stores to the
    same bytes; the marks bring it there, for without them there is none."""
    first, second = blocked(True, [BY_ROW]), blocked(False, [BY_ROW])
    tensor, column = f"tensor<64x64xf32, {first}>", f"#ttg.slice<{{dim = 0, parent = {first}}}>"
    reduction = f"""%r = "tt.reduce"(%x0) <{{axis = 0 : i32}}> ({{
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tt.reduce.return %s : f32
    }}) : ({tensor}) -> tensor<64xf32, {column}>
    %e = tt.expand_dims %r {{axis = 0 : i32}} : tensor<64xf32, {column}> -> tensor<1x64xf32, {first}>
    %w = tt.broadcast %e : tensor<1x64xf32, {first}> -> {tensor}
    %y0 = ttg.convert_layout %w :"""
    text = kernel([first, second], 2).replace("%y0 = ttg.convert_layout %x0 :", reduction)
    compilation = compiled(text, gpu)
    assert [found.of.kind for found in check(compilation)] == ["cta-shared"]
    assert "RCsbl" in steps(ptx_of(compilation))
    embed = attempts.embed

    def without_marks(*arguments: Any, **options: Any) -> Embedded:
        made = embed(*arguments, **options)
        text, count = re.subn(r"\n *ttg\.local_store %__ll_\w+_nothing,[^\n]*", "", made.text)
        assert count == 2
        return replace(made, text=text)

    monkeypatch.setattr(attempts, "embed", without_marks)
    assert "RCsbl" not in steps(ptx_of(compiled(text, gpu)))


@unordered
def test_what_is_not_ordered_is_left_with_its_reason() -> None:
    text = kernel([blocked(True, [BY_ROW]), blocked(False, [BY_ROW])], 2)
    (found,) = check(compiled(text, "cuda:90"))
    assert found.verdict is None
    assert "2 CTAs share their memory" in found.plan


def test_shuffles_are_ours_on_every_release() -> None:
    """They need no memory: lanes change places within their warp."""
    rows = blocked(False, [BY_ROW])
    (found,) = check(
        compiled(kernel([rows, rows.replace("sizePerThread = [1, 4]", "sizePerThread = [1, 2]")], 2), "cuda:90")
    )
    assert found.of.kind == "shuffle"
    assert found.verdict is not None and found.ok


REGION_LAYOUTS = {"rows": ([1, 4], [4, 8], [4, 1], [1, 0]), "columns": ([4, 1], [8, 4], [1, 4], [0, 1])}


def in_region(source: tuple[int, int], destination: tuple[int, int], region: int) -> Program:
    """A conversion in a warp-specialised region of a cluster of two CTAs, which lie as the vectors say."""
    sides = []
    for name, basis in (("rows", source), ("columns", destination)):
        sizes, lanes, warps, order = REGION_LAYOUTS[name]
        sides.append(
            f"#ttg.blocked<{{sizePerThread = {sizes}, threadsPerWarp = {lanes}, warpsPerCTA = {warps}, "
            f"order = {order}, CGALayout = [{list(basis)}]}}>"
        )
    return Program("cuda:90", 4, (64, 64), "i32", sides[0], (Convert(sides[1]),), region, 2)


@ordered
def test_equal_conversions_in_and_beside_partitions_are_verified() -> None:
    """The code differs in who says the number of the thread."""
    programs = [in_region(BY_ROW, BY_ROW, region) for region in (0, 1)]
    assert [found.ok for found in check(compiled(partitions_text(programs), "cuda:90"))] == [True, True]
