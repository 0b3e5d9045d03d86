"""The plans that the passes of a run decide on, kept beside the module.

A plan is a Python object, but attributes of MLIR hold text. So the module records decisions in attributes
(`ll.plan`, the called stub), and this module has the plans: of conversions by their two types and the record,
of stubs by name. So no pass plans a conversion again that another pass has planned.

IR that was read from a file has the attributes only. `stubs_of` then makes the recorded plans again.
"""

from __future__ import annotations

from dataclasses import field

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Attribute, Operation, Type
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.plans import Plan, Selection, Stub

NOOP, STOCK = "noop", "stock"
"""Kinds of conversions without emitted code: a no-op moves nothing; Triton lowers a stock one."""


@dataclass(frozen=True, slots=True)
class DecidedConversion:
    """A conversion that was left when lowering began, and how it is lowered.

    kind: the kind of its plan; `STOCK` if Triton lowers it. detail: a summary of the plan, or the reason for
    `STOCK`. partials: True if it converts the partial results of a split reduction. stub: the function that is
    called in its place. function: the name of the function that it is in. made: True if a pass made it.
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


@dataclass(slots=True)
class Plans:
    """The plans of one run: selections by the types of a conversion and the record of its plan, stubs by name,
    and the decision about each conversion, in the order of the module.

    lowered: the numbers of the original conversions (`provenance`) that remained when lowering began; None
    before.
    has_large_tensor: True if plans are priced for a kernel with a large tensor (`planning`); None before a pass
    asks.
    """

    selections: dict[tuple[Type, Type, Attribute], Selection] = field(default_factory=dict)
    stubs: dict[str, Stub] = field(default_factory=dict)
    conversions: list[DecidedConversion] = field(default_factory=list)
    lowered: set[int] | None = None
    has_large_tensor: bool | None = None

    def of(self, conversion: Operation) -> Plan | None:
        """The plan of a conversion; None if this run has not planned it."""
        selection = self.selections.get(_key(conversion)) if ll.PLAN in conversion.attributes else None
        return None if selection is None else selection.plan

    def keep(self, conversion: Operation, selection: Selection) -> None:
        """Keep what was selected for a conversion that has the record of its plan."""
        self.selections[_key(conversion)] = selection


def _key(conversion: Operation) -> tuple[Type, Type, Attribute]:
    return conversion.operands[0].type, conversion.results[0].type, conversion.attributes[ll.PLAN]
