"""Clocks of one warp instruction: busy, alone, chain (None: has none). See `lowering/tiles.py`.

NVIDIA H200, 2026-11-21; written by `python -m bench.calibrate --write`.
"""

from __future__ import annotations

H200: dict[str, tuple[float, float, float | None]] = {
    "shfl.bfly": (1.0, 4.31, 24.0),
    "shfl.idx": (1.0, 4.69, 26.0),
    "selp": (0.51, 2.17, None),
    "prmt": (0.51, 2.17, 4.13),
    "movmatrix.trans": (1.0, 4.31, 24.0),
    "shfl.bfly + prmt": (1.0, 5.55, 24.14),
    "shfl.bfly + ld.shared.b32": (2.05, 8.25, 32.59),
    "ld.shared.u8": (1.0, 5.7, 28.09),
    "st.shared.u8": (1.0, 4.31, None),
    "ld.shared.u16": (1.0, 5.7, 28.09),
    "st.shared.u16": (1.0, 4.31, None),
    "ld.shared.b32": (1.0, 4.09, 23.01),
    "ld.shared.b32 broadcast": (1.0, 4.09, 23.01),
    "st.shared.b32": (1.0, 4.31, None),
    "ld.shared.v2.b32": (2.0, 6.11, 31.09),
    "ld.shared.v2.b32 broadcast": (1.01, 5.74, 28.09),
    "st.shared.v2.b32": (2.0, 6.3, None),
    "ld.shared.v4.b32": (4.0, 10.16, 41.09),
    "ld.shared.v4.b32 broadcast": (2.01, 6.89, 35.09),
    "st.shared.v4.b32": (4.0, 10.3, None),
    "ldmatrix.x1": (1.0, 5.47, 28.09),
    "stmatrix.x1": (1.0, 4.33, None),
    "ldmatrix.x1.trans": (1.0, 5.47, 28.09),
    "stmatrix.x1.trans": (1.0, 4.33, None),
    "ldmatrix.x2": (2.0, 5.41, 30.09),
    "stmatrix.x2": (2.0, 6.3, None),
    "ldmatrix.x2.trans": (2.0, 5.41, 30.09),
    "stmatrix.x2.trans": (2.0, 6.3, None),
    "ldmatrix.x4": (4.0, 8.53, 34.09),
    "stmatrix.x4": (4.0, 10.28, None),
    "ldmatrix.x4.trans": (4.0, 8.53, 34.09),
    "stmatrix.x4.trans": (4.0, 10.28, None),
    "st.shared.b32 + ld.shared.b32": (2.0, 8.31, 28.0),
    "st.shared.b32 + bar.warp.sync + ld.shared.b32": (2.0, 8.31, 28.0),
    "bar.sync, 1 warps": (2.98, 14.16, None),
    "bar.sync, 2 warps": (4.0, 16.16, None),
    "bar.sync, 4 warps": (8.0, 20.16, None),
    "bar.sync, 8 warps": (16.1, 28.16, None),
    "bar.sync, 16 warps": (44.16, 44.16, None),
}
