"""Reductions whose axis lies across warps, taken apart: see `split`, `ways`, `rewrite` and `proof`."""
