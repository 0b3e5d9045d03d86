"""Write the linear layout of every value on the operation that defines it."""

from __future__ import annotations

from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    Context,
    Operation,
    StringAttr,
    Type,
    block_arguments,
    operations,
)
from triton_linear.dialect.records import dataclass
from triton_linear.passes.conversions.shapes import check_shape_operation
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.base import Pass
from triton_linear.passes.framework.layouts import Layout, LayoutTable, Unknown
from triton_linear.passes.framework.verifiers import Verifier, every_tensor_has_layout


@dataclass(frozen=True)
class AttachLayouts(Pass):
    """Writes the linear layout of every value on the operation that defines it.

    `ll.results` lists the layouts of an operation's results, `ll.arguments` those of the arguments of all its
    blocks. An entry is an `#ll.layout`, `unit` for a value that is neither tensor nor memory descriptor, or the
    reason why the layout is not known, which a remark reports as well. An operation without tensors and memory
    descriptors gets no attribute. The layouts of an operation that only changes a shape must agree with its
    transfer function.

    Requires: nothing.
    Ensures: every tensor and memory descriptor has an entry.

        %0 = tt.splat %x : f32 -> tensor<64xf32, #blocked>
        %0 = tt.splat %x {ll.results = [#ll.layout<{...}, [64]>]} : f32 -> tensor<64xf32, #blocked>
    """

    name: ClassVar[str] = "linear-attach-layouts"
    summary: ClassVar[str] = "write the layout of every value on its operation and check shape operations"
    ensures: ClassVar[tuple[Verifier, ...]] = (every_tensor_has_layout,)

    def __call__(self, op: Operation, pass_: Any) -> None:
        layouts = _Layouts(op.context)
        agree = True
        for inner in operations(op):
            agree &= check_shape_operation(inner, layouts.table)
            results = tuple([result.type for result in inner.results])
            arguments = tuple([a.type for a in block_arguments(inner)])
            for name, types in ((ll.RESULTS, results), (ll.ARGUMENTS, arguments)):
                if types and (attached := layouts.attribute(types, inner)) is not None:
                    inner.attributes[name] = attached
        if not agree:
            pass_.signal_pass_failure()


class _Layouts:
    """Makes the attributes that state the layouts of a list of values; equal lists share one attribute."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = LayoutTable()
        self.made: dict[tuple[Type, ...], Attribute | None] = {}
        self.reported: set[Type] = set()

    def attribute(self, types: tuple[Type, ...], op: Operation) -> Attribute | None:
        """The layouts of values of these types that `op` defines; None if there is none to state."""
        if types not in self.made:
            found = [self.table.of(type_) for type_ in types]
            # The whole list is parsed at once: the bindings do a lookup for each attribute object that they
            # return.
            text = ", ".join(map(self.entry, found))
            nothing = all(layout is None for layout in found)
            self.made[types] = None if nothing else Attribute.parse(f"[{text}]", self.context)
            for type_, layout in zip(types, found, strict=True):
                if isinstance(layout, Unknown) and type_ not in self.reported:
                    self.reported.add(type_)
                    diagnostics.remark(op, f"no layout for '{type_}': {layout.reason}")
        return self.made[types]

    def entry(self, layout: Layout | None) -> str:
        """The text of one entry."""
        if layout is None:
            return "unit"
        if isinstance(layout, Unknown):
            return str(StringAttr.get(layout.reason, self.context))
        return ll.layout_text(layout)
