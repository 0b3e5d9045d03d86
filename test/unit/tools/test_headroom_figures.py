"""The figures of kernels, put together from records that are made up."""

from __future__ import annotations

import pytest
from headroom_support import made_up

from triton_linear.tools.measuring import headroom


def test_figures_are_put_together() -> None:
    a, c, b = headroom.kernels_of(made_up())
    assert (a.name, b.name, c.name) == ("matmul", "softmax", "add")
    assert (a.launches, a.microseconds, a.total) == (100, 10.0, 1000.0)
    assert (a.speedup, a.headroom, a.share) == (1.25, 2.0, pytest.approx(0.4))
    assert [(one.ours, one.left_out) for one in a.conversions] == [("cta-shared", True), ("triton", False)]
    assert b.problems == {"free": "faulted"}
    assert (c.speedup, c.headroom) == (1.0, 1.0)


def test_what_is_noise_has_no_share() -> None:
    kernel = headroom.TimedKernel("k", "k", (1, 1, 1), 1, 1, 10.0, speedup=1.1, headroom=1.001)
    assert kernel.share is None
