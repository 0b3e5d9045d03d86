"""Reports account for every conversion that Triton's module has, whatever a kernel is made of.

What is counted here does not come from the report: conversions before the passes and conversions and calls of
stubs after them are counted in the modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fault_kernels
import pytest
import triton
import triton.language as tl
from aligned_sources import aligned
from bridge_kernels import CASES, TARGETS, Case
from fault_kernels import KERNELS, lowered, moved
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

import triton_linear
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.passes import attempts
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.operations.names import CONVERT
from triton_linear.report import Outcome, Report

SMALL = {"x": "*fp32", "out": "*fp32"}


@triton.jit
def sums(x, out, B: tl.constexpr, KIND: tl.constexpr):
    """A tile loaded across its rows, and one of the things that may be done with it."""
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tile = tl.trans(tl.load(x + i * B + j))
    if KIND == "sort":
        tile = tl.sort(tile, 1)
    elif KIND == "topk":
        tile = tl.broadcast_to(tl.max(tl.topk(tile, 4), 1)[:, None], (B, B))
    elif KIND == "sum":
        tile += tl.sum(tile, 0)[None, :]
    elif KIND == "argmax":
        tile += tl.argmax(tile, 1)[:, None]
    elif KIND == "join":
        tile = tl.sum(tl.join(tile, tile * 2), 2)
    elif KIND == "dot":
        tile = tl.dot(tile.to(tl.float16), tl.trans(tile).to(tl.float16))
    elif KIND == "softmax":
        tile = tl.exp(tile - tl.max(tile, 1)[:, None])
        tile /= tl.sum(tile, 1)[:, None]
    elif KIND == "cast":
        tile = tile.to(tl.float8e5).to(tl.float32)
    elif KIND == "masked":
        tile = tl.load(x + j * B + i, mask=tile > 0, other=0.0)
    tl.store(out + i * B + j, tile)


KINDS = ("transpose", "sort", "topk", "sum", "argmax", "join", "dot", "softmax", "cast", "masked")
WARPS = (1, 2, 8, 16, 32)
MADE = {
    **{kind: Case(sums, SMALL, {"B": 32, "KIND": kind}) for kind in KINDS},
    **{
        f"{kind}, {warps} warps": Case(sums, SMALL, {"B": 64, "KIND": kind}, {"num_warps": warps})
        for kind in ("transpose", "softmax", "dot", "sum")
        for warps in WARPS
    },
    **{
        f"matmul, {stages} stages": replace(CASES["matmul"], options={"num_stages": stages})
        for stages in (1, 2, 4)
    },
    **{name: CASES[name] for name in ("matmul_eight_warps", "control_flow", "shapes", "dot_scaled")},
    **{name: Case(moved, SMALL, {}) for name in ("gluon", "gluon, layouts that may change")},
    **KERNELS,
}
"""Kinds of kernels by name; those of `fault_kernels` have loops, effects, tables, clusters and calls."""
OPTIONS = {"gluon, layouts that may change": {"gluon": True}}
"""Options of the plugin that a kind is compiled with."""


def source(name: str, gpu: GPUTarget) -> ASTSource:
    if name.startswith("gluon"):
        rows, columns = [4, gpu.warp_size // 4], [gpu.warp_size // 4, 4]
        layouts = {
            "source": gl.BlockedLayout([1, 4], rows, [4, 1], [1, 0]),
            "destination": gl.BlockedLayout([4, 1], columns, [1, 4], [0, 1]),
        }
        signature = {**SMALL, **dict.fromkeys(("N", *layouts), "constexpr")}
        return GluonASTSource(moved, signature, {"N": 64, **layouts})
    if name in KERNELS:
        return fault_kernels.source(name, gpu)
    case = MADE[name]
    return aligned(case.kernel, case.signature, case.constants, integers=False)


def is_possible(name: str, gpu: str) -> bool:
    """Whether Triton itself compiles a kernel for a target."""
    warps = MADE[name].options.get("num_warps", 4)
    if gpu.startswith("hip") and (warps * TARGETS[gpu].warp_size > 1024 or name == "partitions"):
        return False
    if name == "dot_scaled":
        return gpu != "cuda:80"
    if name == "shapes":
        return gpu.startswith("cuda")
    return not name.startswith("clusters") or gpu in ("cuda:90", "cuda:100")


def _few() -> list[tuple[str, str]]:
    """The kernels of `fault_kernels` and half of the others, the targets in turn."""
    chosen = []
    for number, name in enumerate([*KERNELS, *[name for name in MADE if name not in KERNELS][::2]]):
        targets = [gpu for gpu in TARGETS if is_possible(name, gpu)]
        chosen.append((name, targets[number % len(targets)]))
    return chosen


class Counted:
    """Conversions of the module before the passes, and conversions and calls of conversions after them."""

    def __init__(self) -> None:
        self.all: list[tuple[int, int]] = []

    @property
    def before(self) -> int:
        return self.all[-1][0]

    @property
    def after(self) -> int:
        return self.all[-1][1]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    found, prepare = Counted(), attempts.prepare

    def counting(module: Any, *rest: Any, **options: Any) -> attempts.Prepared:
        before = sum(op.name == CONVERT for op in operations(module.operation))
        made = prepare(module, *rest, **options)
        after = sum(
            (op.name == CONVERT and not _renames_registers(op))
            or (op.name == "tt.call" and op.attributes["callee"].value.startswith("__ll_cvt_"))
            for op in operations(module.operation)
        )
        found.all.append((before, after))
        assert "ll.own" not in str(module)
        return made

    monkeypatch.setattr(attempts, "prepare", counting)
    yield found
    triton_linear.uninstall()


def _renames_registers(conversion: Any) -> bool:
    """Whether no element leaves its thread: so are conversions around accesses that are made wider."""
    table = LayoutTable()
    sides = [table.of(value.type) for value in (conversion.operands[0], conversion.results[0])]
    one, other = (dict(side.bases) for side in sides)
    return all(one[dim] == other[dim] for dim in ("lane", "warp")) and one != other


def check(report: Report, counted: Counted) -> None:
    assert report.seen == report.ours + report.noop + report.folded + report.avoided + report.kept
    parts = report.ours, report.noop, report.folded, report.avoided, report.kept
    assert min(parts) >= 0, parts
    if report.outcome is Outcome.CONVERTED:
        assert report.seen == counted.before
        assert len(report.own) + len(report.made) == len(report.conversions) == counted.after
        assert report.kept == sum(one.own for one in report.left)
    for one in report.conversions:
        assert "/triton/language/" not in one.location and "loc(" not in one.location, one.location
    lines = str(report).splitlines()
    assert len(set(lines)) == len(lines)
    for one in report.conversions:
        assert not re.search(rf"{one.lowering}\W+{one.lowering}\b", str(report))


def compiled(name: str, gpu: str, options: Mapping[str, Any]) -> Report:
    chosen = {"strict": True, **OPTIONS.get(name, {}), **options}
    made = lowered(source(name, TARGETS[gpu]), TARGETS[gpu], MADE[name].options, chosen)
    assert made.report is not None
    return made.report


@pytest.mark.parametrize(("name", "gpu"), _few())
def test_each_kind_of_kernel_adds_up(name: str, gpu: str, counted: Counted) -> None:
    check(compiled(name, gpu, {}), counted)


@pytest.mark.parametrize("options", [{"lower": False}, {"assign": False}, {"skip": "*"}], ids=str)
def test_it_adds_up_with_options(options: dict[str, Any], counted: Counted) -> None:
    for name in ("softmax", "dot", "in_branches"):
        report = compiled(name, "cuda:90", options)
        check(report, counted)
        if "skip" in options:
            assert report.kept == report.seen > 0


def test_all_gpus_have_some() -> None:
    assert {gpu for _, gpu in _few()} == set(TARGETS)


def test_a_place_inside_a_sort_is_that_of_its_call(counted: Counted) -> None:
    report = compiled("sort", "cuda:80", {})
    assert report.conversions
    assert {Path(one.location.rpartition(":")[0]).name for one in report.conversions} == {Path(__file__).name}
