"""The variants of a kernel from which `triton-linear tune` chooses by measuring.

A variant is a change of the options in force. Variants differ in what no model decides right for every kernel:
whether the plugin compiles the kernel, and the five `Part`s. Variants of different parts combine:
`second+matrices+roomy`. With `stock` only those combine that concern registers, and change nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import Any, Final

from triton_linear.dialect.records import dataclass
from triton_linear.setting import Options

STOCK: Final = "stock"
OURS: Final = "ours"
COMPARED: Final = (STOCK, OURS)
"""The variants that every decision compares: stock Triton, and what is compiled without a decision."""

_BUSY_WARPS: Final = 16
"""Warps of a busy multiprocessor: two CTAs of eight warps, or four of four."""
_NO_MARGIN: Final = ("saved_clocks", "margin", "margin_with_memory", "unmeasured_margin")


class Part(Enum):
    """What a variant changes."""

    PASSES = "which of the plugin's passes run"
    LAYOUTS = "which assignment of layouts is taken"
    PRICES = "for how many warps plans and layouts are priced"
    PLANS = "which plans conversions have"
    REGISTERS = "how ptxas allocates registers"


@dataclass(frozen=True)
class Variant:
    """A variant: its name, a description in one line, and its changes of the options in force.

    `changes` is None for stock Triton. parts: what it changes; none for stock Triton and the whole plugin.
    """

    name: str
    what: str
    changes: Mapping[str, Any] | None = field(default_factory=dict)
    parts: frozenset[Part] = frozenset()

    @property
    def registers(self) -> bool:
        """Whether the variant changes only how ptxas allocates registers."""
        return self.parts == {Part.REGISTERS}

    def combines(self, other: Variant) -> bool:
        """Whether `combined(other)` is a variant. They have to change different parts, except that registers
        can be changed in several ways; and what is combined with stock Triton changes only registers."""
        if self.changes is None:
            return other.registers
        return bool(other.parts) and self.parts & other.parts <= {Part.REGISTERS}

    def of(self, options: Options) -> Options | None:
        """The options of this variant if `options` are in force; None: compile with stock Triton."""
        return None if self.changes is None else replace(options, **self.changes)

    def combined(self, other: Variant) -> Variant:
        """This variant with the changes of `other` on top."""
        changes = dict(_ONLY_REGISTERS if self.changes is None else self.changes)
        for name, value in (other.changes or {}).items():
            both = name in _LISTS and name in changes
            changes[name] = f"{changes[name]}{_LISTS[name]}{value}" if both else value
        return Variant(
            f"{self.name}{_AND}{other.name}", f"{self.what}; {other.what}", changes, self.parts | other.parts
        )


_AND: Final = "+"
_LISTS: Final = {"thresholds": ",", "register_thresholds": ",", "ptxas_options": " "}
"""Options whose values are lists, and what divides them. Of two values for the same, the later counts."""
_ONLY_REGISTERS: Final = {"assign": False, "lower": False, "reductions": False, "everywhere": True}
"""The options with which a kernel stays stock Triton's, but for its registers."""


def _variant_of(part: Part) -> Callable[..., Variant]:
    """A function that makes variants of one part."""

    def make(name: str, what: str, **changes: object) -> Variant:
        return Variant(name, what, changes, frozenset({part}))

    return make


_passes, _layouts, _prices, _plans, _registers = map(_variant_of, Part)

VARIANTS: Final = {
    variant.name: variant
    for variant in (
        Variant(STOCK, "as stock Triton compiles it", None),
        Variant(OURS, "all that the plugin does"),
        _passes(
            "lower", "Triton's layouts and reductions, our code for conversions", assign=False, reductions=False
        ),
        _passes("layouts", "our layouts, Triton's code for conversions", lower=False),
        _passes("whole", "reductions as Triton has them", reductions=False),
        _layouts("second", "the assignment of layouts that is next by modelled cost", rank=1),
        _layouts("third", "the one after that", rank=2),
        _layouts(
            "eager",
            "layouts that save anything by the model, without a margin",
            thresholds=",".join(f"{name}=0" for name in _NO_MARGIN),
        ),
        _prices("latency", "plans and layouts priced for the warps of one CTA", thresholds="likely_warps=0"),
        _prices(
            "throughput",
            f"plans and layouts priced for {_BUSY_WARPS} warps",
            thresholds=f"likely_warps={_BUSY_WARPS}",
        ),
        _plans(
            "matrices",
            "matrix loads in place of loads of one or two words, whatever the elements are",
            thresholds="matrix_load_bytes=8",
        ),
        _registers("unbounded", "registers as ptxas gives them", occupancy=False),
        _registers(
            "roomy",
            "more registers for fewer CTAs, wherever a warp is sooner done with them",
            register_thresholds="serial_loads=0",
        ),
        _registers(
            "bounded",
            "registers bounded for one more CTA, however few that are",
            register_thresholds="more_ctas=1,registers_near=8,bounded_clocks=2",
        ),
        _registers(
            "thrifty", "ptxas's lowest level of register usage", ptxas_options="--register-usage-level=0"
        ),
        _registers(
            "lavish", "ptxas's highest level of register usage", ptxas_options="--register-usage-level=10"
        ),
        _registers("plain", "ptxas's first level of optimisation", ptxas_options="-O1"),
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
        if not found.combines(other):
            raise ValueError(f"variant '{name}': '{other.name}' does not combine with '{found.name}'")
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
    """Variant `name` combined with each of `among` that it combines with, and that is not combined itself. For
    `ours` these would be `among`, which have been measured.

    >>> refinements("second", ["ours", "third", "matrices", "roomy"]), refinements("ours", ["roomy"])
    (['second+matrices', 'second+roomy'], [])
    >>> refinements("second+roomy", ["roomy", "lavish"])
    ['second+roomy+lavish']
    """
    if name == OURS:
        return []
    parts, found = name.split(_AND), variant(name)
    alone = [other for other in among if other in VARIANTS and other not in parts]
    return [_AND.join((name, other)) for other in alone if found.combines(VARIANTS[other])]


def refined_from(name: str) -> list[str]:
    """Variant `name`, and those that it is a refinement of, the nearest first.

    >>> refined_from("second+roomy+lavish"), refined_from("ours")
    (['second+roomy+lavish', 'second+roomy', 'second'], ['ours'])
    """
    return [*itertools.accumulate(name.split(_AND), lambda first, other: _AND.join((first, other)))][::-1]
