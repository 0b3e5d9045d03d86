"""Layouts in warp-specialised regions and in clusters: each region has its warps, each CTA keeps its part."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from assign_support import MODULES
from hypothesis import given, settings
from hypothesis import strategies as st
from scope_kernels import COLUMNS, ROWS, crossing, in_partition
from width_kernels import Kernel, copy

from triton_linear.dialect import bridge, encodings, ll
from triton_linear.dialect.linear_layout import WARP, LinearLayout
from triton_linear.dialect.mlir_adapter import Module, Operation, RankedTensorType, operations
from triton_linear.dialect.partitions import partition_warps
from triton_linear.passes.analysis import residency
from triton_linear.passes.analysis.clusters import around, blocks_of, part_of, within
from triton_linear.passes.analysis.global_memory import blocked_text, encoding_text
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.operations.names import CONVERT
from triton_linear.passes.widening.widen import WidenAccesses
from triton_linear.tools.support.compile import DEFAULTS, compile_text

GPUS = ("cuda:90", "cuda:100")
NVIDIA = [path for path in MODULES if '"cuda:' in path.read_text() and '"ttg.num-ctas" = 1' in path.read_text()]
CLUSTERS = [[(1, 0)], [(0, 1)], [(1, 0), (0, 1)], [(0, 1), (0, 0)], [(2, 0), (1, 0)]]


def upstream(text: str) -> Module:
    return bridge.text_to_upstream(text, bridge.upstream_context(), "scopes.ttgir")


def assigned(text: str, gpu: str | None = None) -> Module:
    root = upstream(text)
    outcome = run_passes(root, [AssignLayouts(gpu)])
    assert outcome.succeeded, outcome.diagnostics
    return root


def tensors(root: Module) -> list[tuple[Operation, RankedTensorType]]:
    return [
        (op, value.type)
        for op in operations(root.operation)
        for value in op.results
        if isinstance(value.type, RankedTensorType)
    ]


def conversions(root: Module) -> Counter[int | None]:
    """How many there are for each number of warps; None: the kernel's own."""
    return Counter(partition_warps(op) for op in operations(root.operation) if op.name == CONVERT)


def layout_of(type_: RankedTensorType) -> LinearLayout:
    found = LayoutTable().of(type_)
    assert isinstance(found, LinearLayout)
    return found


def ptx_of(text: str, gpu: str) -> str:
    (kernel,) = compile_text(text, "scopes.ttgir", gpu, "ptx", DEFAULTS).kernels
    return kernel.lowered.text("ptx")


def widths(ptx: str) -> set[str]:
    return set(re.findall(r"(?:ld|st)\.global[.\w]*", ptx))


# Regions


@pytest.mark.parametrize("result", [ROWS, COLUMNS])
def test_each_region_is_assigned_with_its_warps(result: str) -> None:
    text = crossing(4, (1, 8), result=result)
    before, after = upstream(text), assigned(text)
    assert conversions(before) == {None: 2, 1: 2, 8: 2}
    # Rows that are stored as columns are converted once, unless a layout serves both in a region of one warp.
    left = conversions(after)
    assert left == {} if result == ROWS else (left[None], left[8]) == (1, 1) and left[1] <= 1
    assert ll.ASSIGNED in after.operation.attributes
    for op, type_ in tensors(after):
        assert layout_of(type_).in_dim_size(WARP) == (partition_warps(op) or 4)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("ctas", [[], [(1, 0)]], ids=["one-cta", "cluster"])
def test_triton_compiles_what_regions_become(gpu: str, ctas: list[tuple[int, int]]) -> None:
    assert widths(ptx_of(crossing(4, (4, 2), ctas, gpu), gpu)) == {"ld.global.v4.b32", "st.global.v4.b32"}


