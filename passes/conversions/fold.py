"""Removes conversions that need not exist."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import (
    Block,
    DenseElementsAttr,
    Operation,
    Type,
    Value,
    producers_of,
)
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.planners.conversion import Reach
from triton_linear.lowering.planners.conversion import conversion as conversion_between
from triton_linear.passes.framework import provenance
from triton_linear.passes.framework.base import Pass
from triton_linear.passes.framework.building import create
from triton_linear.passes.framework.layouts import LayoutTable, Unknown
from triton_linear.passes.framework.planning import exact_field
from triton_linear.passes.operations import names
from triton_linear.passes.reductions.held import KeptBits

# Operations that lower by the layout of their operand or result, whatever kind of encoding states it.
_TAKES_EITHER = frozenset({names.LOCAL_STORE, names.LOCAL_ALLOC, "tt.print", "tt.unsplat"})
_GIVES_EITHER = frozenset({names.LOCAL_LOAD, names.RANGE})


def same_map(a: LinearLayout, b: LinearLayout) -> bool:
    """Whether every thread holds the same elements in the same order of registers under both layouts.

    Copies that a thread holds in further registers (zero columns) do not count.
    """
    held = [[column for column in layout.columns(REGISTER) if column] for layout in (a, b)]
    rest = [[(dim, layout.columns(dim)) for dim in layout.in_dim_names if dim != REGISTER] for layout in (a, b)]
    return a.out_dims == b.out_dims and held[0] == held[1] and rest[0] == rest[1]


@dataclass(frozen=True)
class FoldConversions(Pass):
    """Removes conversions that need not exist.

    A conversion to the type its operand has; of a conversion, where the inner one dies or the whole is no
    more work; of a splat or a splat constant, which is made in the wanted type instead; of a value that the
    same conversion was applied to before, where that one dominates; between two encodings of one layout,
    where every user takes the operand or its producer can give the result. What was decided about a
    conversion that now starts elsewhere is forgotten. Conversions of what is held (`reductions/held.py`) stay.

    Requires: nothing; a conversion of a layout that is not known is left as it is.
    Ensures: values keep their layouts; no conversion is added, none moves into a loop.

        %1 = ttg.convert_layout %0 : #a -> #b ; %2 = ttg.convert_layout %1 : #b -> #c
        %2 = ttg.convert_layout %0 : #a -> #c
    """

    name: ClassVar[str] = "linear-fold-conversions"
    summary: ClassVar[str] = "remove conversions that need not exist"

    exact: bool = exact_field()

    def __call__(self, op: Operation, pass_: Any) -> None:
        ops = pass_.operations(op)
        if pass_.plans.lowered is None:
            pass_.plans.lowered = provenance.numbers(ops)
        held = KeptBits.of(op, pass_, exact=self.exact).held
        conversions = [inner for inner in ops if inner.name == names.CONVERT and inner.results[0] not in held]
        fold = _Fold(producers_of(ops))
        for conversion in conversions:
            fold.visit(conversion)
        for conversion in reversed(conversions):
            fold.erase_if_dead(conversion)


@dataclass
class _Fold:
    """The state of one run: who produces what, and which conversions each block has."""

    producers: dict[Value, Operation]
    layouts: LayoutTable = field(default_factory=LayoutTable)
    available: dict[Block, dict[tuple[Value, Type], Value]] = field(default_factory=dict)

    def visit(self, conversion: Operation) -> None:
        """Fold one conversion; those before it in the module are done."""
        self.bypass_conversions(conversion)
        source, result = conversion.operands[0], conversion.results[0]
        if source.type == result.type:
            self.replace(conversion, source)
        elif (constant := self.rematerialised(conversion)) is not None:
            self.replace(conversion, constant)
        elif self.same_layout(source.type, result.type) and self.fold_no_op(conversion):
            self.replace(conversion, source)
        elif (earlier := self.identical(conversion)) is not None:
            self.replace(conversion, earlier)

    def bypass_conversions(self, conversion: Operation) -> None:
        """Convert what the operand was converted from, where that is less work in all."""
        while (inner := self.producers.get(conversion.operands[0])) is not None and inner.name == names.CONVERT:
            source, middle, final = inner.operands[0].type, inner.results[0].type, conversion.results[0].type
            if not (source == final or self.same_layout(source, final)):
                # One block runs as often as itself; a conversion in front of a loop costs less than one in it.
                users = [use.owner.operation for use in inner.results[0].uses]
                together = all(user.name == names.CONVERT and user.block == inner.block for user in users)
                shorter = conversion.block == inner.block and self.no_farther(source, middle, final)
                if not (together or shorter):
                    return
            conversion.operands[0] = inner.operands[0]
            ll.undecide(conversion)

    def same_layout(self, a: Type, b: Type) -> bool:
        first, second = self.layouts.of(a), self.layouts.of(b)
        if isinstance(first, Unknown | None) or isinstance(second, Unknown | None):
            return False
        return same_map(first, second)

    def no_farther(self, source: Type, middle: Type, final: Type) -> bool:
        """Whether elements travel no farther from `source` to `final` than from `middle`, where they travel."""
        layouts = [self.layouts.of(type_) for type_ in (source, middle, final)]
        known = [layout for layout in layouts if not isinstance(layout, Unknown | None)]
        if len(known) < len(layouts):
            return False
        direct, step = (conversion_between(known[i], known[2]).reach for i in (0, 1))
        return Reach.THREAD < step >= direct

    def rematerialised(self, conversion: Operation) -> Value | None:
        """A splat made in the type that the conversion gives."""
        producer = self.producers.get(conversion.operands[0])
        wanted = conversion.results[0].type
        if producer is None:
            return None
        if producer.name == names.SPLAT:
            operands, attributes = [producer.operands[0]], {}
        elif producer.name == names.CONSTANT:
            value = producer.attributes["value"]
            if not (isinstance(value, DenseElementsAttr) and value.is_splat):
                return None
            dense = DenseElementsAttr.get_splat(wanted, value.get_splat_value())
            operands, attributes = [], {"value": dense}
        else:
            return None
        if ll.RESULTS in conversion.attributes:
            attributes[ll.RESULTS] = conversion.attributes[ll.RESULTS]
        splat = create(producer.name, operands, [wanted], conversion, producer.location, attributes)
        self.producers[splat.results[0]] = splat
        return splat.results[0]

    def identical(self, conversion: Operation) -> Value | None:
        """The result of an earlier conversion of the same value to the same type that dominates this one."""
        key = (conversion.operands[0], conversion.results[0].type)
        at: Operation | None = conversion
        while at is not None and at.parent is not None:
            if (found := self.available.get(at.block, {}).get(key)) is not None:
                return found
            at = at.parent
        self.available.setdefault(conversion.block, {})[key] = conversion.results[0]
        return None

    def fold_no_op(self, conversion: Operation) -> bool:
        """Whether the operations around a conversion that only renames the encoding can do without it."""
        source, result = conversion.operands[0], conversion.results[0]
        users = [use.owner for use in result.uses]
        producer = self.producers.get(source)
        if users and all(user.name in _TAKES_EITHER for user in users):
            return True
        if producer is None or producer.name not in _GIVES_EITHER or len(list(source.uses)) > 1:
            return False
        source.set_type(result.type)
        if ll.RESULTS in conversion.attributes:
            producer.attributes[ll.RESULTS] = conversion.attributes[ll.RESULTS]
        return True

    def replace(self, conversion: Operation, value: Value) -> None:
        """Let `value` stand for the conversion, which is left without uses."""
        conversion.results[0].replace_all_uses_with(value)

    def erase_if_dead(self, op: Operation) -> None:
        """Erase a conversion without uses, and the splat that only it used."""
        if list(op.results[0].uses):
            return
        producer = self.producers.get(op.operands[0])
        op.erase()
        if (
            producer is not None
            and producer.name in (names.SPLAT, names.CONSTANT)
            and not list(producer.results[0].uses)
        ):
            producer.erase()
