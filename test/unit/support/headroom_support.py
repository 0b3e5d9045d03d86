"""Records of the processes that measure headroom, with made-up figures."""

from __future__ import annotations

from typing import Any

MMA = (
    "tensor<64x32xf16, #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], "
    "instrShape = [16, 8]}>>"
)
BLOCKED = (
    "tensor<64x32xf16, #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], "
    "order = [1, 0]}>>"
)


def comparison(key: str, mode: str, ratio: float) -> list[dict[str, Any]]:
    """The records of one comparison."""
    times = {"stock": 10.0, mode: 10.0 / ratio}
    return [
        {"kernel": key, "begin": mode},
        {"kernel": key, "mode": mode, "ratio": ratio, "microseconds": times},
    ]


def made_up() -> list[dict[str, Any]]:
    """A kernel worth looking at, a faster one that faulted, and one without conversions."""
    places = [
        ["k.py:3", MMA, BLOCKED, "cta-shared", ""],
        ["k.py:9", BLOCKED, MMA, "triton", "it is an address"],
    ]
    free = [[*places[0][:3], "free", ""], [*places[1][:3], "triton", "it leads to an address [x]"]]
    names = (("a", "matmul", 2), ("b", "softmax", 1), ("c", "add", 0))
    return [
        *({"kernel": k, "name": n, "grid": [8, 2, 1], "warps": 4, "seen": seen} for k, n, seen in names),
        {"kernel": "a", "mode": "ours", "conversions": places},
        *comparison("a", "ours", 1.25),
        *comparison("b", "ours", 1.0),
        *comparison("c", "stock", 1.0),
        {"launches": {"a": 100, "b": 1, "c": 10, "d": 5}},
        {"kernel": "a", "mode": "free", "conversions": free},
        *comparison("a", "free", 2.0),
        {"kernel": "b", "begin": "free"},
        {"kernel": "b", "mode": "free", "problem": "faulted"},
        {"launches": {"a": 1}},
    ]
