"""The benches of a matmul in many tile sizes, and of one whose operands lie every way."""

from __future__ import annotations

from bench import operands, tiles


def test_the_best_is_the_best_of_each_side_and_losers_are_in_the_table() -> None:
    def row(stock: float, ours: float, warps: int) -> dict[str, object]:
        return {
            "size": [4096, 4096, 1024],
            "block": [64, 64, 64],
            "warps": warps,
            "stages": 3,
            "microseconds": stock,
            "ratio": {mode: [ours, ours, ours] for mode in tiles.MODES},
            "registers": {"stock": 136, "ours": 128},
            "identical": warps == 4,
        }

    facts = {"device": "X", "triton": "3.6.0", "triton_linear": "0", "date": "today"}
    text = tiles.markdown({**facts, "cases": [row(100.0, 0.9, 4), row(120.0, 2.0, 8)]})
    assert "best of stock 100.0 µs (64x64x64, 4 warps, 3 stages), best of ours 60.0 µs" in text
    assert "8 warps, 3 stages): 1.667" in text
    assert "| ours | 2 | 1.342 | 0.900 | 2.000 | 1 | 1 |" in text
    assert text.count("DIFFER") == 1


def test_strides_are_what_the_names_say() -> None:
    for name, described, kernel in operands.cases():
        numbers = kernel.numbers
        assert (numbers["stride_am"] == 1) == described["first across"], name
        assert (numbers["stride_bn"] == 1) == described["second across"], name
        assert {numbers["stride_am"], numbers["stride_ak"]} == {1, operands.SIZE}
        assert {numbers["stride_bk"], numbers["stride_bn"]} == {1, operands.SIZE}
