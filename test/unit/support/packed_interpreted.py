"""Runs what unpacks packed weights in Triton's interpreter, on the CPU, beside NumPy; prints JSON.

    TRITON_INTERPRET=1 python test/unit/support/packed_interpreted.py

Each is whether all of a tile of random weights are right: "int4" as f16, "mxfp4" as bits, since the interpreter
has no bf16.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

import numpy as np
import triton
import triton.language as tl
from host_tensors import HostTensor

from bench.reported.kernels_packed import halves_of_words, tiny_of_words
from bench.reported.packed import BLOCK_K, BLOCK_N, PACKING


@triton.jit
def unpacked(w_ptr, out_ptr, INTEGERS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A tile, in rows."""
    words = tl.load(w_ptr + tl.arange(0, ROWS * COLUMNS // 8))
    tile = halves_of_words(words) if INTEGERS else tiny_of_words(words)
    tl.store(out_ptr + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :], tile)


def ran(weights: Any, kind: type, integers: bool) -> Any:
    """A tile of packed weights, unpacked."""
    out = np.zeros((BLOCK_N, BLOCK_K), kind)
    words = PACKING.pack_nibbles(weights).ravel().view(np.uint32)
    unpacked[(1,)](HostTensor(words), HostTensor(out), integers, BLOCK_N, BLOCK_K)
    return out


def main() -> None:
    """Run and print."""
    weights = np.random.default_rng(0).integers(0, 256, (BLOCK_N, BLOCK_K // 2), np.uint8)
    nibbles = np.stack((weights & 15, weights >> 4), -1).reshape(BLOCK_N, BLOCK_K).astype(np.uint16)
    bits = (nibbles & 8) << 12 | (nibbles & 7) << 6
    integers = (nibbles ^ 8).astype(np.float16) - 8
    found = {
        "int4": np.array_equal(ran(weights, np.float16, True), integers),
        "mxfp4": np.array_equal(ran(weights, np.uint16, False), bits),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
