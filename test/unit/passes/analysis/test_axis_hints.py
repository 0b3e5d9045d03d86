"""Conversions on the way to addresses and masks: what they promise is so, and no access is narrower."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import pytest
import triton
from assign_support import MODULES, axis_of, seen, upstream
from triton.backends.compiler import GPUTarget

import triton_linear
from triton_linear.passes.analysis.axis import pointee_bytes
from triton_linear.passes.analysis.axis_hints import AxisHints, hints_of

GPUS = {
    "cuda:90": GPUTarget("cuda", 90, 32),
    "cuda:100": GPUTarget("cuda", 100, 32),
    "hip:gfx942": GPUTarget("hip", "gfx942", 64),
}
CONSTANTS = (1, 2, 3, 4, 8, 16, 48, 64, 2048)
OPERATIONS = (
    "addi",
    "addi",
    "muli",
    "divsi",
    "remsi",
    "divui",
    "remui",
    "andi",
    "ori",
    "subi",
    "shli",
    "shrsi",
    "maxsi",
    "minsi",
)
HEAD = """
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [LANES], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [16], threadsPerWarp = [LANES], warpsPerCTA = [4], order = [0]}>
!t = tensor<2048xi32, #a>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, MODULE} {
tt.func public @kernel(
  %p: !tt.ptr<i8> {tt.divisibility = 16 : i32}, %q: !tt.ptr<i8> {tt.divisibility = 16 : i32},
  %n: i32 {tt.divisibility = 16 : i32}, %m: i32
) {
  %range = tt.make_range {end = 2048 : i32, start = 0 : i32} : !t
  %sp = tt.splat %p : !tt.ptr<i8> -> tensor<2048x!tt.ptr<i8>, #a>
  %sq = tt.splat %q : !tt.ptr<i8> -> tensor<2048x!tt.ptr<i8>, #b>
"""
TAIL = """
  %pa = tt.addptr %sp, OFFSETS : tensor<2048x!tt.ptr<i8>, #a>, !t
  %pp = ttg.convert_layout %pa : tensor<2048x!tt.ptr<i8>, #a> -> tensor<2048x!tt.ptr<i8>, #b>
  %moved = ttg.convert_layout PLACES : !t -> tensor<2048xi32, #b>
  %mask = ttg.convert_layout FLAGS : tensor<2048xi1, #a> -> tensor<2048xi1, #b>
  %x = tt.load %pp, %mask : tensor<2048x!tt.ptr<i8>, #b>
  %pq = tt.addptr %sq, %moved : tensor<2048x!tt.ptr<i8>, #b>, tensor<2048xi32, #b>
  tt.store %pq, %x : tensor<2048x!tt.ptr<i8>, #b>
  tt.return
}
}
"""


def module(seed: int, gpu: str) -> str:
    """Pointers, offsets and a mask, each computed at random and converted on its way to an access."""
    rng = random.Random(seed)
    lines = [f"  %c{c} = arith.constant dense<{c}> : !t" for c in CONSTANTS]
    lines += [f"  %s{name} = tt.splat %{name} : i32 -> !t" for name in "nm"]
    values, constants = ["%range", "%range", "%sn", "%sm"], [f"%c{c}" for c in CONSTANTS]
    for number in range(rng.randrange(1, 6)):
        left, right = rng.choice(values), rng.choice(constants + values)
        lines.append(f"  %v{number} = arith.{rng.choice(OPERATIONS)} {left}, {right} : !t")
        values.append(f"%v{number}")
    predicate = rng.choice(["slt", "sge", "sle", "sgt", "eq"])
    lines.append(f"  %flags = arith.cmpi {predicate}, {rng.choice(values)}, {rng.choice(constants)} : !t")
    tail = TAIL.replace("OFFSETS", values[-1]).replace("PLACES", rng.choice(values)).replace("FLAGS", "%flags")
    lanes = str(GPUS[gpu].warp_size)
    module = f'"ttg.threads-per-warp" = {lanes} : i32, ttg.target = "{gpu}"'
    return HEAD.replace("MODULE", module).replace("LANES", lanes) + "\n".join(lines) + tail


def accesses(path: Path, gpu: str) -> dict[str, int]:
    """How many loads and stores of global memory the kernel has: the more, the narrower."""
    kernel = triton.compile(str(path), target=GPUS[gpu])
    text = kernel.asm["ptx"] if gpu.startswith("cuda") else kernel.asm["amdgcn"]
    found = re.findall(r"\b(ld|st)\.global|^\s*(?:global|flat|buffer)_(ld|st|load|store)", text, re.MULTILINE)
    kinds = [(ptx or gcn)[:1] for ptx, gcn in found]
    return {"loads": kinds.count("l"), "stores": kinds.count("s")}


def compiled(
    seed: int, gpu: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, int], dict[str, int], triton_linear.Report]:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder))
    path = folder / f"kernel{seed}.ttgir"
    path.write_text(module(seed, gpu))
    stock = accesses(path, gpu)
    with triton_linear.enabled(strict=True, assign=False) as reports:
        ours = accesses(path, gpu)
    return stock, ours, reports[-1]


@pytest.mark.parametrize(("seed", "gpu"), list(zip(range(6), itertools.cycle(GPUS), strict=False)))
def test_no_access_is_narrower(seed: int, gpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stock, ours, report = compiled(seed, gpu, tmp_path, monkeypatch)
    assert all(0 < ours[kind] <= stock[kind] for kind in stock), (stock, ours)
    assert all("leads to an address" in conversion.detail for conversion in report.left)


def test_most_are_ours_and_depend_on_what_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would not see a promise that is missing."""
    monkeypatch.setattr(AxisHints, "put", lambda *_: None)
    found = [compiled(seed, "cuda:90", tmp_path, monkeypatch) for seed in range(6)]
    assert any(ours[kind] > stock[kind] for stock, ours, _ in found for kind in stock)
    assert sum(report.ours for *_, report in found) > sum(len(report.left) for *_, report in found)


@pytest.mark.parametrize("path", MODULES[::3], ids=lambda path: path.stem)
def test_what_is_promised_is_so(path: Path) -> None:
    """Of all integers and pointers of real kernels, with the numbers that they take."""
    root = upstream(path)
    axis = axis_of(root)
    for value, all_numbers in seen(root, 1).items():
        shape = tuple(getattr(value.type, "shape", ()))
        if not shape:
            continue
        hints = hints_of(value, axis)
        kind = str(value.type.element_type)
        if isinstance(hints, str) or kind[0] not in "i!":
            continue
        size = pointee_bytes(value.type) if kind[0] == "!" else 1
        for numbers in all_numbers:
            for dim, whole in enumerate(shape):
                for length, step in ((hints.contiguity[dim], size), (hints.constancy[dim], 0)):
                    rows = numbers.swapaxes(dim, -1).reshape(-1, whole // length, length).astype(int)
                    assert (rows[..., 1:] - rows[..., :-1] == step).all(), (str(value), dim, length, step)
                firsts = numbers.swapaxes(dim, -1).reshape(-1, hints.contiguity[dim])[:, 0].astype(int)
                assert not (firsts % hints.divisibility[dim]).any(), (str(value), dim)
