"""The bench of matrix products whose operands lie every way: strides, and losers."""

from __future__ import annotations

from bench import operands


def test_strides_are_what_the_names_say() -> None:
    for name, described, kernel in operands.cases():
        numbers = kernel.numbers
        assert (numbers["stride_am"] == 1) == described["first across"], name
        assert (numbers["stride_bn"] == 1) == described["second across"], name
        assert {numbers["stride_am"], numbers["stride_ak"]} == {1, operands.SIZE}
        assert {numbers["stride_bk"], numbers["stride_bn"]} == {1, operands.SIZE}
