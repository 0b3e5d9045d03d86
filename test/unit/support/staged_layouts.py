"""Layouts of accesses to shared memory that are staged."""

from __future__ import annotations

MMA = (
    "#ttg.dot_op<{opIdx = $, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, "
    "warpsPerCTA = [4, 1], instrShape = [16, 8]}>, kWidth = 4}>"
)
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 16, order = [1, 0]}>"
