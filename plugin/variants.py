"""The variants of a kernel from which `triton-linear tune` chooses by measuring.

A variant is a change of the options in force. Variants differ in what no model decides right for every kernel:
whether the plugin compiles the kernel, with which of its parts, with which assignment of layouts, for how many
warps plans are priced, and how ptxas allocates registers. Variants of the last kind combine with others:
`second+roomy`. Combined with `stock`, they change nothing but registers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Final

from triton_linear.dialect.records import dataclass
from triton_linear.setting import Options

STOCK: Final = "stock"
OURS: Final = "ours"
COMPARED: Final = (STOCK, OURS)
"""The variants that every decision compares: stock Triton, and what is compiled without a decision."""

_BUSY_WARPS: Final = 16
"""Warps of a busy multiprocessor: two CTAs of eight warps, or four of four."""
_NO_MARGIN: Final = (
    "saved_clocks",
    "margin",
    "margin_with_memory",
    "new_saves",
    "unmeasured_margin",
)


@dataclass(frozen=True)
class Variant:
    """A variant: its name, a description in one line, and its changes of the options in force.

    `changes` is None for stock Triton. registers: the variant changes only how ptxas allocates registers.
    """

    name: str
    what: str
    changes: Mapping[str, Any] | None = field(default_factory=dict)
    registers: bool = False

    def of(self, options: Options) -> Options | None:
        """The options of this variant if `options` are in force; None: compile with stock Triton."""
        return None if self.changes is None else replace(options, **self.changes)

    def combined(self, other: Variant) -> Variant:
        """This variant with the changes of `other`, which only concern registers, on top."""
        changes = dict(_ONLY_REGISTERS if self.changes is None else self.changes)
        for name, value in (other.changes or {}).items():
            both = name == "register_thresholds" and name in changes
            changes[name] = f"{changes[name]},{value}" if both else value
        return Variant(
            f"{self.name}{_AND}{other.name}",
            f"{self.what}; {other.what}",
            changes,
            self.registers and other.registers,
        )


_AND: Final = "+"
_ONLY_REGISTERS: Final = {"assign": False, "lower": False, "reductions": False, "everywhere": True}
"""The options with which a kernel stays stock Triton's, but for its registers."""


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
        Variant(
            "matrices",
            "matrix loads in place of loads of one or two words, whatever the elements are",
            {"thresholds": "matrix_load_bytes=8"},
        ),
        Variant("unbounded", "registers as ptxas gives them", {"occupancy": False}, registers=True),
        Variant(
            "roomy",
            "more registers for fewer CTAs, wherever a warp is sooner done with them",
            {"register_thresholds": "serial_loads=0"},
            registers=True,
        ),
        Variant(
            "bounded",
            "registers bounded for one more CTA, however few that are",
            {"register_thresholds": "more_ctas=1,registers_near=8,bounded_clocks=2"},
            registers=True,
        ),
        Variant("thrifty", "ptxas's lowest level of register usage", {"register_level": 0}, registers=True),
        Variant("lavish", "ptxas's highest level of register usage", {"register_level": 10}, registers=True),
    )
}
"""The variants by name, apart from combined ones. Of equally fast ones, the first is chosen."""


def variant(name: str) -> Variant:
    """The variant called `name`. `second+roomy` is `second`, with the registers of `roomy`.

    Raises ValueError if there is none.

    >>> variant("second+roomy").changes
    {'rank': 1, 'register_thresholds': 'serial_loads=0'}
    """
    first, *others = name.split(_AND)
    found = _variant(first)
    for other in map(_variant, others):
        if not other.registers:
            raise ValueError(
                f"variant '{name}': '{other.name}' does not combine, as it changes more than registers"
            )
        found = found.combined(other)
    return found


def _variant(name: str) -> Variant:
    try:
        return VARIANTS[name]
    except KeyError:
        raise ValueError(f"no variant '{name}'; there are {', '.join(VARIANTS)}") from None


def in_order(names: Iterable[str]) -> list[str]:
    """Names of variants in the order of `VARIANTS`, and combined ones behind them.

    >>> in_order({"second+roomy", "lower", "ours"})
    ['ours', 'lower', 'second+roomy']
    """
    wanted = set(names)
    return [name for name in VARIANTS if name in wanted] + sorted(wanted - VARIANTS.keys())


def refinements(name: str, among: Iterable[str]) -> list[str]:
    """The variants that differ from variant `name` in registers, and are not in `among` themselves: `name`
    combined with each of `among` that concerns registers and is not combined already.

    >>> refinements("second", ["ours", "roomy", "lavish"]), refinements("ours", ["roomy"])
    (['second+roomy', 'second+lavish'], [])
    >>> refinements("second+roomy", ["roomy", "lavish"])
    ['second+roomy+lavish']
    """
    if name == OURS:
        return []
    parts = name.split(_AND)
    alone = [other for other in among if other in VARIANTS and VARIANTS[other].registers]
    return [_AND.join((name, other)) for other in alone if other not in parts]


def refined_from(name: str) -> list[str]:
    """Variant `name`, and those that it is a refinement of, the nearest first.

    >>> refined_from("second+roomy+lavish"), refined_from("ours")
    (['second+roomy+lavish', 'second+roomy', 'second'], ['ours'])
    """
    return [*itertools.accumulate(name.split(_AND), lambda first, other: _AND.join((first, other)))][::-1]