@pytest.mark.parametrize("path", NVIDIA[::3], ids=[path.stem for path in NVIDIA[::3]])
def test_a_partition_is_assigned_as_the_kernel_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is captured is as well known as an argument, and the warps are those of the partition. Where CTAs
    are not counted, a region is priced as a kernel is."""
    monkeypatch.setattr(residency, "_resident_ctas", lambda *_: None)
    text = path.read_text()
    own = 4 if '"ttg.num-warps" = 8' in text else 8
    alone, inside = assigned(text, "cuda:90"), assigned(in_partition(text, "cuda:90", own), "cuda:90")
    shown = [str(root.operation.attributes.get(ll.ASSIGNED)) for root in (alone, inside)]
    assert shown[0] == shown[1]
    assert [str(type_) for _, type_ in tensors(alone)] == [str(type_) for _, type_ in tensors(inside)]


def test_a_region_that_has_nothing_to_gain_stays() -> None:
    text = crossing(4, (8,), own_converts=False)
    before, after = upstream(text), assigned(text)
    assert conversions(before)[8] > conversions(after)[8]
    own = [[str(t) for op, t in tensors(root) if partition_warps(op) is None] for root in (before, after)]
    assert own[0] == own[1]


# Clusters


@pytest.mark.parametrize("ctas", CLUSTERS, ids=str)
@pytest.mark.parametrize("result", [ROWS, COLUMNS])
def test_each_cta_keeps_its_part(ctas: list[tuple[int, int]], result: str) -> None:
    text = crossing(4, ctas=ctas, result=result)
    before, after = upstream(text), assigned(text)
    assert conversions(after).total() < conversions(before).total()
    parts = {(tuple(type_.shape), blocks_of(layout_of(type_))) for _, type_ in tensors(before)}
    assert {(tuple(type_.shape), blocks_of(layout_of(type_))) for _, type_ in tensors(after)} <= parts


def test_what_crosses_ctas_crosses_as_before() -> None:
    """Other CTAs between load and store would spare both conversions."""
    text = crossing(4, ctas=[(1, 0)], ctas_between=[(0, 1)])
    before, after = (
        [(op.name, blocks_of(layout_of(type_))) for op, type_ in tensors(root) if op.name == "arith.addf"]
        for root in (upstream(text), assigned(text))
    )
    assert before == after == [("arith.addf", ((0, 32),))]


def test_a_layout_that_no_operation_had_is_put_into_the_cluster() -> None:
    root = assigned(crossing(4, ctas=[(1, 0)], result=ROWS))
    (load,) = [str(type_.encoding) for op, type_ in tensors(root) if op.name == "tt.load"]
    assert "threadsPerWarp = [2, 16]" in load
    assert "CGALayout = [[1, 0]]" in load


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("ctas", CLUSTERS, ids=str)
def test_triton_compiles_what_clusters_become(ctas: list[tuple[int, int]], gpu: str) -> None:
    assert widths(ptx_of(crossing(4, (), ctas, gpu), gpu)) == {"ld.global.v4.b32", "st.global.v4.b32"}


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_what_a_cta_has_is_a_tensor_of_its_own(data: st.DataObject) -> None:
    """`around(within(l), l) == l`, and the encoding that is written for l denotes it."""
    rank = data.draw(st.integers(1, 3))
    sides = st.lists(st.sampled_from([1, 2, 4]), min_size=rank, max_size=rank)
    sizes, warps = data.draw(sides), data.draw(sides)
    lanes = [1] * rank
    for axis in data.draw(st.lists(st.integers(0, rank - 1), min_size=5, max_size=5)):
        lanes[axis] *= 2
    order = data.draw(st.permutations(range(rank)))
    pieces, bases = [1] * rank, []
    for axis in data.draw(st.lists(st.integers(-1, rank - 1), max_size=3)):
        bases.append([pieces[axis] if place == axis else 0 for place in range(rank)])
        if axis >= 0:
            pieces[axis] *= 2
    bases = data.draw(st.permutations(bases))
    shape = [1 << data.draw(st.integers(0, 7)) for _ in range(rank)]
    text = (
        f"#ttg.blocked<{{sizePerThread = {sizes}, threadsPerWarp = {lanes}, warpsPerCTA = {warps}, "
        f"order = {list(order)}, CGALayout = {list(bases)}}}>"
    )
    layout = encodings.layout_of(text, tuple(shape)).remove_zero_bases("register")
    part = part_of(layout)
    assert part is not None
    assert part == tuple(size // min(size, count) for size, count in zip(shape, pieces, strict=True))
    assert around(within(layout), layout) == layout
    assert (blocked_text(layout) is None) == (blocked_text(within(layout)) is None)
    written = encoding_text(layout)
    assert encodings.layout_of(written, tuple(shape)).remove_zero_bases("register") == layout


def test_parts_that_are_no_boxes_are_told() -> None:
    def layout(block: tuple[int, int], lane: tuple[int, int] = (0, 1)) -> LinearLayout:
        bases = {"register": [(1, 0), (2, 0)], "lane": [lane], "warp": [], "block": [block]}
        return LinearLayout.from_bases(bases, ["dim0", "dim1"])

    assert part_of(layout((4, 0))) == (4, 2)
    assert part_of(layout((0, 2))) == (4, 2)
    interleaved = LinearLayout.from_bases(
        {"register": [(2, 0)], "lane": [(0, 1)], "warp": [], "block": [(1, 0)]}, ["dim0", "dim1"]
    )
    assert part_of(interleaved) is None
    assert within(interleaved) is interleaved


# What comes after


@pytest.mark.parametrize("where", ["alone", "partition", "cluster"])
def test_accesses_of_short_rows_are_wide_in_regions_and_clusters(where: str) -> None:
    kernel = Kernel(copy, element="i8", K=2, rows=1024, options={"num_ctas": 2} if where == "cluster" else {})
    text = kernel.ttgir()
    if where == "partition":
        text = in_partition(text, "cuda:90", 4)
    root = upstream(text)
    assert run_passes(root, [AssignLayouts(), WidenAccesses()]).succeeded
    assert ll.WIDENED in root.operation.attributes
    share = {"alone": "v4.b32", "partition": "v4.b32", "cluster": "v2.b32"}[where]
    assert widths(ptx_of(text, "cuda:90")) == {f"ld.global.{share}", f"st.global.{share}"}
