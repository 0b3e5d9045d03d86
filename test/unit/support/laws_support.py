"""What the laws of the algebra are stated with."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from strategies import bits_of

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LinearLayout

laws = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Names of dimensions.
A = ("a", "b", "c")
B = ("p", "q", "r")
C = ("x", "y", "z")


def identity(sizes: tuple[tuple[str, int], ...]) -> LinearLayout:
    """Return the identity on these dimensions."""
    in_bits = bits_of(sizes)
    return LinearLayout.from_matrix(f2.identity(in_bits), sizes, sizes)
