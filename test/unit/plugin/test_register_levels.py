"""Registers of variants: levels of ptxas's register usage, and the keys of what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plugin_support import compile_kernel, row_sums
from triton import knobs
from triton.backends.nvidia.compiler import CUDABackend

from triton_linear.hook import pinned
from triton_linear.kept import comparisons, registers
from triton_linear.report import FallbackWarning
from triton_linear.setting import Options
from triton_linear.variants import variant


@pytest.fixture(autouse=True)
def places_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is kept from before."""
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        yield


def test_a_level_of_register_usage_with_which_ptxas_fails_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make = CUDABackend.make_cubin

    def at_no_level(self: Any, src: object, metadata: object, options: Any, *rest: object) -> Any:
        if "--register-usage-level" in (options.ptx_options or ""):
            print("a repro command")
            raise RuntimeError("ptxas failed")
        return make(self, src, metadata, options, *rest)

    monkeypatch.setattr(CUDABackend, "make_cubin", at_no_level)
    stock = compile_kernel(row_sums)
    changed = variant("stock+lavish").of(Options())
    with pinned(changed), pytest.warns(FallbackWarning, match="assembled by stock Triton.*ptxas failed"):
        decided = compile_kernel(row_sums)
    assert decided.asm["cubin"] == stock.asm["cubin"]
    assert "repro" not in capfd.readouterr().out


def test_results_on_disk_are_those_of_one_level_and_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((comparisons, "KeptComparisons"), (registers, "KeptDirectives")):
        kept, keys = getattr(module, name), list[str]()

        def seen(how: Any, kept: Any = kept, keys: list[str] = keys) -> Any:
            keys.append(how())
            return kept(how)

        monkeypatch.setattr(module, name, seen)
        for changes in ({}, {"register_level": 10}, {"register_thresholds": "serial_loads=0"}):
            with pinned(Options(**changes)):  # type: ignore[arg-type]
                compile_kernel(row_sums)
        assert len(set(keys)) == len(keys) == 3
