"""The ways in which a kernel can be compiled that measuring chooses from (`triton-linear tune`).

A variant is a change of the options that are in force. What differs is what no model decides for every kernel:
whether the plugin acts at all, which of its parts do, which of several assignments of layouts is taken, for how
many warps plans are priced, and how registers are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from triton_linear.dialect.records import dataclass
from triton_linear.setting import Options

STOCK: Final = "stock"
OURS: Final = "ours"
COMPARED: Final = (STOCK, OURS)
"""What every decision is between, beside other variants: what is compiled without one, and the risk of none."""

_BUSY_WARPS: Final = 16
"""Warps of an SM for which throughput counts: two CTAs of eight, or four of four."""
_NO_MARGIN: Final = (
    "saved_clocks",
    "margin",
    "margin_with_memory",
    "new_saves",
    "unmeasured_margin",
)


@dataclass(frozen=True)
class Variant:
    """One way: its name, what it is in a line, and the options that are other than those in force.

    `changes` is None for stock Triton.
    """

    name: str
    what: str
    changes: Mapping[str, Any] | None = field(default_factory=dict)

    def of(self, options: Options) -> Options | None:
        """The options to compile a kernel with where `options` are in force; None: by stock Triton."""
        return None if self.changes is None else replace(options, **self.changes)


VARIANTS: Final = {
    variant.name: variant
    for variant in (
        Variant(STOCK, "as stock Triton compiles it", None),
        Variant(OURS, "all that the plugin does"),
        Variant(
            "lower",
            "Triton's layouts and reductions, our code for conversions",
            {"assign": False, "reductions": False},
        ),
        Variant("layouts", "our layouts, Triton's code for conversions", {"lower": False}),
        Variant("whole", "reductions as Triton has them", {"reductions": False}),
        Variant("second", "the assignment of layouts that is next by modelled cost", {"rank": 1}),
        Variant("third", "the one after that", {"rank": 2}),
        Variant(
            "eager",
            "layouts that save anything by the model, without a margin",
            {"thresholds": ",".join(f"{name}=0" for name in _NO_MARGIN)},
        ),
        Variant(
            "latency", "plans and layouts priced for the warps of one CTA", {"thresholds": "likely_warps=0"}
        ),
        Variant(
            "throughput",
            f"plans and layouts priced for {_BUSY_WARPS} warps",
            {"thresholds": f"likely_warps={_BUSY_WARPS}"},
        ),
        Variant("unbounded", "registers as ptxas gives them", {"occupancy": False}),
        Variant(
            "roomy",
            "more registers for fewer CTAs, wherever a warp is sooner done with them",
            {"thresholds": "serial_loads=0"},
        ),
        Variant(
            "bounded",
            "registers bounded for one more CTA, however few that are",
            {"thresholds": "more_ctas=1,registers_near=8,bounded_clocks=2"},
        ),
    )
}
"""All of them by name; where two are equally fast, the first counts."""


def variant(name: str) -> Variant:
    """The variant called `name`.

    Raises ValueError for a name that there is not.
    """
    try:
        return VARIANTS[name]
    except KeyError:
        raise ValueError(f"no variant '{name}'; there are {', '.join(VARIANTS)}") from None
