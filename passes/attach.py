"""Writes the linear layout of every value on the operation that defines it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import (
    ArrayAttr,
    Attribute,
    Operation,
    StringAttr,
    Type,
    UnitAttr,
    block_arguments,
    operations,
)
from triton_linear.passes import diagnostics
from triton_linear.passes.layouts import LayoutTable, Unknown
from triton_linear.passes.verifiers import Verifier, every_tensor_has_layout


@dataclass(frozen=True)
class AttachLayouts:
    """Writes the linear layout of every value on the operation that defines it.

    `ll.results` lists the layouts of an operation's results, `ll.arguments` those of the arguments of all its
    blocks; an entry is an `#ll.layout`, `unit` for a value that is neither tensor nor memory descriptor, or
    the reason why the layout is not known, which a remark reports as well. Operations without such values
    get neither. Operations that only change a shape must agree with their transfer function.

    Requires: nothing.
    Ensures: every tensor and memory descriptor has an entry.

        %0 = tt.splat %x : f32 -> tensor<64xf32, #blocked>
        %0 = tt.splat %x {ll.results = [#ll.layout<{...}, [64]>]} : f32 -> tensor<64xf32, #blocked>
    """

    name: ClassVar[str] = "linear-attach-layouts"
    summary: ClassVar[str] = "write the layout of every value on its operation and check shape operations"
    requires: ClassVar[tuple[Verifier, ...]] = ()
    ensures: ClassVar[tuple[Verifier, ...]] = (every_tensor_has_layout,)

    def __call__(self, op: Operation, pass_: Any) -> None:
        table = LayoutTable()
        entries: dict[Type, Attribute] = {}
        unit = UnitAttr.get(op.context)

        def entry(type_: Type) -> Attribute:
            if type_ not in entries:
                layout = table.of(type_)
                if layout is None:
                    entries[type_] = unit
                elif isinstance(layout, Unknown):
                    entries[type_] = StringAttr.get(layout.reason, op.context)
                else:
                    entries[type_] = ll.layout_attribute(layout, op.context)
            return entries[type_]

        arrays: dict[tuple[Type, ...], ArrayAttr | None] = {}

        def array(types: tuple[Type, ...]) -> ArrayAttr | None:
            if types not in arrays:
                found = [entry(type_) for type_ in types]
                nothing = all(attribute is unit for attribute in found)
                arrays[types] = None if nothing else ArrayAttr.get(found, op.context)
            return arrays[types]

        reported: set[Type] = set()
        for inner in operations(op):
            results = tuple([result.type for result in inner.results])
            arguments = tuple([a.type for a in block_arguments(inner)]) if len(inner.regions) else ()
            for name, types in ((ll.RESULTS, results), (ll.ARGUMENTS, arguments)):
                if types and (attached := array(types)) is not None:
                    inner.attributes[name] = attached
                for type_ in types:
                    layout = table.of(type_)
                    if isinstance(layout, Unknown) and type_ not in reported:
                        reported.add(type_)
                        diagnostics.remark(inner, f"no layout for '{type_}': {layout.reason}")
