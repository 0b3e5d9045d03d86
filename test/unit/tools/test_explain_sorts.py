"""`triton-linear explain` on sorts, and on conversions that are alike."""

from __future__ import annotations

import io
import json

import jsonschema
import pytest
import triton
import triton.language as tl
from explain_support import SCHEMA
from rich.console import Console
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from triton_linear.tools.explain.collect import explained
from triton_linear.tools.explain.records import ModuleReport
from triton_linear.tools.explain.render import module
from triton_linear.tools.support.frontend import ttgir_of

N = 32


@triton.jit
def kernel(x, out, N: tl.constexpr, KIND: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tile = tl.trans(tl.load(x + i * N + j))
    if KIND == "sort":
        tile = tl.sort(tile, 1)  # the sort
    elif KIND == "topk":
        tile += tl.max(tl.topk(tile, 4), 1)[:, None]  # the sort
    elif KIND == "twice":
        tile = tl.trans(tl.sort(tl.sort(tile, 1), 1, True))  # the sort
        tile += tl.xor_sum(tile.to(tl.int32, bitcast=True), 1)[:, None]
    else:
        tile += tl.xor_sum(tile.to(tl.int32, bitcast=True), 1)[:, None] + tl.argmax(tile, 1)[:, None]
    tl.store(out + i * N + j, tile)


def text_of(kind: str) -> str:
    signature = {"x": "*fp32", "out": "*fp32", "N": "constexpr", "KIND": "constexpr"}
    source = ASTSource(kernel, signature, constexprs={"N": N, "KIND": kind})
    return str(ttgir_of(source, GPUTarget("cuda", 90, 32), {}))


def report_of(kind: str) -> ModuleReport:
    return explained(text_of(kind), "kernel.ttgir", None)


def shown(report: ModuleReport) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(module(report))
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "sorts", "others"),
    [("sort", ["tl.sort"], 0), ("topk", ["tl.topk"], 1), ("twice", ["tl.sort"] * 2, 1), ("none", [], 2)],
)
def test_a_sort_is_said_once_and_is_no_reduction(kind: str, sorts: list[str], others: int) -> None:
    report = report_of(kind)
    found = [one for one in report.reductions if one.steps]
    assert [one.operation for one in found] == sorts
    assert all(one.place.code.endswith("# the sort") and one.steps > 1 for one in found)
    rest = [one for one in report.reductions if not one.steps]
    assert [one.operation for one in rest] == ["tt.reduce"] * others
    steps = sum(one.steps for one in found)
    assert steps + others == text_of(kind).count('= "tt.reduce"(')
    jsonschema.validate({"modules": [json.loads(json.dumps(report.as_json()))]}, SCHEMA)


def test_without_the_library_they_are_reductions(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton_linear.tools.explain import anchors as library

    library._functions.cache_clear()
    monkeypatch.setattr(library.Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(OSError("gone")))
    try:
        assert {one.operation for one in report_of("sort").reductions} == {"tt.reduce"}
    finally:
        library._functions.cache_clear()


def test_nothing_is_shown_twice() -> None:
    text = shown(report_of("topk"))
    (line,) = (line for line in text.splitlines() if "conversions that move nothing" in line)
    assert int(line.split(":")[1].split()[0]) > 3
    assert text.count("topk      ") == 1
    assert "left by a step of this sort (tl.topk at" in text
