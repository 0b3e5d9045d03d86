"""What is known of the buffers of a module: how many bytes a CTA takes in any case, and where rows begin."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from pathlib import Path

import pytest
import triton
from triton.backends.compiler import GPUTarget

import triton_linear
from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.dialect.triton_versions import installed_release
from triton_linear.lowering.emit.scratch import NumberedModule
from triton_linear.lowering.target.targets import target

GPU = target("cuda:90")


@functools.cache
def parsed(text: str) -> Module:
    """A module, which lives on: operations do not keep theirs."""
    return bridge.text_to_upstream(text, bridge.upstream_context())


def numbered(text: str) -> NumberedModule:
    return NumberedModule(operations(parsed(text).operation))


HANDED = """
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func @f() {
    BUFFERS
    tt.return
  }
}
"""
HANDING = """
    ttg.warp_specialize(VALUES) attributes {requestedRegisters = array<i32: 24>}
    default { ttg.warp_yield }
    partition0(ARGUMENTS) num_warps(1) { ttg.warp_return } : (TYPES) -> ()
"""


def handing(*sizes: int) -> str:
    """Buffers of so many bytes, and a warp specialisation whose partition has them, the first one twice."""
    types = [f"!ttg.memdesc<{size}x1xi8, #s, #ttg.shared_memory, mutable>" for size in sizes]
    name = "_".join(map(str, sizes))
    made = "".join(f"    %b{name}_{n} = ttg.local_alloc : () -> {type_}\n" for n, type_ in enumerate(types))
    handed = [*range(len(sizes)), 0]
    text = HANDING.replace("VALUES", ", ".join(f"%b{name}_{n}" for n in handed))
    text = text.replace("ARGUMENTS", ", ".join(f"%a{k}: {types[n]}" for k, n in enumerate(handed)))
    return made + text.replace("TYPES", ", ".join(types[n] for n in handed))


def test_what_partitions_are_handed_bounds_a_cta_from_below() -> None:
    alone = "    %other = ttg.local_alloc : () -> !ttg.memdesc<4096x1xi8, #s, #ttg.shared_memory, mutable>\n"
    text = HANDED.replace("BUFFERS", alone + handing(512, 256) + handing(64, 128))
    whole = numbered(text)
    assert whole.bytes_across_regions(1) == 512 + 256
    assert whole.bytes_across_regions(2) == 0, "of a buffer, a CTA of a cluster may have a part"
    assert numbered(HANDED.replace("BUFFERS", alone)).bytes_across_regions(1) == 0
    assert whole.buffer_bytes() == 4096 + 512 + 256 + 64 + 128


CLUSTER = """
#a = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]SPLIT}>
#b = #ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [16, 2], warpsPerCTA = [1, 4], order = [0, 1]SPLIT}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]SPLIT}>
module attributes {"ttg.num-ctas" = CTAS : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%n: i32) {
    %ring = ttg.local_alloc : () -> RING
    ttg.warp_specialize(%ring, %n)
    default {
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %ones = arith.constant dense<1.0> : TILE, #a>
      %first = tt.elementwise_inline_asm "mov.b16 $0, $1;" {constraints = "=h,h", packed_element = 1 : i32,
               pure = false} %ones : TILE, #a> -> TILE, #a>
      %last = scf.for %i = %zero to %n step %one iter_args(%x = %first) -> (TILE, #a>) : i32 {
        %there = ttg.convert_layout %x : TILE, #a> -> TILE, #b>
        %sum = arith.addf %there, %there : TILE, #b>
        %back = ttg.convert_layout %sum : TILE, #b> -> TILE, #a>
        scf.yield %back : TILE, #a>
      }
      %used = tt.elementwise_inline_asm "mov.b16 $0, $1;" {constraints = "=h,h", packed_element = 1 : i32,
              pure = false} %last : TILE, #a> -> TILE, #a>
      ttg.warp_yield
    }
    partition0(%its_ring: RING, %m: i32) num_warps(4) {
      ttg.warp_return
    } : (RING, i32) -> ()
    tt.return
  }
}
"""


@pytest.mark.skipif(installed_release() < (3, 9), reason="Triton before 3.9 writes clusters otherwise")
@pytest.mark.parametrize("ctas", [1, 2])
def test_scratch_of_a_region_lowers_no_occupancy_where_a_ring_is_split_over_ctas(
    ctas: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    rows = 64 * ctas  # of the ring: 88 KiB in each CTA
    text = CLUSTER.replace("SPLIT", ", CGALayout = [[1, 0]]" if ctas > 1 else "").replace("CTAS", str(ctas))
    text = text.replace("RING", f"!ttg.memdesc<11x{rows}x64xf16, #s, #ttg.shared_memory, mutable>")
    path = tmp_path / "ring.ttgir"
    path.write_text(text.replace("TILE", f"tensor<{2 * rows}x64xf16"))
    options = {"num_warps": 4, "num_ctas": ctas}
    shared = []
    for mode in (nullcontext(), triton_linear.enabled(strict=True, assign=False)):
        with mode:
            kernel = triton.compile(str(path), target=GPUTarget("cuda", 90, 32), options=options)
        shared.append(kernel.metadata.shared + GPU.reserved_shared_bytes)
    whole = GPU.max_shared_bytes + GPU.reserved_shared_bytes
    assert [whole // each for each in shared] == [2, 2]


VIEWS = """
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#p = #ttg.padded_shared<[64:+4] {order = [0], shape = [64]}>
#l = #ttg.shared_linear<{offset = [[1], [2], [4], [8], [0], [16], [32]]}, alignment = 16>
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func @f(%i: i32) {
    VIEW
    tt.return
  }
}
"""
ROWS, PADDED = (f"!ttg.memdesc<{{}}, #{name}, #ttg.shared_memory, mutable>" for name in "sp")


def view(name: str, source: str, result: str, buffer: str = ROWS, alignment: str = "") -> str:
    whole, part = buffer.format(source), buffer.format(result)
    made = f"%a = ttg.local_alloc {alignment} : () -> {whole}"
    operands = {"index": "%a[%i]", "subslice": "%a[0]", "reinterpret": "%a"}[name]
    return f"{made}\n    %b = ttg.memdesc_{name} {operands} : {whole} -> {part}\n"


WHOLE = {
    ROWS.format("64xf16"): True,
    ROWS.format("1xi64"): True,
    PADDED.format("64xf16"): False,
    PADDED.format("64xf32"): True,
    ROWS.format("64xf16").replace("#s", "#l"): False,
}
"""Buffers that are accessed as a whole, and whether what they leave out are whole pieces of 16 bytes."""


@pytest.mark.parametrize(
    ("what", "found"),
    [
        (view("index", "3x64xf16", "64xf16"), True),
        (view("index", "3x4xf32", "4xf32"), True),
        (view("index", "3x2xf32", "2xf32"), False),
        (view("index", "2x1xi64", "1xi64"), False),
        (view("index", "3x64xf16", "64xf16", PADDED), False),
        (view("index", "3x64xf32", "64xf32", PADDED), False),  # nobody says where a row begins
        (view("index", "3x64xf16", "64xf16", alignment="{alignment = 128 : i32}"), True),
        (view("index", "3x64xf16", "64xf16", alignment="{alignment = 8 : i32}"), False),
        (view("subslice", "64xf16", "32xf16").replace("mutable>\n", "mutable, 64>\n"), False),
        (view("reinterpret", "64xf16", "32xf32"), False),
        *((f"%a = ttg.local_alloc : () -> {made}", wide) for made, wide in WHOLE.items()),
    ],
)
def test_only_rows_of_sixteen_bytes_have_a_byte_where_buffers_begin(what: str, found: bool) -> None:
    assert numbered(VIEWS.replace("VIEW", what)).has_no_view_between(16) is found
