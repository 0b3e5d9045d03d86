"""The variants of a kernel from which contests and `triton-linear tune` choose by measuring.

A variant is a change of the options in force. Variants differ in what no model decides right for every kernel:
whether the plugin compiles it, which of its passes run, for how many warps it is priced, when loads begin, and
how many registers ptxas gives a thread.
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
"""The variants that every decision compares: stock Triton, and what is compiled without a decision."""
CONVERTING: Final = "converting"
CONTESTED: Final = (OURS, CONVERTING)
"""The variants that take part in contests beside stock Triton, in this order."""


@dataclass(frozen=True)
class Variant:
    """A variant: its name, what it is, and its changes of the options in force; None for stock Triton."""

    name: str
    what: str
    changes: Mapping[str, Any] | None = field(default_factory=dict)

    def of(self, options: Options) -> Options | None:
        """The options of this variant if `options` are in force; None: compile with stock Triton."""
        return None if self.changes is None else replace(options, **self.changes)


VARIANTS: Final = {
    each.name: each
    for each in (
        Variant(STOCK, "as stock Triton compiles it", None),
        Variant(OURS, "all that the plugin does"),
        Variant("exact", "what gives stock Triton's bits, as in contests", {"exact": True}),
        Variant(
            "lower",
            "Triton's layouts and reductions, our code for conversions",
            {"assign": False, "reductions": False},
        ),
        Variant(
            CONVERTING,
            "layouts that take more conversions: each is priced by its own clocks alone",
            {"thresholds": "new_conversion=1,new_after_local=1,new_beside_dots=1,margin=0"},
        ),
        Variant("layouts", "our layouts, Triton's code for conversions", {"lower": False}),
        Variant(
            "latency", "plans and layouts priced for the warps of one CTA", {"thresholds": "likely_warps=0"}
        ),
        Variant(
            "ahead", "loads of loops an iteration ahead, however few warps fit", {"thresholds": "warps_ahead=0"}
        ),
        Variant("unbounded", "registers as ptxas gives them", {"occupancy": False}),
        Variant(
            "bounded",
            "registers bounded for one more CTA, however few that are",
            {"register_thresholds": "more_ctas=1,registers_near=8"},
        ),
    )
}
"""The variants by name. Of equally fast ones, the first is chosen."""


def variant(name: str) -> Variant:
    """The variant called `name`. Raises ValueError if there is none.

    >>> variant("unbounded").changes
    {'occupancy': False}
    """
    try:
        return VARIANTS[name]
    except KeyError:
        raise ValueError(f"no variant '{name}'; there are {', '.join(VARIANTS)}") from None
