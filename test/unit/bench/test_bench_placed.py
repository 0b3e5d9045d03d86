"""Kernels by where their code lies: what each place is compiled with, and the table."""

from __future__ import annotations

import pytest
import triton

from bench import placed
from triton_linear.examples import matmul
from triton_linear.examples.spec import gpu_target
from triton_linear.hook import pinned
from triton_linear.ptxas.placed import NOTHING


def test_a_place_is_so_many_instructions_further(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    gpu = gpu_target("cuda:90")
    spec = matmul.compile_specs(gpu)[0]
    assert placed.options_at("stock", 0) is None
    found = {}
    for mode in ("stock", "ours"):
        for place in (0, 7):
            with pinned(placed.options_at(mode, place)):
                kernel = triton.compile(spec.source(), target=gpu, options=dict(spec.options))
            found[mode, place] = [line.strip() for line in kernel.asm["ptx"].splitlines()]
    for mode in ("stock", "ours"):
        assert found[mode, 7].count(NOTHING) == found[mode, 0].count(NOTHING) + 7
    bare = [[line for line in found["stock", place] if line != NOTHING] for place in (0, 7)]
    assert bare[0] == bare[1]
    assert found["ours", 0] != found["stock", 0]


def test_the_table_has_a_row_for_each_mode() -> None:
    times = {f"{mode}{place or ''}": {"microseconds": 2.0} for mode in ("stock", "ours") for place in range(8)}
    times |= {f"ours{place or ''}": {"microseconds": 1.0, "ratio": [1.9, 2.0, 2.1]} for place in range(8)}
    times["stock5"] = {"microseconds": 2.0, "ratio": [0.4, 0.5, 0.6]}
    record = {"name": "k", "times": times}
    assert placed.ratios(record, "stock") == [1, 1, 1, 1, 1, 0.5, 1, 1]
    text = placed.markdown({"device": "G", "triton": "3", "date": "d", "rows": [record]})
    assert "| k, ours | 1.0 | 2.000 |" in text and "| k, stock | 2.0 | 1.000 |" in text
    assert "0.917 |" in text
