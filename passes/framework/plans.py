"""What the passes of a run decide, beside the module.

A plan is an object, and MLIR holds text. So the module says in attributes what was decided (`ll.plan`, the stub
that is called), and the plans themselves stand here, found by the operation: a conversion's by its two types,
that of a stub by the stub's name. Nobody plans a second time to learn what another pass has decided.

IR that comes from a file has the attributes alone. `stubs_of` then plans what the file says was planned.
"""

from __future__ import annotations

from dataclasses import field

from triton_linear.dialect.mlir_adapter import Operation, Type
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.plans import Plan, Selection
from triton_linear.lowering.plan.stubs import Stub

NOOP, STOCK = "noop", "stock"
"""Kinds of what has no code of ours: it moves nothing; Triton lowers it."""


@dataclass(frozen=True, slots=True)
class DecidedConversion:
    """A conversion that was left after folding, and what becomes of it.

    `kind` is that of its plan, which `detail` sums up; `STOCK` where Triton lowers it, `detail` then says why.
    `made`: it is none of those that the module came with. `partials`: it was made where a reduction was taken
    apart. `stub`: the function that is called in its place.
    `function`: the one that it is in.
    """

    location: str
    source: str
    destination: str
    kind: str
    detail: str
    partials: bool = False
    stub: str | None = None
    function: str = ""
    made: bool = False


@dataclass(frozen=True, slots=True)
class DecidedGather:
    """A gather, the types of its source and index as it is lowered, and what becomes of it, as above."""

    location: str
    source: str
    index: str
    kind: str
    detail: str
    stub: str | None = None
    function: str = ""


@dataclass(slots=True)
class Plans:
    """The plans of one run: selections by the types of a conversion, stubs by name, and what became of each
    conversion and gather, in the order of the module.

    lowered: the numbers of the module's own conversions (`provenance`) that were there as lowering began; None
    before.
    has_large_tensor: whether plans are priced for a kernel with a large tensor (`planning`); None before a pass
    asks.
    """

    selections: dict[tuple[Type, Type], Selection] = field(default_factory=dict)
    stubs: dict[str, Stub] = field(default_factory=dict)
    conversions: list[DecidedConversion] = field(default_factory=list)
    gathers: list[DecidedGather] = field(default_factory=list)
    lowered: set[int] | None = None
    has_large_tensor: bool | None = None

    def of(self, conversion: Operation) -> Plan | None:
        """The plan of a conversion; None where this run has not planned it."""
        found = self.selections.get((conversion.operands[0].type, conversion.results[0].type))
        return None if found is None else found.plan
