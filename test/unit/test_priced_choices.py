"""Choices that measurements decided: each fails where the rule behind it is taken away."""

from __future__ import annotations

from assign_support import path_of
from triton_linear.dialect import bridge
from triton_linear.lowering.swizzle import Side, optimal_swizzle
from triton_linear.passes import driver
from triton_linear.passes.split_reductions import SplitReductions


def remarks(name: str) -> list[str]:
    module = bridge.text_to_upstream(path_of(name).read_text(), bridge.upstream_context())
    outcome = driver.run(module, [SplitReductions("cuda:90")])
    assert outcome.succeeded
    return [found.message for found in outcome.diagnostics]


def test_a_reduction_beside_a_scan_stays() -> None:
    """Both save 13 %; the other one is in a loop without a scan."""
    assert any("stays as it is: 510.1 clocks, and 443.9" in text for text in remarks("cumulative_columns"))
    assert any("taken apart" in text and "445.9 after" in text for text in remarks("layer_norm_backward"))


def test_banks_come_in_the_order_of_the_threads_bits() -> None:
    """Warps alone hold different elements; by themselves banks come as the algebra leaves them."""
    warps = (8, 4, 2)
    loads = Side((1,), tuple(reversed(warps)), 5)
    found = optimal_swizzle((), warps, Side((), (), 5), loads, 0, (*warps, 1))
    assert (found.low, found.bank) == ((1,), warps)
