"""What is computed from ranges and scalars alone: computed again where that takes less, converted elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from aligned_sources import aligned
from assign_support import MODULES, path_of, upstream
from module_equivalence import ran, stays_the_same
from module_equivalence import upstream as read
from triton.backends.compiler import GPUTarget

from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.lowering.target.targets import InstructionCosts
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.framework.run import run_passes
from triton_linear.tools.support.backend import ttgir_of


@triton.jit
def random_rows(x, y, out, mask, seed, M: tl.constexpr, N: tl.constexpr):
    """Dropout of a transposed sum, whose mask is stored beside it as bytes."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    keep = tl.rand(seed, m * N + n) > 0.1
    total = tl.load(x + m * N + n).to(tl.float32) + tl.load(y + n * M + m).to(tl.float32)
    tl.store(out + n * M + m, tl.where(keep, total, 0.0).to(tl.float16))
    tl.store(mask + m * N + n, keep.to(tl.int8))


@triton.jit
def normal_rows(x, y, out, mask, seed, M: tl.constexpr, N: tl.constexpr):
    """The same with numbers of a normal distribution, which take a logarithm and a cosine as well."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    noise = tl.randn(seed, m * N + n)
    total = tl.load(x + m * N + n).to(tl.float32) + tl.load(y + n * M + m).to(tl.float32)
    tl.store(out + n * M + m, (total + noise).to(tl.float16))
    tl.store(mask + m * N + n, (noise > 0.5).to(tl.int8))


@triton.jit
def hashed_rows(x, y, out, mask, seed, M: tl.constexpr, N: tl.constexpr):
    """A mask of places by a hash of multiplications and remainders."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    at = m * N + n + seed
    for prime in tl.static_range(3, 23, 4):
        at = (at * 7919 + prime) % (seed + prime)
    total = tl.load(x + m * N + n).to(tl.float32) + tl.load(y + n * M + m).to(tl.float32)
    tl.store(out + n * M + m, tl.where(at > 2, total, 0.0).to(tl.float16))
    tl.store(mask + m * N + n, (at > 2).to(tl.int8))


SIGNATURE = {"x": "*fp16", "y": "*fp16", "out": "*fp16", "mask": "*i8", "seed": "i32"}
KERNELS: dict[str, tuple[Any, str]] = {
    "random numbers": (random_rows, "tt.mulhiui"),
    "normal numbers": (normal_rows, "math.log"),
    "hashes": (hashed_rows, "arith.remsi"),
}


def compiled(name: str) -> str:
    source = aligned(KERNELS[name][0], SIGNATURE, {"M": 64, "N": 64}, integers=False)
    return str(ttgir_of(source, GPUTarget("cuda", 90, 32), {}))


def assigned(root: Module) -> Module:
    outcome = run_passes(root, [AssignLayouts("cuda:90")], verify=True)
    assert outcome.succeeded, outcome.diagnostics
    return root


def count(root: Module, name: str) -> int:
    return sum(op.name == name for op in operations(root.operation))


def test_random_numbers_are_made_once_for_a_mask_and_what_it_masks() -> None:
    path = path_of("dropout_layer_norm")
    before = count(upstream(path), "tt.mulhiui")
    assert before == count(assigned(upstream(path)), "tt.mulhiui") == 18


@pytest.mark.parametrize("name", KERNELS)
def test_no_dear_chain_is_computed_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be if such values were always recomputed where they are used."""
    text, operation = compiled(name), KERNELS[name][1]
    given = count(read(text), operation)
    assert 0 < given == count(assigned(read(text)), operation)
    if name == "random numbers":  # stock Triton itself computes the hashes twice
        monkeypatch.setattr(InstructionCosts, "word", 1e9)
        assert given < count(assigned(read(text)), operation)


@pytest.mark.parametrize("path", MODULES[::6], ids=[path.stem for path in MODULES[::6]])
@pytest.mark.parametrize("least", [0.0, 1e9])
def test_modules_compute_the_same_whatever_is_recomputed(
    path: Path, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 0 every such value has a group and is converted or recomputed; with 1e9 all are recomputed."""
    monkeypatch.setattr(InstructionCosts, "word", least)
    text = path.read_text()
    stays_the_same(text, [AssignLayouts()], ran(read(text)))


def test_a_value_is_recomputed_where_a_conversion_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pointers of the two ways in which bytes are accessed are sums of coordinates."""
    monkeypatch.setattr(InstructionCosts, "word", 0.0)
    outcome = run_passes(upstream(path_of("quantise_transposed")), [AssignLayouts()], verify=True)
    assert outcome.succeeded
    again = any("ptr<" in str(each) and "again instead" in str(each) for each in outcome.diagnostics)
    assert again
