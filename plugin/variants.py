"""The variants of a kernel from which `triton-linear tune` chooses by measuring.

A variant is a change of the options in force. Variants differ in what no model decides right for every kernel:
whether the plugin compiles the kernel, and the six `Part`s. Variants of different parts combine:
`second+matrices+bounded`. With `stock` only those combine that concern ptxas, and change nothing else.
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


class Part(Enum):
    """What a variant changes."""

    PASSES = "which of the plugin's passes run"
    LAYOUTS = "which assignment of layouts is taken"
    PRICES = "for how many warps plans and layouts are priced"
    PLANS = "which plans conversions have"
    LOADS = "when loads begin"
    ASSEMBLY = "how ptxas assembles the code"


@dataclass(frozen=True)
class Variant:
    """A variant: its name, a description in one line, and its changes of the options in force.

    `changes` is None for stock Triton. parts: what it changes, or leaves nothing to change of; none for stock
    Triton and the whole plugin.
    """

    name: str
    what: str
    changes: Mapping[str, Any] | None = field(default_factory=dict)
    parts: frozenset[Part] = frozenset()

    @property
    def assembly(self) -> bool:
        """Whether the variant changes only how ptxas assembles the code."""
        return self.parts == {Part.ASSEMBLY}

    def combines(self, other: Variant) -> bool:
        """Whether `combined(other)` is a variant. They have to change different parts, except that ptxas is
        asked by several settings; what is combined with stock Triton changes only these."""
        if keeps_stock(self.name):
            parts = other.assembly
        else:
            parts = bool(other.parts) and self.parts & other.parts <= {Part.ASSEMBLY}
        return parts and _settings(self).isdisjoint(_settings(other))

    def of(self, options: Options) -> Options | None:
        """The options of this variant if `options` are in force; None: compile with stock Triton."""
        return None if self.changes is None else replace(options, **self.changes)

    def combined(self, other: Variant) -> Variant:
        """This variant with the changes of `other` as well."""
        changes = dict(_ONLY_ASSEMBLY if self.changes is None else self.changes)
        for name, value in (other.changes or {}).items():
            both = name in _LISTS and name in changes
            changes[name] = f"{changes[name]}{_LISTS[name]}{value}" if both else value
        return Variant(
            f"{self.name}{_AND}{other.name}", f"{self.what}; {other.what}", changes, self.parts | other.parts
        )


_AND: Final = "+"
_LISTS: Final = {"thresholds": ",", "register_thresholds": ",", "ptxas_options": " "}
"""Options whose values are lists of settings, and what divides them."""
_ONLY_ASSEMBLY: Final = {"assign": False, "lower": False, "reductions": False, "everywhere": True}
"""The options with which a kernel stays stock Triton's, but for how ptxas assembles it."""


def _settings(variant: Variant) -> set[str]:
    """The names of what a variant sets: options, and settings in lists of them."""
    found = set[str]()
    for name, value in (variant.changes or {}).items():
        settings = value.split(_LISTS[name]) if name in _LISTS else [name]
        found.update(each.partition("=")[0] for each in settings)
    return found


def _variant_of(*parts: Part) -> Callable[..., Variant]:
    """A function that makes variants of these parts."""

    def make(name: str, what: str, **changes: object) -> Variant:
        return Variant(name, what, changes, frozenset(parts))

    return make


_layouts = _variant_of(Part.LAYOUTS)
_prices = _variant_of(Part.PRICES)
_loads = _variant_of(Part.LOADS)
_assembly = _variant_of(Part.ASSEMBLY)

