"""Kernels of one warp compile on targets of each kind: encodings have no bases of warps then, or empty ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_processes import python

TARGETS = {
    "cuda": ["cuda:80", "cuda:90", "cuda:100"],
    "hip": ["hip:gfx90a", "hip:gfx950"],
}
SCRIPT = """
import sys
from dataclasses import replace
import triton
import triton_linear
from triton_linear.examples import attention
from triton_linear.examples.spec import gpu_target

for name in sys.argv[1:]:
    target = gpu_target(name)
    (spec,) = attention.compile_specs(target)
    small = {**spec.constants, "BLOCK_M": 32, "BLOCK_N": 32, "HEAD_DIM": 32}
    spec = replace(spec, constants=small, options={"num_warps": 1, "num_stages": 1})
    with triton_linear.enabled(strict=True) as reports:
        triton.compile(spec.source(), target=target, options=spec.options)
    print(name, reports[-1].outcome.name, flush=True)
"""


@pytest.mark.parametrize("vendor", TARGETS)
def test_attention_of_one_warp(vendor: str, tmp_path: Path) -> None:
    names = TARGETS[vendor]
    run = python("-c", SCRIPT, *names, TRITON_CACHE_DIR=str(tmp_path))
    done = [line.split()[0] for line in run.stdout.splitlines()]
    assert (run.returncode, done) == (0, names), run.stderr[-2000:]
