"""Variants of one kernel that are compiled together have the code that each has by itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import triton
from plugin_processes import run
from plugin_support import CUDA, HIP, compile_kernel, double, row_sums
from triton import knobs
from triton.backends import backends

from triton_linear.examples import matmul
from triton_linear.tools.measuring.child import compiled
from triton_linear.tools.measuring.compiling import Variants, code_digest
from triton_linear.tools.measuring.shared import SharedStages, shared_stages
from triton_linear.variants import OURS, STOCK, VARIANTS

NAMES = [name for name in VARIANTS if name != STOCK]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_HOME", str(tmp_path))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each stage of the NVIDIA backend ran."""
    counts: Counter[str] = Counter()
    for name in ("make_ttgir", "make_llir", "make_ptx", "make_cubin"):
        stage = vars(backends["nvidia"].compiler)[name]
        call = stage.__func__ if isinstance(stage, staticmethod) else stage

        def counted(*arguments: Any, name: str = name, call: Any = call) -> Any:
            counts[name] += 1
            return call(*arguments)

        made = staticmethod(counted) if isinstance(stage, staticmethod) else counted
        monkeypatch.setattr(backends["nvidia"].compiler, name, made)
    return counts


def spec_kernel() -> Any:
    (spec,) = matmul.compile_specs(CUDA)
    return triton.compile(spec.source(), target=CUDA, options=dict(spec.options))


@pytest.mark.parametrize(
    ("make", "names"),
    [(lambda: compile_kernel(row_sums), NAMES), (spec_kernel, NAMES[::3])],
    ids=["row_sums", "matmul"],
)
def test_the_code_is_that_of_each_alone(make: Any, names: list[str]) -> None:
    kernel = make()
    together = Variants(kernel)
    digests = {name: together.make(name).digest for name in names}
    assert digests == {name: code_digest(compiled(kernel, f"variant:{name}")[0]) for name in names}
    assert len(set(digests.values())) > 1


def test_metadata_is_that_of_each_alone() -> None:
    kernel = compile_kernel(row_sums)
    known = SharedStages()
    for name in NAMES:
        with shared_stages(known):
            together = compiled(kernel, f"variant:{name}")[0].metadata
        assert together == compiled(kernel, f"variant:{name}")[0].metadata


def test_what_is_the_same_is_made_once(ran: Counter[str]) -> None:
    kernel = compile_kernel(row_sums)
    ran.clear()
    variants = Variants(kernel)
    codes = {variants.make(name).digest for name in NAMES}
    assert ran["make_ttgir"] == 1
    assert ran["make_llir"] < len(NAMES) and ran["make_cubin"] < len(NAMES)
    assert ran["make_cubin"] >= len(codes)


def test_where_nothing_is_to_do_one_variant_says_so_for_all(ran: Counter[str]) -> None:
    kernel = compile_kernel(double)
    ran.clear()
    variants = Variants(kernel)
    assert {variants.make(name) for name in NAMES} == {variants.make(OURS)}
    assert ran["make_cubin"] == 1


def test_another_gpu_is_another_input() -> None:
    known = SharedStages()
    with knobs.compilation.scope(), shared_stages(known):
        knobs.compilation.always_compile = True
        assert "cubin" in compile_kernel(row_sums, CUDA).asm
        assert "hsaco" in compile_kernel(row_sums, HIP).asm


def test_stages_are_themselves_again() -> None:
    before = {name: dict(vars(backend.compiler)) for name, backend in backends.items()}
    with shared_stages(SharedStages()):
        assert vars(backends["nvidia"].compiler)["make_cubin"] is not before["nvidia"]["make_cubin"]
    assert {name: dict(vars(backend.compiler)) for name, backend in backends.items()} == before


IMPORTING = """
import sys
import plugin_support
import triton_linear
from triton_linear.tools.measuring import compiling
triton_linear.install(strict=True)
compiling.import_all()
before = set(sys.modules)
plugin_support.compile_kernel(plugin_support.row_sums)
print(sorted(name for name in sys.modules.keys() - before if name.startswith("triton_linear")))
"""


def test_a_compile_imports_nothing_that_was_not_imported_ahead() -> None:
    ended = run(IMPORTING, None)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "[]\n"
