"""The `ll` dialect: layouts and plans as MLIR attributes.

    #ll.layout<{block = [], lane = [[1, 0], [2, 0]], register = [[0, 1]], warp = []}, [4, 2]>

is a linear layout: the basis vectors of each input dimension, one coordinate for each tensor dimension, then
the sizes of the tensor dimensions. Input dimensions are those of a distributed tensor (`register`, `lane`,
`warp`, `block`) or of shared memory (`offset`, `block`). The text lists them alphabetically, the layout has
them in the order given here.

    #ll.plan<"shuffle", {clocks = 6.0 : f64, scratch_bytes = 0, shuffles = 4}, ["registers: ..."]>

describes the plan of a conversion: its kind, the figures of its cost, and the planners that were rejected,
each with the reason. The dialect is defined by IRDL text, so a context that has loaded it parses, verifies
and prints these attributes like any other.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache

from triton_linear.dialect.linear_layout import BLOCK, LANE, OFFSET, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    Context,
    MLIRError,
    OpaqueAttr,
    Operation,
    StringAttr,
    load_irdl,
)
from triton_linear.dialect.records import dataclass

# Attributes that the passes leave on operations.
PLAN = "ll.plan"
STOCK = "ll.stock"
SOURCE = "ll.source"
DESTINATION = "ll.destination"
ELEMENT = "ll.element"
SCRATCH_LIMIT = "ll.scratch_limit"
ACCUMULATORS = "ll.accumulators"
ASSIGNED = "ll.assigned"
WIDENED = "ll.widened"
EARLY = "ll.early"
AWAITED = "ll.awaited"
SPLIT = "ll.split"
DEFERRED = "ll.deferred"
PARTIALS = "ll.partials"
OWN = "ll.own"

CHANGES = (AWAITED, ASSIGNED, DEFERRED, SPLIT, WIDENED, EARLY)
"""Attributes that passes leave on a module if they change more than its conversions."""

DEFINITION = """
irdl.dialect @ll {
  irdl.attribute @layout {
    %bases = irdl.base "#builtin.dictionary"
    %sizes = irdl.base "#builtin.array"
    irdl.parameters(bases: %bases, sizes: %sizes)
  }
  irdl.attribute @plan {
    %kind = irdl.base "#builtin.string"
    %figures = irdl.base "#builtin.dictionary"
    %rejected = irdl.base "#builtin.array"
    irdl.parameters(kind: %kind, figures: %figures, rejected: %rejected)
  }
}
"""

_FAMILIES = ((REGISTER, LANE, WARP, BLOCK), (OFFSET, BLOCK))
_LAYOUT = re.compile(r"#ll\.layout<\{(?P<bases>.*)\}, (?P<sizes>\[[\d, ]*\])>")
_BASES = re.compile(r'"?(?P<name>\w+)"? = (?P<vectors>\[(?:[^\[\]]|\[[^\[\]]*\])*\])')
_PLAN = re.compile(r'#ll\.plan<"(?P<kind>[^"]*)", \{(?P<figures>[^}]*)\}, \[(?P<rejected>.*)\]>', re.DOTALL)
_FIGURE = re.compile(r"(\w+) = ([^,:]+)")
_STRING = re.compile(r'"([^"]*)"')
_ESCAPE = re.compile(r"((?:\\[0-9A-F]{2})+)|\\\\")


def is_loaded(context: Context) -> bool:
    """Whether `context` has loaded the dialect: if not, `#ll.layout` parses as an opaque attribute."""
    try:
        return not isinstance(Attribute.parse("#ll.layout<{}, []>", context), OpaqueAttr)
    except MLIRError:
        return False


def load(context: Context) -> None:
    """Load the dialect into `context`, unless it is loaded already."""
    if not is_loaded(context):
        load_irdl(context, DEFINITION)


@lru_cache(maxsize=4096)
def layout_text(layout: LinearLayout) -> str:
    """`layout` as it is written in IR.

    >>> layout_text(LinearLayout.identity_1d(4, "lane", "dim0"))
    '#ll.layout<{lane = [[1], [2]]}, [4]>'
    """
    names = layout.in_dim_names
    if list(names) != _ordered(names):
        raise ValueError(f"layout_text: in-dims {', '.join(names)} are in none of the orders {_FAMILIES}")
    sizes = [layout.out_dim_size(name) for name in layout.out_dim_names]
    if tuple(layout.out_dim_names) != dim_names(len(sizes)):
        raise ValueError(f"layout_text: out-dims {', '.join(layout.out_dim_names)} are not dim0, dim1, ...")
    bases = sorted((name, json.dumps(vectors)) for name, vectors in layout.bases)
    return f"#ll.layout<{{{', '.join(f'{name} = {vectors}' for name, vectors in bases)}}}, {json.dumps(sizes)}>"


def _ordered(names: Iterable[str]) -> list[str]:
    """`names` in the order of the family of input dimensions that has them all."""
    wanted = set(names)
    for family in _FAMILIES:
        if wanted <= set(family):
            return [name for name in family if name in wanted]
    raise ValueError(f"layout_text: in-dims {', '.join(names)} are not of one of {_FAMILIES}")


@lru_cache(maxsize=4096)
def layout_from_text(text: str) -> LinearLayout:
    """The layout of an `#ll.layout`.

    Requires: `text` is spelled exactly as MLIR prints it. Raises ValueError otherwise.

    >>> layout_from_text('#ll.layout<{lane = [[1], [2]]}, [4]>').apply({"lane": 3})
    {'dim0': 3}
    """
    if (match := _LAYOUT.fullmatch(text)) is None:
        raise ValueError(f"layout_from_text: expected #ll.layout<{{bases}}, [sizes]>, got '{text}'")
    bases = {found["name"]: json.loads(found["vectors"]) for found in _BASES.finditer(match["bases"])}
    sizes = json.loads(match["sizes"])
    ordered = [(name, bases[name]) for name in _ordered(bases)]
    try:
        layout = LinearLayout.from_bases(ordered, dim_names(len(sizes)), sizes, require_surjective=False)
    except TypeError as error:
        raise ValueError(f"layout_from_text: expected lists of integers, got '{text}': {error}") from error
    if layout_text(layout) != text:
        raise ValueError(f"layout_from_text: expected {layout_text(layout)}, got '{text}'")
    return layout


def layout_from_attribute(attribute: Attribute) -> LinearLayout:
    """The layout of an `#ll.layout`."""
    return layout_from_text(str(attribute))


def undecide(conversion: Operation) -> None:
    """Remove the attributes that record how a conversion is to be lowered."""
    for decision in (PLAN, STOCK, SCRATCH_LIMIT):
        if decision in conversion.attributes:
            del conversion.attributes[decision]


@dataclass(frozen=True)
class PlanRecord:
    """The contents of an `#ll.plan`: the kind of the plan, the figures of its cost, and the rejected
    planners.
    """

    kind: str
    figures: tuple[tuple[str, float], ...]
    rejected: tuple[str, ...]


def plan_attribute(
    kind: str, figures: Mapping[str, float], rejected: Iterable[str], context: Context
) -> Attribute:
    """A plan as an attribute of `context`, which has the dialect loaded."""

    def quote(text: str) -> str:
        return str(StringAttr.get(text, context))

    numbers = ", ".join(
        f"{name} = {value:d}" if isinstance(value, int) else f"{name} = {value:.17e} : f64"
        for name, value in sorted(figures.items())
    )
    reasons = ", ".join(map(quote, rejected))
    return Attribute.parse(f"#ll.plan<{quote(kind)}, {{{numbers}}}, [{reasons}]>", context)


@lru_cache(maxsize=4096)
def plan_from_text(text: str) -> PlanRecord:
    """The contents of a printed `#ll.plan`.

    >>> plan_from_text('#ll.plan<"shuffle", {shuffles = 4}, ["registers: lane=1 moves"]>').rejected
    ('registers: lane=1 moves',)
    """
    if (match := _PLAN.fullmatch(text)) is None:
        raise ValueError(f"plan_from_text: expected #ll.plan<kind, {{figures}}, [rejected]>, got '{text}'")
    figures = tuple((name, _number(value.strip())) for name, value in _FIGURE.findall(match["figures"]))
    rejected = tuple(map(_unescaped, _STRING.findall(match["rejected"])))
    return PlanRecord(match["kind"], figures, rejected)


def _number(text: str) -> float:
    """The value of a printed number; MLIR prints a float as its bits if a short decimal would not be exact."""
    if text.startswith("0x"):
        return float(struct.unpack(">d", bytes.fromhex(text[2:].zfill(16)))[0])
    number: float = json.loads(text)
    return number


def _unescaped(text: str) -> str:
    """The text of a printed string; MLIR prints a byte that is not printable ASCII as `\\` and two hex
    digits.
    """
    return _ESCAPE.sub(lambda m: bytes.fromhex(m[1].replace("\\", "")).decode() if m[1] else "\\", text)


def plan_from_attribute(attribute: Attribute) -> PlanRecord:
    """The contents of an `#ll.plan`."""
    return plan_from_text(str(attribute))
