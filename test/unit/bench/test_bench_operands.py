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


def test_losers_are_in_the_table() -> None:
    case = {"types": "f16", "first across": True, "second across": False, "block": [64, 64, 64]}
    slow = case | {"ratio": [0.9, 0.93, 0.95], "microseconds": 10.0, "identical": True}
    fast = case | {"ratio": [1.9, 2.0, 2.1], "microseconds": 20.0, "identical": False, "second across": True}
    facts = {"device": "X", "triton": "3.6.0", "triton_linear": "0", "date": "today", "cases": [slow, fast]}
    lines = operands.markdown(facts).splitlines()
    assert "1 above 1.02, 1 below 0.98; 1 with the same bits" in lines[2]
    assert lines[-2].endswith("| 2.000 (1.900 to 2.100) | DIFFER |")
    assert lines[-1].startswith(
        "| f16 | across | along | 64x64x64 | 10.0 | 0.930 (0.900 to 0.950) | identical |"
    )
