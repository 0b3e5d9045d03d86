"""The names of the ways in which conversions are lowered."""

from __future__ import annotations

LINEAR = "linear"
"""By the maps of both layouts: what this package is for."""

LEGACY = "legacy"
"""As Triton did before linear layouts: a baseline to measure against (`lowering/legacy.py`)."""

STRATEGIES = (LINEAR, LEGACY)