VARIANTS: Final = {
    variant.name: variant
    for variant in (
        Variant(STOCK, "as stock Triton compiles it", None),
        Variant(OURS, "all that the plugin does"),
        _variant_of(Part.PASSES, Part.LAYOUTS)(
            "lower", "Triton's layouts and reductions, our code for conversions", assign=False, reductions=False
        ),
        _variant_of(Part.PASSES, Part.PLANS)(
            "layouts", "our layouts, Triton's code for conversions", lower=False
        ),
        _variant_of(Part.PASSES)("whole", "reductions as Triton has them", reductions=False),
        _layouts("second", "the assignment of layouts that is next by modelled cost", rank=1),
        _layouts("third", "the one after that", rank=2),
        _layouts(
            "eager",
            "layouts that save anything by the model, without a margin",
            thresholds="margin=0",
        ),
        _prices("latency", "plans and layouts priced for the warps of one CTA", thresholds="likely_warps=0"),
        _prices(
            "throughput",
            f"plans and layouts priced for {_BUSY_WARPS} warps",
            thresholds=f"likely_warps={_BUSY_WARPS}",
        ),
        _variant_of(Part.PLANS)(
            "matrices",
            "matrix loads in place of loads of one or two words, whatever the elements are",
            thresholds="matrix_bytes=8",
        ),
        _variant_of(Part.PLANS)(
            "replacing",
            "multiplications on another pipe in place of selects, wherever the model gains by that",
            thresholds="replacing=1",
        ),
        _loads("ahead", "loads of loops an iteration ahead, however few warps fit", thresholds="warps_ahead=0"),
        _loads("behind", "no loads of loops an iteration ahead", without="linear-load-ahead"),
        _assembly("unbounded", "registers as ptxas gives them", occupancy=False),
        _assembly(
            "bounded",
            "registers bounded for one more CTA, however few that are",
            register_thresholds="more_ctas=1,registers_near=8",
        ),
        _assembly(
            "thrifty", "ptxas's lowest level of register usage", ptxas_options="--register-usage-level=0"
        ),
        _assembly(
            "lavish", "ptxas's highest level of register usage", ptxas_options="--register-usage-level=10"
        ),
        _assembly("plain", "ptxas's first level of optimisation", ptxas_options="-O1"),
    )
}
"""The variants by name, apart from combined ones. Of equally fast ones, the first is chosen."""


def variant(name: str) -> Variant:
    """The variant called `name`. `second+bounded` is `second`, with the registers of `bounded`. The name of the
    result has the parts in the order of `VARIANTS`.

    Raises ValueError if there is none.

    >>> variant("thrifty+second").name, variant("thrifty+second").changes
    ('second+thrifty', {'rank': 1, 'ptxas_options': '--register-usage-level=0'})
    """
    first, *others = sorted(map(_variant, name.split(_AND)), key=list(VARIANTS.values()).index)
    found = first
    for other in others:
        if not found.combines(other):
            raise ValueError(f"variant '{name}': '{other.name}' does not combine with '{found.name}'")
        found = found.combined(other)
    return found


def keeps_stock(name: str) -> bool:
    """Whether the variant called `name` is stock Triton's kernel but for how ptxas assembles it.

    >>> keeps_stock("stock+bounded"), keeps_stock("bounded")
    (True, False)
    """
    return name.partition(_AND)[0] == STOCK


def _variant(name: str) -> Variant:
    try:
        return VARIANTS[name]
    except KeyError:
        raise ValueError(f"no variant '{name}'; there are {', '.join(VARIANTS)}") from None


def in_order(names: Iterable[str]) -> list[str]:
    """Names of variants in the order of `VARIANTS`, and combined ones behind them.

    >>> in_order({"second+bounded", "lower", "ours"})
    ['ours', 'lower', 'second+bounded']
    """
    wanted = set(names)
    return [name for name in VARIANTS if name in wanted] + sorted(wanted - VARIANTS.keys())


def refinements(name: str, among: Iterable[str]) -> list[str]:
    """Variant `name` combined with each of `among` that it combines with, and that is not combined itself. For
    `ours` these would be `among`, which have been measured.

    >>> refinements("second", ["ours", "third", "matrices", "bounded"]), refinements("ours", ["bounded"])
    (['second+matrices', 'second+bounded'], [])
    >>> refinements("bounded", ["bounded", "second", "lavish"])
    ['second+bounded', 'bounded+lavish']
    """
    if name == OURS:
        return []
    found = variant(name)
    alone = [VARIANTS[other] for other in among if other in VARIANTS]
    return [variant(_AND.join((name, other.name))).name for other in alone if found.combines(other)]


def refined_from(name: str) -> list[str]:
    """Variant `name`, and those that it is a combination of and others, the most similar first.

    >>> refined_from("second+bounded+lavish")[:4]
    ['second+bounded+lavish', 'second+bounded', 'second+lavish', 'bounded+lavish']
    >>> refined_from("stock+bounded")
    ['stock+bounded', 'stock']
    """
    parts = name.split(_AND)
    always = parts[:1] if keeps_stock(name) else []
    rest = parts[len(always) :]
    counts = range(len(rest), -1 if always else 0, -1)
    return [_AND.join((*always, *some)) for count in counts for some in itertools.combinations(rest, count)]
