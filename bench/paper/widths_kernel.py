"""The kernel of the table of widths. Tritons of old compile it too, so it imports nothing of ours."""

import triton
import triton.language as tl


@triton.jit
def copied(x_ptr, y_ptr, K: tl.constexpr, ROWS: tl.constexpr):
    """A tensor [ROWS, K] that lies row after row."""
    at = tl.arange(0, ROWS)[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(y_ptr + at, tl.load(x_ptr + at))
